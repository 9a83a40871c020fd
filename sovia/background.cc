#include "sovia/background.h"

#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <vipl/vipl_ext.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "sovia/counters.h"
#include "sovia/engine.h"
#include "sovia/guard.h"
#include "sovia/epoll_set.h"
#include "sovia/kernel.h"
#include "sovia/lane_end.h"
#include "sovia/link.h"
#include "sovia/options.h"
#include "sovia/own_descriptors.h"
#include "sovia/socket_pool.h"
#include "sovia/waiting.h"

namespace viaduct::sovia::background {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint32_t kPeerMs = 5000;              // for the peer to ask for a lane too
constexpr std::uint64_t kGreetingNs = 2'000 * kMs;   // for its first packet
constexpr std::uint64_t kClaimNs = 3'000 * kMs;      // for the peer to ask our agent
constexpr std::uint64_t kFirstLookNs = 100'000;      // at whether the peer has asked
constexpr std::uint64_t kSeldomNs = 20 * kMs;
constexpr std::uint64_t kNoPeerNs = 1'000 * kMs;     // how long a silent peer is left alone, doubled ...
constexpr unsigned kNoPeerDoublings = 5;             // ... each time, so often
constexpr std::uint64_t kLeaseNs = 4 * kMs;          // without a turn, then the program is away
constexpr std::uint64_t kLongLeaseNs = 100 * kMs;    // while one of its threads listens
constexpr std::uint64_t kFarewellNs = 3'000 * kMs;   // at the end, without anything moving
constexpr std::uint64_t kLingerNs = 120'000 * kMs;   // for a closed socket's data, without moving

struct Task {
  SocketRef socket;
  Flow flow;
  bool flow_known;
  std::uint16_t port;  // of the listening side, as far as this end knows
};

struct NoPeer {
  FlowEnd end;
  bool operator<(const NoPeer& other) const { return memcmp(&end, &other.end, sizeof end) < 0; }
};

// Never destroyed: the thread runs until the process is gone.
struct State {
  std::mutex lock;
  std::vector<Task> tasks;
  Socket* at_work = nullptr;  // the socket whose task is being done
  bool cancelled = false;     // ... and is not wanted any more
  LaneEnd* queue = nullptr;   // to be looked at, linked by next_queued
  bool running = false;
  std::vector<LaneEnd*> ends;  // changed by the thread alone, under the lock

