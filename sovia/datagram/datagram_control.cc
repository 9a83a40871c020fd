#include "sovia/datagram/datagram_control.h"

#include <netinet/in.h>
#include <string.h>
#include <vipl/vipl_ext.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <vector>

#include "sovia/datagram/datagram_requests.h"
#include "sovia/datagram/datagram_table.h"
#include "sovia/datagram/datagram_vi.h"
#include "sovia/lane/engine.h"
#include "sovia/lane/waiting.h"
#include "sovia/process/clock.h"
#include "sovia/process/counters.h"
#include "sovia/process/libc.h"
#include "sovia/process/once.h"
#include "sovia/process/options.h"
#include "sovia/process/own_descriptors.h"
#include "xdp/mutex.h"

namespace viaduct::sovia::datagram {
namespace {

constexpr std::uint32_t kPeerMs = 5000;             // for the peer to ask for the lane too
constexpr std::uint64_t kGreetingNs = 3'000 * kMs;  // until both trust each other
constexpr std::uint64_t kLookNs = 1 * kMs;          // at a VI that is being connected
constexpr std::uint64_t kAskedLookNs = 20 * kMs;    // the same, when it has been asked for some time
constexpr std::uint64_t kLeaveAgainNs = 5 * kMs;
constexpr std::uint64_t kLeaveNs = 50 * kMs;        // for the peer to answer
constexpr std::uint64_t kPeerLeftNs = 1'000 * kMs;  // for a peer that has left to disconnect
constexpr std::uint64_t kIdleNs = 60'000 * kMs;     // a lane ends after this time without datagrams
constexpr std::uint64_t kConfirmNs = 1'000 * kMs;   // between questions to the peer's agent
constexpr std::size_t kMostLanes = 8;               // of a process

struct Wanted {
  int fd;
  DatagramRef socket;
  sockaddr_in peer;
};

enum class Stage : std::uint8_t { kAsking, kGreeting, kOpen, kLeaving };

// A lane, and the thread's state of it.
struct Served {
  DatagramRef socket;
  DatagramLane* lane;
  Stage stage = Stage::kAsking;
  Flow kernel_flow{};
  VipxFlow flow{};
  std::uint8_t host[6] = {};
  bool claimed = false;
  Handshake::Token token{};
  std::uint64_t asked_at = 0, give_up_at = 0, say_at = 0;
  std::uint64_t confirm_at = 0;
  std::uint64_t left_at = 0;  // when the peer was first seen to have left
};

struct Control {
  Thread thread;
  Mutex mutex;
  std::vector<Wanted> wanted VIADUCT_GUARDED_BY(mutex);
  std::atomic<bool> work{false};
  std::atomic<int> busy{0};     // lanes, and requests for lanes
  std::vector<Served> served;   // the thread's
};

// Never destroyed: the thread runs until the process is gone.
Control& control() {
  return once([]() -> Control& { return *new Control; });
}

VipxFlow flow_for_agents(const Flow& flow) {
  VipxFlow to{};
  to.Family = AF_INET;
  to.Protocol = IPPROTO_UDP;
  memcpy(&to.LocalPort, flow.local.port, sizeof to.LocalPort);
  memcpy(&to.RemotePort, flow.remote.port, sizeof to.RemotePort);
  memcpy(to.LocalAddress, flow.local.address, sizeof flow.local.address);
  memcpy(to.RemoteAddress, flow.remote.address, sizeof flow.remote.address);
  return to;
}

// The address that the kernel would send to this peer from.
bool source_for(const sockaddr_in& peer, in_addr& source) {
  const int fd = own_descriptors::adopt(libc::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (fd < 0) return false;
  sockaddr_in local{};
  socklen_t length = sizeof local;
  const bool found = libc::connect(fd, reinterpret_cast<const sockaddr*>(&peer), sizeof peer) == 0 &&
                     libc::getsockname(fd, reinterpret_cast<sockaddr*>(&local), &length) == 0;
  own_descriptors::close(fd);
  source = local.sin_addr;
  return found;
}

bool flow_of(const Wanted& wanted, Flow& flow) {
  sockaddr_in local{};
  socklen_t length = sizeof local;
  if (libc::getsockname(wanted.fd, reinterpret_cast<sockaddr*>(&local), &length) != 0 ||
      local.sin_family != AF_INET || local.sin_port == 0) {
    return false;
  }
  if (local.sin_addr.s_addr == INADDR_ANY && !source_for(wanted.peer, local.sin_addr)) return false;
  flow = {};
  memcpy(flow.local.address, &local.sin_addr, sizeof local.sin_addr);
  memcpy(flow.local.port, &local.sin_port, sizeof local.sin_port);
  memcpy(flow.remote.address, &wanted.peer.sin_addr, sizeof wanted.peer.sin_addr);
  memcpy(flow.remote.port, &wanted.peer.sin_port, sizeof wanted.peer.sin_port);
  return true;
}

// Multicast and broadcast have no single peer.
bool is_unicast(const sockaddr_in& peer) {
  const std::uint32_t address = ntohl(peer.sin_addr.s_addr);
  return address != INADDR_ANY && address != INADDR_BROADCAST && !IN_MULTICAST(address) &&
         peer.sin_port != 0;
}

bool passes(Reason why) {
  return why == Reason::kNoPeer || why == Reason::kResources || why == Reason::kNoNic;
}

void tell(const sockaddr_in& peer, Reason why) {
  counters::fell(why);
  SOVIA_LOG("no lane for datagrams to port %d: %s", ntohs(peer.sin_port), text_of(why));
}

void refuse(DatagramSocket& socket, const sockaddr_in& peer, Reason why) {
  tell(peer, why);
  socket.refused(peer, !passes(why), now_ns());
}

// Claims the connection with this end's agent. The claim is kept as long as the lane is there, as the peer asks this
// agent again and again.
Reason claim(Served& one) {
  ProcessNic* const nic = engine::nic();
  if (nic == nullptr) return Reason::kNoNic;
  const VIP_RETURN result = VipxClaim(nic->handle(), &one.flow, one.token.data());
  one.claimed = result == VIP_SUCCESS;
  if (one.claimed || options().vouch == 0) return Reason::kNone;
  return result == VIP_ERROR_RESOURCE ? Reason::kResources : Reason::kNotClaimed;
}

void unclaim(Served& one) {
  if (!one.claimed) return;
  one.claimed = false;
  if (ProcessNic* const nic = engine::nic(); nic != nullptr) VipxUnclaim(nic->handle(), one.token.data());
}

Reason open(const Wanted& wanted) {
  if (!is_unicast(wanted.peer)) return Reason::kOffLink;
  if (control().served.size() >= kMostLanes) return Reason::kResources;
  Flow flow;
  if (!table::is(wanted.fd, *wanted.socket) || !flow_of(wanted, flow)) return Reason::kEnd;
  if (is_loopback(flow)) return Reason::kLocal;
  Way way;
  if (const Reason why = control().thread.open_nic(flow, way); why != Reason::kNone) return why;
  if (way.local) return Reason::kLocal;
  Served one;
  one.socket = wanted.socket;
  one.kernel_flow = flow;
  one.flow = flow_for_agents(flow);
  memcpy(one.host, way.peer, sizeof one.host);
  if (const Reason why = claim(one); why != Reason::kNone) return why;
  // Arrivals are paused: a message may come at once, but the transport must have an owner first.
  engine::pause();
  DatagramVi* const transport = DatagramVi::make(*engine::nic(), flow, way.peer, kPeerMs);
  one.lane = transport == nullptr ? nullptr
                             : new (std::nothrow) DatagramLane(*wanted.socket, *transport, wanted.peer);
  if (transport != nullptr && one.lane == nullptr) transport->destroy();
  engine::go_on();
  if (one.lane == nullptr) {
    unclaim(one);
    return Reason::kResources;
  }
  one.asked_at = now_ns();
  one.give_up_at = one.asked_at + kPeerMs * kMs;
  counters::add(Counter::kDatagramLanesAsked);
  engine::count_lanes(1);
  one.socket->add(*one.lane);
  control().served.push_back(one);
  return Reason::kNone;
}

void open_wanted() {
  std::vector<Wanted> wanted;
  {
    const LockGuard guard(control().mutex);
    wanted.swap(control().wanted);
  }
  for (const Wanted& each : wanted) {
    const Reason why = each.socket->given_up() ? Reason::kEnd : open(each);
    if (why == Reason::kNone) continue;
    refuse(*each.socket, each.peer, why);
    each.socket->asked_in_vain();
    control().busy.fetch_sub(1);
  }
}

void free_lane(Served& one) {
  engine::pause();
  one.socket->remove(*one.lane);
  one.lane->transport.destroy();
  engine::go_on();
  engine::count_lanes(-1);
  unclaim(one);
  delete one.lane;
  one.socket->asked_in_vain();
  control().busy.fetch_sub(1);
  waiting::wake(*one.socket);
}

// Asks the peer's agent whether it vouches for the peer. kNoPeer: the agent does not answer; kNotVouched: it does not
// vouch.
Reason verify(const Served& one, const Handshake::Token& token) {
  if (options().vouch == 0) return Reason::kNone;
  ProcessNic* const nic = engine::nic();
  if (nic == nullptr) return Reason::kNoNic;
  union {
    VIP_NET_ADDRESS address;
    std::uint8_t room[sizeof(VIP_NET_ADDRESS) + 6];
  } host{};
  host.address.HostAddressLen = sizeof one.host;
  memcpy(host.address.HostAddress, one.host, sizeof one.host);
  const VIP_RETURN result = VipxVerify(nic->handle(), &host.address, &one.flow, token.data());
  if (result == VIP_SUCCESS) return Reason::kNone;
  return result == VIP_ERROR_NAMESERVICE ? Reason::kNotVouched : Reason::kNoPeer;
}

// ---------------------------------------------------------------------------- stages
// Each returns false if the lane is to be freed.

bool on_asking(Served& one, std::uint64_t now) {
  DatagramLane& lane = *one.lane;
  const VIP_RETURN result = lane.transport.connected();
  if (result == VIP_NOT_DONE && now < one.give_up_at) return true;
  if (result != VIP_SUCCESS) {
    const bool silent = result == VIP_NOT_DONE || result == VIP_TIMEOUT || result == VIP_NO_MATCH;
    refuse(*one.socket, lane.peer, silent ? Reason::kNoPeer : Reason::kResources);
    return false;
  }
  const DatagramGuard guard(*one.socket);
  lane.handshake.begin(one.token);
  one.stage = Stage::kGreeting;
  one.give_up_at = now + kGreetingNs;
  return true;
}

void greet(Served& one, std::uint64_t now) VIADUCT_REQUIRES(one.socket->lock(), lane_state) {
  if (one.lane->handshake.due() > now) return;
  const Handshake::Hello hello = one.lane->handshake.next(now);
  one.socket->say(*one.lane, Kind::kHello, &hello, sizeof hello);
}

// The lane opens only when no receive is under way that would not notice it.
bool on_greeting(Served& one, std::uint64_t now) {
  DatagramSocket& socket = *one.socket;
  bool ask, broken;
  Handshake::Token token;
  {
    const DatagramGuard guard(*one.socket);
    broken = one.lane->broken || one.lane->leaves;
    ask = one.lane->handshake.heard() && !one.lane->handshake.trusts() && !socket.hears_no_lanes();
    token = one.lane->handshake.peer_token();
  }
  if (broken || now >= one.give_up_at) {
    refuse(socket, one.lane->peer, broken ? Reason::kPeerLeft : Reason::kNoPeer);
    return false;
  }
  if (ask) {
    if (const Reason why = verify(one, token); why != Reason::kNone) {
      refuse(socket, one.lane->peer, why);
      return false;
    }
  }
  const DatagramGuard guard(*one.socket);
  if (ask) one.lane->handshake.trust();
  greet(one, now);
  if (!one.lane->handshake.trusts() || !one.lane->handshake.trusted()) return true;
  one.stage = Stage::kOpen;
  one.confirm_at = now + kConfirmNs;
  one.lane->used_at = now;
  one.socket->set_open(*one.lane, true);
  counters::add(Counter::kDatagramLanesOpened);
  SOVIA_LOG("a lane for datagrams to port %d", ntohs(one.lane->peer.sin_port));
  return true;
}

// While a lane is open its port may get another owner, and its address another host: datagrams for them must not go to
// the former peer. If the kernel has forgotten the way to the peer meanwhile, that proves nothing.
Reason confirmed(const Served& one) {
  Way way;
  const bool found = control().thread.open_nic(one.kernel_flow, way) == Reason::kNone;
  if (found && memcmp(way.peer, one.host, sizeof one.host) != 0) return Reason::kNotVouched;
  Handshake::Token token;
  {
    const DatagramGuard guard(*one.socket);
    token = one.lane->handshake.peer_token();
  }
  return verify(one, token);
}

// A lane that ends because of the answer may be asked for again: perhaps the agent has only restarted. The question
// blocks while the agent does not answer, so the other lanes to that host then end without a question.
void confirm(Served& one, std::uint64_t now) {
  one.confirm_at = now + kConfirmNs;
  const Reason why = confirmed(one);
  if (why == Reason::kNone) return;
  for (Served& other : control().served) {
    const bool of_host = why == Reason::kNoPeer && memcmp(other.host, one.host, sizeof one.host) == 0;
    if (other.stage != Stage::kOpen || (&other != &one && !of_host)) continue;
    const DatagramGuard guard(*other.socket);
    if (other.lane->doubted) continue;
    other.lane->leaves = other.lane->doubted = true;
    tell(other.lane->peer, why);
  }
}

// Whether the peer still has to be vouched for: a peer that has left takes its claim back.
bool is_in_use(const Served& one) {
  const DatagramGuard guard(*one.socket);
  return !one.lane->doubted && !one.lane->peer_left;
}

bool on_open(Served& one, std::uint64_t now) {
  DatagramLane& lane = *one.lane;
  if (now >= one.confirm_at && is_in_use(one)) confirm(one, now);
  bool woken = false;
  {
    const DatagramGuard guard(*one.socket);
    greet(one, now);
    if (lane.answer_due && lane.all_sent()) {
      lane.answer_due = !one.socket->say(lane, Kind::kLeft, nullptr, 0);
    }
    if (lane.peer_left && one.left_at == 0) one.left_at = now;
    const bool over = lane.broken || (one.left_at != 0 && now >= one.left_at + kPeerLeftNs);
    if (over) return false;
    woken = lane.held && lane.held_until <= now;
    lane.leaves |= now >= lane.used_at + kIdleNs;
    if (lane.leaves && !lane.peer_left) {
      one.stage = Stage::kLeaving;
      one.give_up_at = now + kLeaveNs;
      one.say_at = now;
    }
  }
  // Datagrams held back so far may be read now.
  if (woken) waiting::wake(*one.socket);
  return true;
}

// A lane that is being left still receives the peer's datagrams until the peer answers LEAVE.
bool on_leaving(Served& one, std::uint64_t now) {
  DatagramLane& lane = *one.lane;
  const DatagramGuard guard(*one.socket);
  if (lane.broken || lane.left_heard || now >= one.give_up_at) return false;
  if (lane.answer_due) lane.answer_due = !one.socket->say(lane, Kind::kLeft, nullptr, 0);
  if (now >= one.say_at) {
    one.socket->say(lane, Kind::kLeave, nullptr, 0);
    one.say_at = now + kLeaveAgainNs;
  }
  return true;
}

bool advance(Served& one, std::uint64_t now) {
  switch (one.stage) {
    case Stage::kAsking:
      return !one.socket->given_up() && on_asking(one, now);
    case Stage::kGreeting:
      return on_greeting(one, now);
    case Stage::kOpen:
      return on_open(one, now);
    case Stage::kLeaving:
      return on_leaving(one, now);
  }
  return false;
}

std::uint64_t due_of(const Served& one, std::uint64_t now) {
  switch (one.stage) {
    case Stage::kAsking:
      return now + std::clamp((now - one.asked_at) / 4, kLookNs, kAskedLookNs);
    case Stage::kGreeting:
      return now + kLookNs;
    case Stage::kLeaving:
      return one.say_at;
    case Stage::kOpen:
      break;
  }
  const DatagramGuard guard(*one.socket);
  std::uint64_t due = std::max(now, one.left_at != 0 ? one.left_at + kPeerLeftNs : one.confirm_at);
  if (one.lane->held && one.lane->held_until > now) due = std::min(due, one.lane->held_until);
  due = std::min(due, one.lane->handshake.due());
  return one.lane->answer_due ? now + kLookNs : due;
}

}  // namespace

void set_thread(const Thread& thread) { control().thread = thread; }

bool ask(int fd, const DatagramSocket& asking, const sockaddr_in& peer) {
  DatagramRef socket = table::find(fd);
  if (socket.get() != &asking) return false;  // closed meanwhile
  if (control().thread.start == nullptr || !control().thread.start()) {
    socket->refused(peer, true, now_ns());
    socket->asked_in_vain();
    return false;
  }
  {
    const LockGuard guard(control().mutex);
    control().wanted.push_back({fd, std::move(socket), peer});
    control().busy.fetch_add(1);
  }
  look_at_lanes();
  return true;
}

void look_at_lanes() {
  control().work.store(true);
  if (control().thread.poke != nullptr) control().thread.poke();
}

void turn() {
  control().work.store(false);
  if (is_idle()) return;
  open_wanted();
  const std::uint64_t now = now_ns();
  std::vector<Served>& served = control().served;
  for (std::size_t i = 0; i < served.size();) {
    if (advance(served[i], now)) {
      ++i;
      continue;
    }
    free_lane(served[i]);
    served[i] = std::move(served.back());
    served.pop_back();
  }
}

bool has_work() { return control().work.load(); }

std::uint64_t next_due(std::uint64_t now) {
  std::uint64_t due = kNever;
  for (const Served& one : control().served) due = std::min(due, due_of(one, now));
  return due;
}

bool is_idle() { return control().busy.load() == 0; }

void nic_lost() {
  for (const Served& one : control().served) {
    if (one.stage == Stage::kAsking) continue;  // its VI reports the loss
    const DatagramGuard guard(*one.socket);
    one.lane->broken = one.lane->peer_left = true;
  }
}

void await_ended() {
  constexpr std::uint64_t kMostNs = 2 * kLeaveNs;
  constexpr timespec kMoment{0, 500'000};
  const std::uint64_t until = now_ns() + kMostNs;
  while (!is_idle() && now_ns() < until) {
    progress();
    libc::ppoll(nullptr, 0, &kMoment, nullptr);
  }
}

// The lock is held over fork.
void before_fork() VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
  control().mutex.lock();
  table::before_fork();
}

void after_fork(bool in_child) VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
  table::after_fork(in_child);
  if (in_child) {
    // The lanes are the parent's thread's; the child drops them without ending them.
    new (&control().wanted) std::vector<Wanted>;
    new (&control().served) std::vector<Served>;
    control().busy.store(0);
  }
  control().mutex.unlock();
}

}  // namespace viaduct::sovia::datagram
