#include <string.h>
#include <vipl/vipl_ext.h>

#include <new>
#include <optional>
#include <utility>

#include "sovia/background/background_state.h"
#include "sovia/background/dear_lanes.h"
#include "sovia/background/kernel_watch.h"
#include "sovia/background/lane_finisher.h"
#include "sovia/lane/arrival_threads.h"
#include "sovia/lane/engine.h"
#include "sovia/lane/vi_transport.h"
#include "sovia/poll/epoll_set.h"
#include "sovia/process/clock.h"
#include "sovia/process/counters.h"
#include "sovia/process/guarded_copy.h"
#include "sovia/process/libc.h"
#include "sovia/process/options.h"
#include "sovia/process/own_descriptors.h"
#include "sovia/process/rings.h"
#include "sovia/socket/fallback.h"
#include "sovia/socket/held_sends.h"
#include "sovia/socket/lane_life.h"
#include "xdp/mutex.h"

namespace viaduct::sovia::background {
namespace {

constexpr std::uint32_t kPeerMs = 1000;              // for the peer to ask for a lane too
constexpr std::uint64_t kGreetingNs = 2'000 * kMs;   // for the peer's first packet
constexpr std::uint64_t kCrowdNs = 5'000 * kMs;      // for a place among the claims that an agent takes of a process
constexpr std::uint64_t kClaimNs = 3'000 * kMs;      // for the peer to ask our agent
constexpr std::uint64_t kNoPeerNs = 1'000 * kMs;     // how long a silent peer is not asked again
constexpr unsigned kNoPeerDoublings = 5;             // of kNoPeerNs, one each time that the peer is silent
constexpr std::uint64_t kWayNs = 1'000 * kMs;        // how long the last way to a peer's address is used
constexpr unsigned kEarlyClaims = 64;                // of the 256 that an agent takes; other lanes claim later

// The name of the agent's first NIC, for clients that do not know its interface.
constexpr char kFirstNic[] = "VINIC";

// Called by a thread of VIPL's.
void on_nic_lost(ProcessNic& nic) {
  engine::lost(nic);
  state().nic_lost.store(true);
  poke();
}

Reason nic_for(const Way& way) {
  if (ProcessNic* const nic = engine::nic(); nic != nullptr) {
    return way.local || strcmp(nic->interface(), way.interface) == 0 ? Reason::kNone : Reason::kOtherNic;
  }
  constexpr std::uint64_t kAgainNs = 1'000 * kMs;
  if (state().nic_failure != Reason::kNone && now_ns() < state().nic_failed_at + kAgainNs) return state().nic_failure;
  if (rings::are_refused() && rings::has_any()) return Reason::kIoUring;
  ProcessNic* const nic = ProcessNic::open(way.local ? kFirstNic : way.interface, on_nic_lost);
  state().nic_failure = nic != nullptr ? Reason::kNone : is_forbidden(errno) ? Reason::kSandbox : Reason::kNoNic;
  state().nic_failed_at = now_ns();
  if (nic == nullptr) return state().nic_failure;
  own_descriptors::count_vipl(VipxDescriptors);
  nic->set_finisher(finish_lanes);
  engine::set_nic(nic);
  start_arrival_threads(*nic);
  return Reason::kNone;
}

VipxFlow flow_for_agents(const Flow& flow) {
  VipxFlow to{};
  to.Family = flow.ipv6 ? AF_INET6 : AF_INET;
  memcpy(&to.LocalPort, flow.local.port, sizeof to.LocalPort);
  memcpy(&to.RemotePort, flow.remote.port, sizeof to.RemotePort);
  memcpy(to.LocalAddress, flow.local.address, sizeof to.LocalAddress);
  memcpy(to.RemoteAddress, flow.remote.address, sizeof to.RemoteAddress);
  return to;
}

bool same_hosts(const Flow& a, const Flow& b) {
  return a.ipv6 == b.ipv6 && memcmp(a.local.address, b.local.address, sizeof a.local.address) == 0 &&
         memcmp(a.remote.address, b.remote.address, sizeof a.remote.address) == 0;
}

// As find_way(), with the last answer cached: asking the kernel costs as much as the rest of open_lane().
Reason look_up_way(const Flow& flow, Way& way) {
  State::KnownWay& known = state().known_way;
  if (now_ns() < known.until && same_hosts(known.flow, flow)) {
    way = known.way;
    return Reason::kNone;
  }
  way.local = false;
  Reason why = is_loopback(flow) ? Reason::kLocal : find_way(flow, way);
  if (why == Reason::kLocal && options().local != 0) {
    way.local = true;
    why = Reason::kNone;
  }
  if (why == Reason::kNone) known = {flow, way, now_ns() + kWayNs};
  return why;
}

// Any NIC reaches a peer on this host, if both have the same one: both ends take the agent's first, unless they have
// one already.
Reason open_nic(const Flow& flow, Way& way) {
  Reason why = look_up_way(flow, way);
  if (why == Reason::kNone) why = nic_for(way);
  if (!way.local) return why;
  if (why != Reason::kNone) return Reason::kLocal;
  memcpy(way.peer, engine::nic()->address(), sizeof way.peer);
  return Reason::kNone;
}

bool reversed(const VipxFlow& a, const VipxFlow& b) {
  return a.Family == b.Family && a.LocalPort == b.RemotePort && a.RemotePort == b.LocalPort &&
         memcmp(a.LocalAddress, b.RemoteAddress, sizeof a.LocalAddress) == 0 &&
         memcmp(a.RemoteAddress, b.LocalAddress, sizeof a.RemoteAddress) == 0;
}

// Whether the connection's other end is in this process, too: such a connection gets no lane.
bool is_own(const VipxFlow& flow) {
  bool own = reversed(flow, flow);
  for (LaneEndpoint* const end : state().ends) {
    if (!reversed(flow, end->flow)) continue;
    end->to_itself = own = true;
  }
  return own;
}

// Has this host's agent vouch to the peer that this end belongs to the connection; otherwise the peer refuses the lane.
// VIP_NOT_DONE: the agent takes no more claims of this process now, and other lanes will give theirs back in a moment.
VIP_RETURN claim(LaneEndpoint& end, std::uint64_t now) {
  ProcessNic* const nic = engine::nic();
  if (nic == nullptr) return VIP_INVALID_STATE;
  const VIP_RETURN result = VipxClaim(nic->handle(), &end.flow, end.token);
  end.claimed = result == VIP_SUCCESS;
  if (result == VIP_ERROR_RESOURCE && now < end.asked_at + kCrowdNs) return VIP_NOT_DONE;
  if (!end.claimed) SOVIA_LOG("our agent does not vouch for us: %s", VipxReturnText(result));
  // With SOVIA_VOUCH=0 a failed claim is no error.
  return options().vouch == 0 ? VIP_SUCCESS : result;
}

// Makes the claim before the peer has connected, so that the lane is open earlier. A claim that fails is tried again
// when the peer has connected.
void claim_early(LaneEndpoint& end) {
  if (state().early_claims >= kEarlyClaims) return;
  claim(end, end.asked_at);
  if (end.claimed) ++state().early_claims;
}

// An early claim does not count as one any more when the VI is connected, or will never be.
void settle_early_claim(const LaneEndpoint& end) {
  if (end.claimed && !end.connected) --state().early_claims;
}

// Decides whether the lane can be used, by asking the peer's agent. kNone: it can.
Reason judge(LaneEndpoint& end) {
  ProcessNic* const nic = engine::nic();
  union {
    VIP_NET_ADDRESS address;
    std::uint8_t room[sizeof(VIP_NET_ADDRESS) + 6];
  } host{};
  host.address.HostAddressLen = sizeof end.host;
  memcpy(host.address.HostAddress, end.host, sizeof end.host);
  std::uint8_t token[kTokenBytes];
  {
    const LockGuard guard(end.lane.lock());
    if (end.lane.control.broken() && !end.silent) return Reason::kPeerLeft;
    if (!end.lane.greeting.has_hello()) return Reason::kNoPeer;
    memcpy(token, end.lane.greeting.peer_token(), sizeof token);
  }
  if (options().vouch == 0) return Reason::kNone;
  if (nic == nullptr) return Reason::kNoNic;
  const VIP_RETURN result = VipxVerify(nic->handle(), &host.address, &end.flow, token);
  if (result == VIP_SUCCESS) return Reason::kNone;
  SOVIA_LOG("the peer's agent: %s", VipxReturnText(result));
  const LockGuard guard(end.lane.lock());
  return end.lane.control.broken() ? Reason::kPeerLeft : Reason::kNotVouched;
}

// The record of a silent peer. All are forgotten when they become too many.
State::Silence& silence_of(const FlowEnd& peer) {
  constexpr std::size_t kPeers = 1024;
  if (state().no_peer.size() >= kPeers && !state().no_peer.contains(peer)) state().no_peer.clear();
  return state().no_peer[peer];
}

// The peer has not asked for a lane in time. If it has opened other lanes meanwhile, it does use SOVIA, and only this
// connection has ended there.
void remember_silence(const LaneEndpoint& end) {
  State::Silence& silence = silence_of(end.peer);
  if (silence.answered_at >= end.asked_at) return;
  {
    const LockGuard guard(requests().lock);
    requests().known.forget(end.peer);
    requests().knows_any.store(!requests().known.empty());
  }
  silence.until = now_ns() + (kNoPeerNs << silence.times);
  if (silence.times < kNoPeerDoublings) ++silence.times;
  state().known_way.until = 0;
}

bool refuse(LaneEndpoint& end, Reason why) {
  if (why == Reason::kNoPeer) remember_silence(end);
  lane_refused(*end.socket, why);
  return false;
}

void tell(Reason why) {
  counters::fell(why);
  SOVIA_LOG("no lane: %s", text_of(why));
}

}  // namespace

LaneOptions lane_options(const SocketModes& modes) {
  constexpr std::uint32_t kFirstWindow = 8;
  const Options& chosen = options();
  return {.window = static_cast<std::uint32_t>(chosen.window),
          .ack_threshold = static_cast<std::uint32_t>(chosen.ack_threshold),
          .combine = chosen.combine != 0,
          .copy = copy_guarded,
          .messages = modes.carries_messages(),
          .join = chosen.join != 0,
          .strict_window = chosen.strict_window != 0,
          .timer = chosen.combine_timer != 0,
          .first_window = kFirstWindow};
}

Reason open_nic(const Flow& flow) {
  Way way;
  return open_nic(flow, way);
}

Reason open_nic_for_datagrams(const Flow& flow, Way& way) { return open_nic(flow, way); }

namespace {

// Makes a lane on a VI, which asks for its peer. nullptr: something has run out.
LaneEndpoint* make_end(Task& task, const Way& way) {
  Socket& socket = *task.socket;
  const LaneOptions lane = lane_options(socket.modes);
  const std::uint32_t number = lane_number(socket);
  // Arrivals are paused: the peer may be waiting for this VI, and a packet may come before the VI has an owner.
  engine::pause();
  ViTransport* const vi = ViTransport::make(*engine::nic(), places_for(lane), task.flow, way.peer, number, kPeerMs);
  LaneEndpoint* const end =
      vi != nullptr ? new (std::nothrow) LaneEndpoint(socket.reference(), socket, *vi, lane) : nullptr;
  if (vi != nullptr && end == nullptr) vi->destroy();
  engine::go_on();
  if (end != nullptr) engine::count_lanes(1);
  return end;
}

}  // namespace

Reason open_lane(Task& task) {
  const auto remembered = state().no_peer.find(task.peer);
  if (remembered != state().no_peer.end() && now_ns() < remembered->second.until) {
    return Reason::kNoPeer;
  }
  Way way;
  const Reason why = open_nic(task.flow, way);
  if (why != Reason::kNone) return why;
  const VipxFlow flow = flow_for_agents(task.flow);
  if (way.local && is_own(flow)) return Reason::kLocal;
  LaneEndpoint* const end = make_end(task, way);
  if (end == nullptr) return Reason::kResources;
  end->asked_at = now_ns();
  end->give_up_at = end->asked_at + kPeerMs * kMs;
  end->flow = flow;
  end->fd = task.fd;
  end->peer = task.peer;
  end->role = task.role;
  memcpy(end->host, way.peer, sizeof end->host);
  counters::add(Counter::kLanesAsked);
  claim_early(*end);
  const LockGuard guard(requests().lock);
  state().ends.push_back(end);
  requests().lanes.push_back(end);
  return Reason::kNone;
}

namespace {

// Records whether connections with this peer use the lanes they ask for.
void learn(const LaneEndpoint& end) {
  if (!end.used && !end.socket->closed()) return;
  const LockGuard guard(requests().lock);
  requests().learn(end.peer, end.used);
}

}  // namespace

void close_kept_descriptor(LaneEndpoint& end) {
  const int kept = end.keeper.exchange(-1);
  if (kept < 0) return;
  bool confirmed;
  {
    const LockGuard guard(end.lane.lock());
    confirmed = end.lane.control.sending() == Lane::State::kEnded;
  }
  // The confirmation should have woken this thread. A lane that the timer finds confirmed is counted.
  if (confirmed && state().timer_expired) counters::add(Counter::kTimedEnds);
  own_descriptors::release(kept);
  libc::close(kept);
}

namespace {

// Takes the lane off the queue of look_at().
void unqueue(const LaneEndpoint& end) {
  const LockGuard guard(requests().lock);
  for (BackgroundLane** at = &requests().queue; *at != nullptr;) {
    if (*at == &end) {
      *at = end.next_queued;
    } else {
      at = &(*at)->next_queued;
    }
  }
}

}  // namespace

bool free_end(std::size_t index) {
  LaneEndpoint* const end = state().ends[index];
  held_sends::forget(*end);
  end_sign_of_life(*end);
  // Arrivals are paused so that none can queue this lane any more.
  engine::pause();
  {
    const LockGuard guard(requests().lock);
    if (end->is_pinned()) {
      engine::go_on();
      return false;
    }
    state().ends[index] = state().ends.back();
    state().ends.pop_back();
    std::erase(requests().lanes, static_cast<BackgroundLane*>(end));
  }
  end->vi.destroy();
  engine::count_lanes(-1);
  unqueue(*end);
  engine::go_on();
  close_kept_descriptor(*end);
  settle_early_claim(*end);
  if (end->claimed) unclaim(*end);
  learn(*end);
  delete end;
  return true;
}

bool claim_has_served(LaneEndpoint& end, std::uint64_t now) {
  if (end.stage != LaneEndpoint::Stage::kOpen) return false;
  if (now >= end.unclaim_at) return true;
  const LockGuard guard(end.lane.lock());
  return end.lane.greeting.peer_trusts() || end.lane.control.broken();
}

void unclaim(LaneEndpoint& end) {
  if (ProcessNic* const nic = engine::nic(); nic != nullptr) VipxUnclaim(nic->handle(), end.token);
  end.claimed = false;
}

void tell_doubt(LaneEndpoint& end) {
  tell(Reason::kNotVouched);
  end.doubted = false;
  end.listed = true;
}

void fall_back(LaneEndpoint& end) {
  Socket& socket = *end.socket;
  const bool closed = socket.closed();
  const int fd = closed ? end.keeper.exchange(-1) : copy_descriptor(socket);
  // The program has closed the socket, and no data is left: there is nothing to move.
  if (fd < 0 && closed) return;
  fall_back(socket, fd);
  if (fd >= 0) state().falling.push_back({socket.reference(), fd});
}

namespace {

// A step of a lane that has asked its peer. False if the lane is to be freed; so for the steps below.
bool on_asking(LaneEndpoint& end, std::uint64_t now) {
  if (end.cancelled.load()) return false;
  if (end.to_itself) return refuse(end, Reason::kLocal);
  if (end.not_wanted && !end.connected) return refuse(end, Reason::kSlower);
  if (!end.connected) {
    const VIP_RETURN result = end.vi.connected();
    if (result == VIP_NOT_DONE && now < end.give_up_at) return true;
    if (result == VIP_NOT_DONE) return refuse(end, Reason::kNoPeer);
    if (result != VIP_SUCCESS) {
      return refuse(end, result == VIP_TIMEOUT || result == VIP_NO_MATCH ? Reason::kNoPeer
                                                                        : Reason::kResources);
    }
    settle_early_claim(end);
    end.connected = true;
  }
  const VIP_RETURN claimed = end.claimed ? VIP_SUCCESS : claim(end, now);
  if (claimed != VIP_SUCCESS) {
    if (claimed == VIP_NOT_DONE) return true;
    // A connection that has ended meanwhile needs no claim.
    return refuse(end, end.socket->closed() ? Reason::kEnd : Reason::kNotClaimed);
  }
  // Give the lane to the socket before the peer learns of it: data that comes then has a reader.
  if (end.cancelled.load() || !lane_opened(*end.socket, end)) return false;
  {
    const LockGuard guard(end.lane.lock());
    end.lane.greet(end.token);
  }
  // From here on the socket's answers differ from the kernel's.
  refresh_watchers(*end.socket);
  end.socket->changed();
  end.stage = LaneEndpoint::Stage::kGreeting;
  end.give_up_at = now + kGreetingNs;
  end.unclaim_at = now + kClaimNs;
  return true;
}

// Whether the lane has carried enough to be worth its cost.
bool has_carried_enough(LaneEndpoint& end) {
  constexpr std::uint64_t kPackets = 8, kBytes = 65'536;
  const LockGuard guard(end.lane.lock());
  return end.lane.stalls().packets >= kPackets || end.lane.rx.bytes_received() >= kBytes;
}

// The peer says that the kernel is faster, which it does once.
std::optional<std::uint32_t> slower_for_ms(LaneEndpoint& end) {
  if (end.heard_slower) return {};
  const LockGuard guard(end.lane.lock());
  const auto ms = end.lane.control.peer_leaves() ? end.lane.control.slower_for_ms() : std::nullopt;
  end.heard_slower = ms.has_value();
  return ms;
}

// The end of a closed socket's lane. True: the peer has sent by the lane meanwhile, for which TCP resets the connection.
bool refuses_late(LaneEndpoint& end) {
  end.give_up();
  const LockGuard guard(end.lane.lock());
  return end.lane.rx.has_refused();
}

bool on_open(LaneEndpoint& end, std::uint64_t now) {
  const bool closed = end.socket->closed();
  if (settle(*end.socket, end)) end.socket->changed();
  bool falls, fails;
  {
    const LockGuard guard(end.lane.lock());
    fails = end.lane.control.broken() && !end.lane.control.is_cut();
  }
  if (fails) end.give_up();
  {
    const LockGuard guard(end.lane.lock());
    end.lane.ring.reap();
    falls = end.lane.control.is_lost() || end.lane.rx.has_refused();
  }
  if (falls && !has_fallen(*end.socket, end)) fall_back(end);
  bool over, lost, delivered, done;
  {
    const LockGuard guard(end.lane.lock());
    end.lane.poll();
    delivered = end.lane.control.has_delivered_end();
    // A closed socket drops all that the peer sends anyway.
    done = closed && end.lane.control.is_finished();
    over = done || end.lane.control.over();
    // A broken lane is not lost if this end is done, or the peer was done first and has disconnected the VI.
    lost = !done && end.lane.control.is_lost() && !end.lane.control.peer_closed();
    const std::size_t unsent = end.lane.ring.unsent();
    if (!end.closing || unsent != end.last_unsent) {
      end.last_unsent = unsent;
      end.give_up_at = now + kLingerNs;
    }
    if (end.lane.control.sending() >= Lane::State::kEnding) end.closing = true;
  }
  // The kernel's connection ends now, as the peer's program may wait for its end.
  if (const int kept = end.keeper.load(); closed && delivered && kept >= 0) libc::shutdown(kept, SHUT_WR);
  if (done && refuses_late(end) && !has_fallen(*end.socket, end)) fall_back(end);
  if (!over && end.closing && closed && now >= end.give_up_at) {
    const LockGuard guard(end.lane.lock());
    end.lane.cut();
    over = lost = true;
  }
  // The doubt stands until this end is closed, too: no agent vouches for a connection that has ended, and if that was
  // the reason, this end is closed soon.
  if (end.doubted && !closed) return true;
  if (const auto again_ms = slower_for_ms(end)) dear_lanes::peer_left(end, *again_ms);
  if (!closed) dear_lanes::look_at_open(end, now);
  if (!over || !lane_over(*end.socket, end)) return true;
  if (std::exchange(end.doubted, false)) tell(Reason::kEnd);
  end.used = has_carried_enough(end);
  if (end.used && !dear_lanes::has(end)) state().useful_at = now;
  end.socket->changed();
  if (end.opened) counters::add(lost ? Counter::kLanesLost : Counter::kLanesClosed);
  return false;
}

// A step of a lane that the socket has: the peer has yet to greet, and the peer's agent to vouch for it.
bool on_greeting(LaneEndpoint& end, std::uint64_t now) {
  {
    const LockGuard guard(end.lane.lock());
    if (!end.lane.greeting.has_hello() && !end.lane.control.broken() && now >= end.give_up_at) {
      end.silent = true;
      end.lane.cut();
    }
    if (!end.lane.greeting.has_hello() && !end.lane.control.broken()) return true;
  }
  const Reason why = judge(end);
  if (why == Reason::kNone) {
    trust_lane(*end.socket, end, end.fd);
  } else {
    const LockGuard guard(end.lane.lock());
    end.lane.cut();
  }
  if (why != Reason::kNone) {
    end.doubted = why == Reason::kNotVouched;
    end.unclaim_at = now_ns() + kClaimNs;
    if (!end.doubted) tell(why);
    end.stage = LaneEndpoint::Stage::kOpen;
    // Waiting threads look again: the kernel's events count again, and may have told the end of the connection.
    end.socket->changed();
    // The peer, which may trust the lane by now, waits for its end.
    return on_open(end, now);
  }
  end.stage = LaneEndpoint::Stage::kOpen;
  counters::add(Counter::kLanesOpened);
  end.opened = true;
  dear_lanes::opened(now);
  silence_of(end.peer) = {0, 0, now_ns()};
  SOVIA_LOG("a lane is open after %llu us",
            static_cast<unsigned long long>((now_ns() - end.asked_at) / 1000));
  end.socket->changed();
  return on_open(end, now);
}

}  // namespace

bool advance(LaneEndpoint& end, std::uint64_t now) {
  switch (end.stage.load()) {
    case LaneEndpoint::Stage::kAsking:
      if (!on_asking(end, now)) return false;
      return end.stage != LaneEndpoint::Stage::kGreeting || on_greeting(end, now);
    case LaneEndpoint::Stage::kGreeting:
      return on_greeting(end, now);
    case LaneEndpoint::Stage::kOpen:
      return on_open(end, now);
  }
  return true;
}

}  // namespace viaduct::sovia::background
