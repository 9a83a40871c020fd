#include "sovia/background/background.h"

#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "sovia/background/background_state.h"
#include "sovia/background/dear_lanes.h"
#include "sovia/background/lane_family.h"
#include "sovia/background/kernel_watch.h"
#include "sovia/background/lane_finisher.h"
#include "sovia/background/rest.h"
#include "sovia/datagram/datagram_control.h"
#include "sovia/datagram/datagram_table.h"
#include "sovia/lane/engine.h"
#include "sovia/lane/listener.h"
#include "sovia/lane/waiting.h"
#include "sovia/poll/epoll_set.h"
#include "sovia/process/counters.h"
#include "sovia/process/libc.h"
#include "sovia/process/once.h"
#include "sovia/process/own_descriptors.h"
#include "sovia/process/seccomp.h"
#include "sovia/process/threads.h"
#include "sovia/process/wake_event.h"
#include "sovia/socket/fallback.h"
#include "sovia/socket/held_sends.h"
#include "sovia/socket/lane_endpoint.h"
#include "sovia/socket/lane_life.h"
#include "sovia/socket/quick_bypass.h"
#include "sovia/socket/socket_pool.h"
#include "sovia/socket/table.h"
#include "xdp/mutex.h"

namespace viaduct::sovia::background {
State& state() {
  return once([]() -> State& { return *new State; });
}

// The table forgets a descriptor before it is closed. So if the table still has it for this socket after the copy, the
// copy is the socket's.
int copy_descriptor(Socket& socket) {
  int found = -1;
  table::for_each([&](int fd, Socket& each) {
    if (&each != &socket || found >= 0) return;
    constexpr int kHigh = 900;
    int copy = libc::fcntl(fd, F_DUPFD_CLOEXEC, kHigh);
    if (copy < 0) copy = libc::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (copy < 0) return;
    if (table::find(fd).get() == &each) {
      own_descriptors::mark(copy);
      found = copy;
    } else {
      libc::close(copy);
    }
  });
  return found;
}

namespace {

constexpr std::uint64_t kFirstLookNs = 25'000;       // the first look whether the peer has asked
constexpr unsigned long kTimerSlackNs = 5'000;       // Linux's default is 50 us
constexpr std::uint64_t kSeldomNs = 20 * kMs;
constexpr std::uint64_t kExitDrainNs = 20 * kMs;      // at the end of the process, while nothing moves
constexpr std::uint64_t kAloneDrainNs = 300 * kMs;    // ... if there is no finisher

std::atomic<bool> g_stops{false};  // the thread ends when the last lane has gone
std::atomic<bool> g_leaves{false};  // the thread ends at once: the finisher has the lanes

// ---------------------------------------------------------------------------- the thread

void do_tasks() {
  for (;;) {
    Task task;
    {
      const LockGuard guard(requests().lock);
      if (requests().tasks.empty()) return;
      task = std::move(requests().tasks.back());
      requests().tasks.pop_back();
      requests().at_work = task.asker;
      requests().cancelled = false;
    }
    if (!task.socket) {
      open_nic(task.flow);
      continue;
    }
    Reason why = task.flow_known ? dear_lanes::judge(task) : Reason::kShort;
    if (why == Reason::kNone) why = open_lane(task);
    bool cancelled;
    {
      const LockGuard guard(requests().lock);
      requests().at_work = nullptr;
      cancelled = requests().cancelled;
      if (cancelled && why == Reason::kNone) state().ends.back()->cancelled.store(true);
    }
    if (why != Reason::kNone && !cancelled) lane_refused(*task.socket, why);
  }
}

// Goes on with sockets whose lanes have broken, and sets the events to poll their descriptors for.
void look_at_falling() {
  std::vector<Falling> fallen;
  {
    const LockGuard guard(requests().lock);
    fallen.swap(requests().fallen);
  }
  for (Falling& one : fallen) state().falling.push_back(std::move(one));
  for (std::size_t i = 0; i < state().falling.size();) {
    Falling& one = state().falling[i];
    one.wanted = falling(*one.socket);
    if (one.wanted != 0 && one.fd < 0) one.fd = copy_descriptor(*one.socket);
    if (one.wanted != 0 && one.fd >= 0) {
      go_on_falling(*one.socket, one.fd);
      one.wanted = falling(*one.socket);
      // A part of a record has come: polling for it would end at once, so look again in a moment.
      pollfd readable{one.fd, POLLIN, 0};
      if ((one.wanted & POLLIN) != 0 && libc::poll(&readable, 1, 0) > 0) {
        one.wanted = static_cast<short>((one.wanted & ~POLLIN) | POLLPRI);
      }
    }
    // Nothing is left to do, or the program has closed the socket and no descriptor is left: drop it.
    if (one.wanted == 0 || (one.fd < 0 && one.socket->closed())) {
      own_descriptors::close(one.fd);
      one = std::move(state().falling.back());
      state().falling.pop_back();
    } else {
      ++i;
    }
  }
}

// Takes the next step for all lanes that have changed, and for those that have something due.
void look_at_lanes() {
  BackgroundLane* queue;
  {
    const LockGuard guard(requests().lock);
    queue = requests().queue;
    requests().queue = nullptr;
    for (BackgroundLane* lane = queue; lane != nullptr; lane = lane->next_queued) {
      static_cast<LaneEndpoint*>(lane)->listed = true;
      lane->queued.store(false);
    }
  }
  const std::uint64_t now = now_ns();
  for (std::size_t i = 0; i < state().ends.size();) {
    LaneEndpoint* const end = state().ends[i];
    if (end->claimed && claim_has_served(*end, now)) unclaim(*end);
    if (end->doubted && now >= end->unclaim_at) tell_doubt(*end);
    const bool due = end->listed || end->stage != LaneEndpoint::Stage::kOpen || end->closing;
    // The thread that found the change held locks, so it could not wake the socket's other threads itself.
    if (end->listed && end->stage == LaneEndpoint::Stage::kOpen) end->socket->changed();
    end->listed = false;
    if (!due || end->is_pinned() || advance(*end, now) || !free_end(i)) ++i;
  }
}

// Gives up lanes of a lost NIC after its last events: a lane of which it has reported nothing would wait for ever.
void give_up_lanes_of_lost_nic() {
  if (!state().nic_lost.exchange(false)) return;
  for (LaneEndpoint* const end : state().ends) {
    if (end->stage == LaneEndpoint::Stage::kAsking) continue;  // its VI reports the loss
    bool cut;
    {
      const LockGuard guard(end->lane.lock());
      cut = end->lane.control.is_cut();
    }
    if (!cut) end->give_up();
    end->listed = true;
  }
  datagram::nic_lost();
}

// Closes a lost NIC when its lanes have gone, as its descriptors would stay otherwise.
void close_lost_nic() {
  if (!state().ends.empty() || !datagram::is_idle()) return;
  if (ProcessNic* const nic = engine::take_lost(); nic != nullptr) VipCloseNic(nic->handle());
}

void flush_held() {
  const std::uint64_t now = now_ns();
  if (now < requests().flush_at.load()) return;
  requests().flush_at.store(kNever);
  for (LaneEndpoint* const end : state().ends) {
    if (!end->holding.exchange(false)) continue;
    unsigned changes = 0;
    {
      const LockGuard guard(end->lane.lock());
      if (!end->lane.wants_poll() && !end->lane.ring.awaits_completion()) continue;
      if (end->lane.tx.holds()) counters::add(Counter::kCombineTimeouts);
      changes = end->lane.poll();
      if (end->lane.tx.is_corked() && now >= end->corked_until) {
        end->lane.tx.push();
        end->corked_until = 0;
      } else {
        end->lane.tx.flush();
      }
      if (end->lane.wants_poll() || end->lane.ring.awaits_completion()) flush_later(*end);
    }
    if (changes != 0) end->socket->changed();
  }
}

// The time of the next step that no event brings about.
std::uint64_t next_due() {
  const std::uint64_t now = now_ns();
  std::uint64_t due =
      std::min({requests().flush_at.load(), datagram::next_due(now), dear_lanes::due(), rest_due(), kernel_watch_due()});
  if (g_stops.load()) due = std::min(due, now + kMs);
  // Sockets that fall back are looked at now and then: a part of a record may have come, or the program may have read
  // the bytes before it.
  if (!state().falling.empty()) due = std::min(due, now + kSeldomNs);
  for (const LaneEndpoint* const end : state().ends) {
    if (end->stage == LaneEndpoint::Stage::kOpen) {
      if (end->claimed || end->doubted) due = std::min(due, std::max(end->unclaim_at, now));
      if (end->closing) due = std::min(due, now + kSeldomNs);
      continue;
    }
    // The waits grow: a busy peer asks for the lane soon, an idle one after some time.
    const std::uint64_t age = now - end->asked_at;
    due = std::min(due, now + std::clamp(age / 4, kFirstLookNs, kSeldomNs));
  }
  return due;
}

// Whether a closed socket waits for the confirmation of its last data. Then the thread itself hears the lanes, as the
// program may make no more calls, and the peer's reader waits for the end.
bool awaits_confirmation() {
  return std::any_of(state().ends.begin(), state().ends.end(), [](const LaneEndpoint* end) {
    if (end->keeper.load() < 0) return false;
    const LockGuard guard(end->lane.lock());
    return !end->lane.control.is_cut();
  });
}

void do_what_is_due() {
  give_up_lanes_of_lost_nic();
  do_tasks();
  watch_kernel_connections();
  look_at_lanes();
  dear_lanes::look();
  datagram::turn();
}

void run() {
  const int poke_descriptor = requests().poke.load();
  for (;;) {
    do_what_is_due();
    close_lost_nic();
    look_at_falling();
    flush_held();
    if (g_leaves.load() || may_rest(now_ns())) return;
    if (g_stops.load() && state().ends.empty() && state().falling.empty() && datagram::is_idle()) return;
    requests().idle.store(true);
    {
      const LockGuard guard(requests().lock);
      if (!requests().tasks.empty() || requests().queue != nullptr || !requests().fallen.empty() ||
          state().nic_lost.load() || datagram::has_work()) {
        requests().idle.store(false);
        continue;
      }
    }
    const std::uint64_t due = next_due();
    std::vector<pollfd> fds{{poke_descriptor, POLLIN, 0}};
    for (const Falling& one : state().falling) {
      const auto events = static_cast<short>(one.wanted & (POLLIN | POLLOUT));
      if (one.fd >= 0 && events != 0) fds.push_back({one.fd, events, 0});
    }
    listener::sleep(fds.data(), fds.size(), due, awaits_confirmation());
    requests().idle.store(false);
    const bool poked = wake_event::empty(poke_descriptor);
    state().timer_expired = !poked && due != kNever && now_ns() >= due;
    counters::add(Counter::kBackgroundTurns);
  }
}

void* run_thread(void*) {
  t_is_librarys = true;
  prctl(PR_SET_NAME, "sovia");
  prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
  for (;;) {
    run();
    prepare_rest();
    if (ProcessNic* const nic = engine::nic(); nic != nullptr && !g_leaves.load()) {
      engine::pause();
      engine::set_nic(nullptr);
      engine::go_on();
      VipCloseNic(nic->handle());  // the ProcessNic stays: another thread may be about to use it
    }
    const LockGuard guard(requests().lock);
    // A connection may have asked for a lane meanwhile.
    if (!g_stops.load() && (!requests().tasks.empty() || !requests().fallen.empty())) continue;
    state().running = false;
    return nullptr;
  }
}

bool start() VIADUCT_REQUIRES(requests().lock) {
  if (g_stops.load()) return false;
  if (state().running) return true;
  if (own_descriptors::scarce()) return false;
  // Keep the eventfd of a thread that has ended: another thread may be about to write to it.
  if (requests().poke.load() < 0) {
    const int descriptor = wake_event::make();
    if (descriptor < 0) return false;
    requests().poke.store(descriptor);
  }
  state().running = start_thread(run_thread, nullptr);
  return state().running;
}

// With none of the socket's locks held.
void give_pin_back(LaneEndpoint& end) {
  const SocketRef socket = end.socket->reference();
  const RxGuard guard(*socket);
  unpin(end);
}

// Met when all data sent on these lanes has arrived.
class Finished final : public WaitCondition {
 public:
  explicit Finished(const std::vector<LaneEndpoint*>& ends) : ends_(ends) {}
  ~Finished() {
    for (LaneEndpoint* const end : ends_) give_pin_back(*end);
  }
  bool ready() override {
    for (LaneEndpoint* const end : ends_) {
      const LockGuard guard(end->lane.lock());
      end->lane.poll();
      if (end->stage == LaneEndpoint::Stage::kAsking) continue;
      if (!end->lane.control.broken() && !end->lane.control.is_finished()) return false;
    }
    return true;
  }
  bool concerns(const Watched&) const override { return true; }
  std::size_t unsent() const {
    std::size_t bytes = 0;
    for (LaneEndpoint* const end : ends_) {
      const LockGuard guard(end->lane.lock());
      bytes += end->lane.ring.unsent();
    }
    return bytes;
  }