  // --- the thread's own
  struct Silence {
    std::uint64_t until = 0;
    unsigned times = 0;
  };
  std::map<NoPeer, Silence> no_peer;
  bool nic_failed = false;
  std::uint64_t nic_failed_at = 0;
};

State& state() {
  static State& made = *new State;
  return made;
}

std::atomic<int> g_poke{-1};
std::atomic<bool> g_idle{false};  // sleeps, so it must be poked
std::atomic<std::uint64_t> g_flush_at{kNever};

void poke() {
  if (!g_idle.exchange(false)) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = kernel::write(g_poke.load(), &one, sizeof one);
}

LaneOptions lane_options() {
  return {static_cast<std::uint32_t>(options().window),
          static_cast<std::uint32_t>(options().ack_threshold), options().combine != 0, copy_guarded};
}

// ---------------------------------------------------------------------------- opening

Reason nic_for(const Way& way) {
  if (Nic* const nic = engine::nic(); nic != nullptr) {
    return strcmp(nic->interface(), way.interface) == 0 ? Reason::kNone : Reason::kOtherNic;
  }
  constexpr std::uint64_t kAgainNs = 1'000 * kMs;
  if (state().nic_failed && now_ns() < state().nic_failed_at + kAgainNs) return Reason::kNoNic;
  Nic* const nic = Nic::open(way.interface);
  state().nic_failed = nic == nullptr;
  state().nic_failed_at = now_ns();
  if (nic == nullptr) return Reason::kNoNic;
  constexpr int kMost = 64;
  int descriptors[kMost];
  const int count = VipxDescriptors(descriptors, kMost);
  for (int i = 0; i < count && i < kMost; ++i) own_descriptors::mark(descriptors[i]);
  engine::set_nic(nic);
  return Reason::kNone;
}

// What a peer without SOVIA is remembered by: its address, and the port on the listening side.
NoPeer peer_of(const Task& task) {
  NoPeer peer{task.flow.remote};
  memcpy(peer.end.port, &task.port, sizeof task.port);
  return peer;
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

Reason open_lane(Task& task) {
  Socket& socket = *task.socket;
  if (is_loopback(task.flow)) return Reason::kLocal;
  const auto remembered = state().no_peer.find(peer_of(task));
  if (remembered != state().no_peer.end() && now_ns() < remembered->second.until) {
    return Reason::kNoPeer;
  }
  Way way;
  Reason why = find_way(task.flow, way);
  if (why != Reason::kNone) return why;
  why = nic_for(way);
  if (why != Reason::kNone) return why;
  const LaneOptions lane = lane_options();
  // The peer may be waiting for it, and something come at once: not before the wire has an owner.
  engine::pause();
  ViWire* const wire = ViWire::make(*engine::nic(), places_for(lane), task.flow, way.peer,
                                    socket.lane_number(), kPeerMs);
  auto* const end =
      wire == nullptr ? nullptr : new (std::nothrow) LaneEnd(socket.reference(), *wire, lane);
  if (wire != nullptr && end == nullptr) wire->destroy();
  engine::go_on();
  if (end == nullptr) return Reason::kResources;
  end->asked_at = now_ns();
  end->give_up_at = end->asked_at + kPeerMs * kMs;
  end->peer = peer_of(task).end;
  end->flow = flow_for_agents(task.flow);
  memcpy(end->host, way.peer, sizeof end->host);
  counters::add(Counter::kLanesAsked);
  const std::scoped_lock guard(state().lock);
  state().ends.push_back(end);
  return Reason::kNone;
}

// Forgets it and frees it. False if somebody looks at it.
bool free_end(std::size_t index) {
  LaneEnd* const end = state().ends[index];
  // Nobody takes in what comes for it, so nobody queues it any more.
  engine::pause();
  {
    const std::scoped_lock guard(state().lock);
    if (end->pins != 0) {
      engine::go_on();
      return false;
    }
    state().ends[index] = state().ends.back();
    state().ends.pop_back();
    for (LaneEnd** at = &state().queue; *at != nullptr;) {
      if (*at == end) {
        *at = end->next_queued;
      } else {
        at = &(*at)->next_queued;
      }
    }
  }
  end->wire.destroy();
  engine::go_on();
  delete end;
  return true;
}

// ---------------------------------------------------------------------------- lanes

// Our agent vouches to the peer that this end is the connection's. Without that the peer will not have
// the lane.
void claim(LaneEnd& end) {
  Nic* const nic = engine::nic();
  if (nic == nullptr) return;
  const VIP_RETURN result = VipxClaim(nic->handle(), &end.flow, end.token);
  end.claimed = result == VIP_SUCCESS;
  if (!end.claimed) SOVIA_LOG("our agent does not vouch for us: %s", VipxReturnText(result));
  end.unclaim_at = now_ns() + kClaimNs;
}

void unclaim(LaneEnd& end) {
  Nic* const nic = engine::nic();
  if (end.claimed && nic != nullptr) VipxUnclaim(nic->handle(), end.token);
  end.claimed = false;
}

bool is_vouched_for(LaneEnd& end) {
  if (options().vouch == 0) return true;
  Nic* const nic = engine::nic();
  union {
    VIP_NET_ADDRESS address;
    std::uint8_t room[sizeof(VIP_NET_ADDRESS) + 6];
  } host{};
  host.address.HostAddressLen = sizeof end.host;
  memcpy(host.address.HostAddress, end.host, sizeof end.host);
  std::uint8_t token[kTokenBytes];
  {
    const std::scoped_lock guard(end.lane.lock());
    if (!end.lane.has_hello() || end.lane.broken()) return false;
    memcpy(token, end.lane.peer_token(), sizeof token);
  }
  if (nic == nullptr) return false;
  const VIP_RETURN result = VipxVerify(nic->handle(), &host.address, &end.flow, token);
  if (result != VIP_SUCCESS) SOVIA_LOG("the peer's agent: %s", VipxReturnText(result));
  return result == VIP_SUCCESS;
}

bool refuse(LaneEnd& end, Reason why) {
  if (why == Reason::kNoPeer) {
    State::Silence& silence = state().no_peer[{end.peer}];
    silence.until = now_ns() + (kNoPeerNs << silence.times);
    if (silence.times < kNoPeerDoublings) ++silence.times;
  }
  end.socket->lane_refused(why);
  return false;
}

// False if it is to be freed.
bool advance(LaneEnd& end, std::uint64_t now) {
  switch (end.stage.load()) {
    case LaneEnd::Stage::kAsking: {
      if (end.cancelled.load()) return false;
      const VIP_RETURN result = end.wire.connected();
      if (result == VIP_NOT_DONE) {
        return now < end.give_up_at || refuse(end, Reason::kNoPeer);
      }
      if (result != VIP_SUCCESS) {
        return refuse(end, result == VIP_TIMEOUT || result == VIP_NO_MATCH ? Reason::kNoPeer
                                                                          : Reason::kResources);
      }
      // The socket has the lane before the peer hears of it, so that no data can come to a lane that
      // nobody reads.
      if (end.cancelled.load() || !end.socket->lane_opened(end)) return false;
      claim(end);
      {
        const std::scoped_lock guard(end.lane.lock());
        end.lane.greet(end.token);
      }
      end.stage = LaneEnd::Stage::kGreeting;
      end.give_up_at = now + kGreetingNs;
      return true;
    }
    case LaneEnd::Stage::kGreeting: {
      {
        const std::scoped_lock guard(end.lane.lock());
        if (!end.lane.has_hello() && now >= end.give_up_at) end.lane.cut();
        if (!end.lane.has_hello() && !end.lane.broken()) return true;
      }
      const bool vouched = is_vouched_for(end);
      {
        const std::scoped_lock guard(end.lane.lock());
        if (vouched) {
          end.lane.trust();
        } else {
          end.lane.cut();
        }
      }
      if (!vouched) {
        counters::fell(Reason::kNotVouched);
        SOVIA_LOG("no lane: %s", text_of(Reason::kNotVouched));
        end.stage = LaneEnd::Stage::kOpen;
        return true;
      }
      end.stage = LaneEnd::Stage::kOpen;
      counters::add(Counter::kLanesOpened);
      state().no_peer.erase({end.peer});
      SOVIA_LOG("a lane is open after %llu us",
                static_cast<unsigned long long>((now_ns() - end.asked_at) / 1000));
      engine::changed(*end.socket);
      [[fallthrough]];
    }
    case LaneEnd::Stage::kOpen: {
      const bool closed = end.socket->closed();
      bool over, broken;
      {
        const std::scoped_lock guard(end.lane.lock());
        end.lane.turn();
        // What the peer says to a socket that is closed is dropped anyway.
        const bool done = closed && end.lane.sending() == Lane::State::kEnded;
        over = done || end.lane.over();
        broken = end.lane.broken();
        if (done) end.lane.cut();
        const std::size_t unsent = end.lane.unsent();
        if (!end.closing || unsent != end.last_unsent) {
          end.last_unsent = unsent;
          end.give_up_at = now + kLingerNs;
        }
        if (end.lane.sending() >= Lane::State::kEnding) end.closing = true;
      }
      if (!over && end.closing && closed && now >= end.give_up_at) {
        const std::scoped_lock guard(end.lane.lock());
        end.lane.cut();
        over = broken = true;
      }
      if (!over || !end.socket->lane_over(end)) return true;
      engine::changed(*end.socket);
      counters::add(broken ? Counter::kLanesLost : Counter::kLanesClosed);
      return false;
    }
  }
  return true;
}

// ---------------------------------------------------------------------------- the thread

void do_tasks() {
  for (;;) {
    Task task;
    {
      const std::scoped_lock guard(state().lock);
      if (state().tasks.empty()) return;
      task = std::move(state().tasks.back());
      state().tasks.pop_back();
      state().at_work = task.socket.get();
      state().cancelled = false;
    }
    const Reason why = task.flow_known ? open_lane(task) : Reason::kShort;
    bool cancelled;
    {
      const std::scoped_lock guard(state().lock);
      state().at_work = nullptr;
      cancelled = state().cancelled;
      if (cancelled && why == Reason::kNone) state().ends.back()->cancelled.store(true);
    }
    if (why != Reason::kNone && !cancelled) task.socket->lane_refused(why);
  }
}

// All that have changed, and those that something may be due for.
void look_at_lanes() {
  LaneEnd* queue;
  {
    const std::scoped_lock guard(state().lock);
    queue = state().queue;
    state().queue = nullptr;
    for (LaneEnd* end = queue; end != nullptr; end = end->next_queued) {
      end->listed = true;
      end->queued.store(false);
    }
  }
  const std::uint64_t now = now_ns();
  for (std::size_t i = 0; i < state().ends.size();) {
    LaneEnd* const end = state().ends[i];
    if (end->claimed && end->stage == LaneEnd::Stage::kOpen && now >= end->unclaim_at) unclaim(*end);
    const bool due = end->listed || end->stage != LaneEnd::Stage::kOpen || end->closing;
    // Who found it ended could not tell the others there and then.
    if (end->listed && end->stage == LaneEnd::Stage::kOpen) engine::changed(*end->socket);
    end->listed = false;
    if (!due || end->pins != 0 || advance(*end, now) || !free_end(i)) ++i;
  }
}

void flush_held() {
  const std::uint64_t now = now_ns();
  if (now < g_flush_at.load()) return;
  g_flush_at.store(kNever);
  for (LaneEnd* const end : state().ends) {
    if (!end->holding.exchange(false)) continue;
    unsigned changes = 0;
    {
      const std::scoped_lock guard(end->lane.lock());
      if (!end->lane.wants_turn() && !end->lane.awaits_completion()) continue;
      if (end->lane.holds()) counters::add(Counter::kCombineTimeouts);
      changes = end->lane.turn();
      end->lane.flush();
      if (end->lane.wants_turn() || end->lane.awaits_completion()) flush_later(*end);
    }
    if (changes != 0) engine::changed(*end->socket);
  }
}

// When something is due of itself.
std::uint64_t next_due() {
  const std::uint64_t now = now_ns();
  std::uint64_t due = g_flush_at.load();
  for (const LaneEnd* const end : state().ends) {
    if (end->stage == LaneEnd::Stage::kOpen) {
      if (end->claimed) due = std::min(due, std::max(end->unclaim_at, now));
      if (end->closing) due = std::min(due, now + kSeldomNs);
      continue;
    }
    // A peer that is as busy as this end asks soon; one that is not, some time.
    const std::uint64_t age = now - end->asked_at;
    due = std::min(due, now + std::clamp(age / 4, kFirstLookNs, kSeldomNs));
  }
  return due;
}

void run() {
  const int poke_descriptor = g_poke.load();
  std::uint32_t turns_before = engine::turns();
  for (;;) {
    do_tasks();
    look_at_lanes();
    flush_held();
    g_idle.store(true);
    {
      const std::scoped_lock guard(state().lock);
      if (!state().tasks.empty() || state().queue != nullptr) {
        g_idle.store(false);
        continue;
      }
    }
    const std::uint64_t due = next_due();
    pollfd fd{poke_descriptor, POLLIN, 0};
    if (engine::nic() == nullptr || state().ends.empty()) {
      const std::uint64_t now = now_ns();
      const int ms = due == kNever ? -1 : static_cast<int>((due - std::min(due, now)) / kMs + 1);
      kernel::poll(&fd, 1, ms);
    } else {
      // As long as the program's own threads come by, they hear the lanes.
      const std::uint32_t turns = engine::turns();
      const bool listens = engine::program_listens();
      if (turns != turns_before || listens) {
        turns_before = turns;
        const std::uint64_t lease = now_ns() + (listens ? kLongLeaseNs : kLeaseNs);
        const std::uint64_t until = std::min(due, lease);
        const std::uint64_t now = now_ns();
        const std::uint64_t left = until > now ? until - now : 0;
        const timespec time{static_cast<time_t>(left / 1'000'000'000),
                            static_cast<long>(left % 1'000'000'000)};
        kernel::ppoll(&fd, 1, &time, nullptr);
      } else {
        engine::listen_in_background(poke_descriptor, due);
        turns_before = engine::turns();
      }
    }
    g_idle.store(false);
    std::uint64_t pokes;
    [[maybe_unused]] const ssize_t got = kernel::read(poke_descriptor, &pokes, sizeof pokes);
    counters::add(Counter::kBackgroundTurns);
  }
}

void* run_thread(void*) {
  prctl(PR_SET_NAME, "sovia");
  run();
  return nullptr;
}

// Under the lock.
bool start() {
  if (state().running) return true;
  const int descriptor = own_descriptors::adopt(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (descriptor < 0) return false;
  g_poke.store(descriptor);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  state().running = pthread_create(&thread, &attributes, run_thread, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return state().running;
}

// Whether what was sent on them has arrived.
class Finished final : public Interest {
 public:
  explicit Finished(std::vector<LaneEnd*> ends) : ends_(std::move(ends)) {}
  ~Finished() {
    for (LaneEnd* const end : ends_) --end->pins;
  }
  bool ready() override {
    for (LaneEnd* const end : ends_) {
      const std::scoped_lock guard(end->lane.lock());
      end->lane.turn();
      if (end->stage != LaneEnd::Stage::kAsking && !end->lane.broken() &&
          end->lane.sending() != Lane::State::kEnded) {
        return false;
      }
    }
    return true;
  }
  bool concerns(const Socket&) const override { return true; }
  std::size_t unsent() const {
    std::size_t bytes = 0;
    for (LaneEnd* const end : ends_) {
      const std::scoped_lock guard(end->lane.lock());
      bytes += end->lane.unsent();
    }
    return bytes;
  }

 private:
  const std::vector<LaneEnd*> ends_;
};

// As long as something moves.
void await(std::vector<LaneEnd*> ends) {
  Finished finished(std::move(ends));
  for (std::size_t before = ~std::size_t{0}, now; (now = finished.unsent()) != before;) {
    before = now;
    if (wait_for(finished, nullptr, 0, now_ns() + kFarewellNs, nullptr, true) == Woken::kReady) {
      return;
    }
  }
}

}  // namespace

void ask(SocketRef socket, int fd) {
  Task task;
  task.flow_known = flow_of(fd, task.flow);
  // Both ends know the listener's port; the lower one is usually it.
  const auto number = [](const FlowEnd& end) { return end.port[0] << 8 | end.port[1]; };
  const bool mine = task.flow_known && number(task.flow.local) < number(task.flow.remote);
  memcpy(&task.port, mine ? task.flow.local.port : task.flow.remote.port, sizeof task.port);
  task.socket = static_cast<SocketRef&&>(socket);
  Socket& asked = *task.socket;
  bool started;
  {
    const std::scoped_lock guard(state().lock);
    started = start();
    if (started) state().tasks.push_back(std::move(task));
  }
  if (started) {
    poke();
  } else {
    asked.lane_refused(Reason::kResources);
  }
}

bool cancel(Socket& socket) {
  std::unique_lock guard(state().lock);
  for (std::size_t i = 0; i < state().tasks.size(); ++i) {
    if (state().tasks[i].socket.get() != &socket) continue;
    const Task dropped = std::move(state().tasks[i]);
    state().tasks[i] = std::move(state().tasks.back());
    state().tasks.pop_back();
    guard.unlock();
    return true;
  }
  // While the NIC is being opened one need not wait for it.
  if (state().at_work == &socket) {
    state().cancelled = true;
    return true;
  }
  for (LaneEnd* const end : state().ends) {
    if (end->socket.get() != &socket || end->stage != LaneEnd::Stage::kAsking) continue;
    end->cancelled.store(true);
    return true;
  }
  return false;
}

void look_at(LaneEnd& end) {
  {
    if (end.queued.exchange(true)) return;
    const std::scoped_lock guard(state().lock);
    end.next_queued = state().queue;
    state().queue = &end;
  }
  poke();
}

void flush_later(LaneEnd& end) {
  if (end.holding.exchange(true)) return;
  const std::uint64_t at = now_ns() + options().combine_us * 1000;
  std::uint64_t before = g_flush_at.load();
  while (at < before && !g_flush_at.compare_exchange_weak(before, at)) continue;
  if (at < before) poke();
}

void farewell() {
  std::vector<LaneEnd*> ends;
  {
    const std::scoped_lock guard(state().lock);
    if (!state().running) return;
    ends = state().ends;
    for (LaneEnd* const end : ends) ++end->pins;
  }
  for (LaneEnd* const end : ends) end->socket->finish_lane();
  await(std::move(ends));
}

void await_closed() {
  std::vector<LaneEnd*> ends;
  {
    const std::scoped_lock guard(state().lock);
    if (!state().running) return;
    for (LaneEnd* const end : state().ends) {
      if (!end->socket->closed()) continue;
      ++end->pins;
      ends.push_back(end);
    }
  }
  if (!ends.empty()) await(std::move(ends));
}

void before_fork() {
  // The order in which others lock them.
  engine::before_fork();
  epoll_sets::before_fork();
  state().lock.lock();
  SocketPool::before_fork();
}
void after_fork_in_parent() {
  SocketPool::after_fork();
  state().lock.unlock();
  epoll_sets::after_fork(false);
  engine::after_fork_in_parent();
}

void after_fork_in_child() {
  for (Task& task : state().tasks) new (&task.socket) SocketRef();
  state().tasks.clear();
  state().queue = nullptr;
  state().ends.clear();  // the parent's thread frees them in the parent; here they are left
  state().running = false;
  g_idle.store(false);
  g_flush_at.store(kNever);
  state().at_work = nullptr;
  const int descriptor = g_poke.exchange(-1);
  if (descriptor >= 0) {
    own_descriptors::release(descriptor);
    kernel::close(descriptor);
  }
  SocketPool::after_fork();
  state().lock.unlock();
  epoll_sets::after_fork(true);
  engine::after_fork_in_child();
}

}  // namespace viaduct::sovia::background