 private:
  const std::vector<LaneEndpoint*>& ends_;
};

// Waits for the data of these lanes to arrive, as long as some of it moves. False: some has not.
bool await_arrival(Finished& finished, std::uint64_t patience) {
  for (std::size_t before = ~std::size_t{0}, now; (now = finished.unsent()) != before;) {
    before = now;
    if (wait_for(finished, nullptr, 0, now_ns() + patience, nullptr, true, Signals::kWait) == Woken::kReady) return true;
  }
  return false;
}

// Waits for the data of these lanes. The rest is left to the finisher, or goes to the kernel, which may take as long as
// the connection lives. True: some is left to the finisher. Gives the pins back.
bool await(const std::vector<LaneEndpoint*>& ends) {
  Finished finished(ends);
  bool has_finisher = false, leaves = false;
  if (!await_arrival(finished, kExitDrainNs)) {
    // The present finisher may have been killed.
    ProcessNic* const nic = engine::nic();
    has_finisher = nic != nullptr && nic->set_finisher(finish_lanes);
    if (!has_finisher) await_arrival(finished, kAloneDrainNs);
  }
  for (LaneEndpoint* const end : ends) {
    Socket& socket = *end->socket;
    if (has_fallen(socket, *end)) continue;
    {
      const LockGuard guard(end->lane.lock());
      if (end->stage == LaneEndpoint::Stage::kAsking || end->lane.control.is_finished()) continue;
      if (has_finisher && end->stage == LaneEndpoint::Stage::kOpen && !end->lane.control.broken()) {
        leaves = true;
        continue;
      }
    }
    const bool closed = socket.closed();
    const int fd = closed ? end->keeper.load() : copy_descriptor(socket);
    if (fd < 0) continue;
    end->give_up();
    fall_back(socket, fd);
    await_kernel(socket, fd);
    if (closed) continue;
    own_descriptors::close(fd);
  }
  return leaves;
}

// The kernel resets the connection when the process has ended. Gives a pin back.
void reset_at_exit(LaneEndpoint& end) {
  if (const int fd = copy_descriptor(*end.socket); fd >= 0) {
    const linger at_once{1, 0};
    libc::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    own_descriptors::close(fd);
  }
  end.give_up();
  give_pin_back(end);
}

// Waits until the kernel has taken the bytes left over from broken lanes; the thread writes them.
void await_kept() {
  while (OwedBytes::count() != 0) {
    constexpr int kLookMs = 5;
    libc::poll(nullptr, 0, kLookMs);
  }
}

// Ends the thread, unless that takes too long. False: there was none.
bool end_thread() {
  constexpr std::uint64_t kStopNs = 3'000 * kMs;
  constexpr timespec kMoment{0, 1'000'000};
  g_stops.store(true);
  poke();
  const std::uint64_t until = now_ns() + kStopNs;
  for (bool ran = false; now_ns() < until; ran = true) {
    {
      const LockGuard guard(requests().lock);
      if (!state().running) return ran;
    }
    libc::ppoll(nullptr, 0, &kMoment, nullptr);
  }
  return true;
}

// Leaves the lanes to the finisher, with no thread of the library in the middle of a change.
void leave_to_finisher() {
  g_leaves.store(true);
  end_thread();
  engine::leave();
}

// Pins all lanes, or those whose sockets are closed. False: the thread does not run, so that there is none.
bool pin_ends(std::vector<LaneEndpoint*>& pinned, bool closed_ones) {
  const LockGuard guard(requests().lock);
  if (!state().running) return false;
  for (LaneEndpoint* const end : state().ends) {
    if (closed_ones && !end->socket->closed()) continue;
    ++end->pins;
    pinned.push_back(end);
  }
  return true;
}

}  // namespace

void begin() {
  const LockGuard guard(requests().lock);
  requests().start = start;
  datagram::set_thread({ensure_thread, poke, open_nic_for_datagrams});
}

void stop() {
  constexpr timespec kWatch{0, 40'000'000};
  // The pause lets VIPL's thread end.
  if (end_thread()) libc::ppoll(nullptr, 0, &kWatch, nullptr);
}

void resume() {
  g_stops.store(seccomp::in_force());
  g_leaves.store(false);
}

void farewell() {
  // On return the sent datagrams have left, and later ones of the peers come through the kernel.
  datagram::table::give_up_all(Reason::kEnd, false);
  datagram::await_ended();
  std::vector<LaneEndpoint*> ends;
  if (!pin_ends(ends, false)) return;
  std::erase_if(ends, [](LaneEndpoint* end) {
    if (finish_lane(*end->socket)) return false;
    reset_at_exit(*end);
    return true;
  });
  const bool leaves = await(ends);
  // The background thread sends what broken lanes left over only through copies of descriptors. A socket for which no
  // copy could be made is served here.
  table::for_each([](int fd, Socket& socket) { await_kernel(socket, fd); });
  await_kept();
  if (leaves) leave_to_finisher();
}

void await_closed() {
  std::vector<LaneEndpoint*> ends;
  if (!pin_ends(ends, true)) return;
  if (!ends.empty()) await(ends);
  await_kept();
}

// The locks are held over fork: one of the two functions below frees them.
void before_fork() VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
  // A thread that has a set locked may wait for the turn of another one, which may wait for the set.
  for (engine::pause(); !epoll_sets::try_before_fork(); engine::pause()) {
    engine::go_on();
    sched_yield();
  }
  waiting::before_fork();
  requests().lock.lock();
  SocketPool::before_fork();
  datagram::before_fork();
  held_sends::before_fork();
  lane_family::family();
}

void after_fork_in_parent() VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
  held_sends::after_fork_in_parent();
  datagram::after_fork(false);
  SocketPool::after_fork();
  requests().lock.unlock();
  epoll_sets::after_fork(false);
  waiting::after_fork_in_parent();
  engine::go_on();
}

void after_fork_in_child() VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
  held_sends::after_fork_in_child();
  quick_bypass::after_fork_in_child();
  datagram::after_fork(true);
  for (Task& task : requests().tasks) new (&task.socket) SocketRef();
  requests().tasks.clear();
  requests().known.clear();
  requests().knows_any.store(false);
  requests().queue = nullptr;
  for (std::vector<Falling>* const all : {&requests().fallen, &state().falling}) {
    for (Falling& one : *all) {
      new (&one.socket) SocketRef();
      own_descriptors::close(one.fd);
    }
  }
  requests().fallen.clear();
  requests().lanes.clear();
  state().falling.clear();
  OwedBytes::forget_count();  // the parent's thread sends those of closed sockets
  // A copy of a closed socket's descriptor in the child would keep the peer from the end of the stream.
  // Lanes' locks may be held by threads that the child does not have.
  for (LaneEndpoint* const end : state().ends) {
    own_descriptors::close(end->keeper.exchange(-1));
  }
  state().ends.clear();  // the parent's thread frees them in the parent; here they are left
  state().early_claims = 0;
  dear_lanes::after_fork_in_child();
  state().running = false;
  resume();
  requests().idle.store(false);
  requests().flush_at.store(kNever);
  requests().at_work = nullptr;
  own_descriptors::close(requests().poke.exchange(-1));
  SocketPool::after_fork();
  requests().lock.unlock();
  epoll_sets::after_fork(true);
  waiting::after_fork_in_child();
  engine::after_fork_in_child();
}

}  // namespace viaduct::sovia::background
