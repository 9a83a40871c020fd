#include "sovia/lane/waiting.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <vipl/vipl_ext.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>

#include "sovia/lane/engine.h"
#include "sovia/lane/listener.h"
#include "sovia/lane/spin_time.h"
#include "sovia/process/counters.h"
#include "sovia/process/libc.h"
#include "sovia/process/lock_order.h"
#include "sovia/process/options.h"
#include "sovia/process/own_descriptors.h"
#include "sovia/process/signals.h"
#include "sovia/process/wake_event.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {
namespace {

constexpr unsigned kLooksPerClock = 16;       // while spinning

Mutex g_sleepers_lock SOVIA_LOCK_ORDER(lane, sleepers);

// An event that wakes a thread which sleeps on kernel descriptors. There are few, and threads share them when none is
// left: a thread woken for another's sake sleeps again.
struct WakeEvent {
  int fd = -1;  // does not change while there are users
  unsigned users VIADUCT_GUARDED_BY(g_sleepers_lock) = 0;
  unsigned rung VIADUCT_GUARDED_BY(g_sleepers_lock) = 0;  // woken users that have yet to notice
};
constexpr std::size_t kWakeEvents = 8;
constinit WakeEvent g_wake_events[kWakeEvents] VIADUCT_GUARDED_BY(g_sleepers_lock);

// A wake event by which signals end the sleep of the thread that hears the lanes. Only one thread hears them at a time.
constinit std::atomic<int> g_signal_wake_event{-1};

// A thread that sleeps, or is about to. It sleeps on its wake event, or without one on `word`.
struct Sleeper {
  WaitCondition& condition;
  std::atomic<std::uint32_t> word{0};  // 1: woken
  WakeEvent* wake_event = nullptr;     // changed by the sleeper alone, under the lock
  Sleeper* next VIADUCT_GUARDED_BY(g_sleepers_lock) = nullptr;
  Sleeper** link VIADUCT_GUARDED_BY(g_sleepers_lock) = nullptr;
};

Sleeper* g_sleepers VIADUCT_GUARDED_BY(g_sleepers_lock) = nullptr;
std::atomic<std::uint32_t> g_sleeping{0};

constinit thread_local Sleeper* t_sleeper = nullptr;  // this thread's, while it has one

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* timeout) {
  return ::syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

// The thread that processes arrivals may wait for this thread's processor, while this one has nothing to do but look, and
// would do so for a whole slice of the scheduler's.
void give_way() {
  if (engine::found_turn_taken()) [[unlikely]] sched_yield();
}

// Threads to be woken when g_sleepers_lock is free: on the same processor a woken thread runs at once, and takes the
// lock. A word may be gone by then, as the kernel only looks for sleepers at its address.
class WakeUps {
 public:
  WakeUps() = default;
  WakeUps(const WakeUps&) = delete;
  ~WakeUps() {
    for (std::size_t i = 0; i < count_; ++i) futex(*words_[i], FUTEX_WAKE_PRIVATE, 1, nullptr);
  }
  void add(Sleeper& sleeper) VIADUCT_REQUIRES(g_sleepers_lock) {
    if (sleeper.word.exchange(1) != 0) return;
    if (sleeper.wake_event != nullptr) {
      if (sleeper.wake_event->rung++ == 0) wake_event::ring(sleeper.wake_event->fd);
    } else if (count_ != std::size(words_)) {
      words_[count_++] = &sleeper.word;
    } else {
      futex(sleeper.word, FUTEX_WAKE_PRIVATE, 1, nullptr);
    }
  }

 private:
  std::atomic<std::uint32_t>* words_[16];
  std::size_t count_ = 0;
};

// The sleeper is awake.
void hear(Sleeper& sleeper) VIADUCT_REQUIRES(g_sleepers_lock) {
  if (sleeper.word.exchange(0) == 0 || sleeper.wake_event == nullptr) return;
  if (--sleeper.wake_event->rung == 0) wake_event::empty(sleeper.wake_event->fd);
}

class Asleep {
 public:
  Asleep(Sleeper& sleeper, bool needs_wake_event) : sleeper_(sleeper) {
    const LockGuard guard(g_sleepers_lock);
    if (needs_wake_event) give_wake_event();
    t_sleeper = &sleeper;
    sleeper.next = g_sleepers;
    sleeper.link = &g_sleepers;
    if (g_sleepers != nullptr) g_sleepers->link = &sleeper.next;
    g_sleepers = &sleeper;
    g_sleeping.fetch_add(1);
  }
  ~Asleep() {
    WakeUps wake_ups;
    const LockGuard guard(g_sleepers_lock);
    hear(sleeper_);
    t_sleeper = nullptr;
    if (sleeper_.wake_event != nullptr) --sleeper_.wake_event->users;
    *sleeper_.link = sleeper_.next;
    if (sleeper_.next != nullptr) sleeper_.next->link = sleeper_.link;
    g_sleeping.fetch_sub(1);
    if (listener::leave(listens_) && g_sleepers != nullptr) wake_ups.add(*g_sleepers);
  }
  void has_woken() {
    const LockGuard guard(g_sleepers_lock);
    hear(sleeper_);
  }
  // Gives the sleeper the least used wake event. Without any the thread has to look now and then.
  void give_wake_event() VIADUCT_REQUIRES(g_sleepers_lock) {
    WakeEvent* best = nullptr;
    for (WakeEvent& wake_event : g_wake_events) {
      if (wake_event.fd < 0 && best != nullptr && best->users == 0) break;
      if (wake_event.fd < 0) wake_event.fd = wake_event::make();
      if (wake_event.fd < 0) break;
      if (best == nullptr || wake_event.users < best->users) best = &wake_event;
      if (best->users == 0) break;
    }
    if (best != nullptr) ++best->users;
    sleeper_.wake_event = best;
  }
  // Makes this thread the one that hears the lanes, if one has to and no other of the program does. It sleeps on
  // descriptors then, so it needs a wake event.
  bool listen() {
    const bool listened = listens_;
    listens_ = listener::take(listened);
    if (listened || !listens_) return listens_;
    const LockGuard guard(g_sleepers_lock);
    if (sleeper_.wake_event == nullptr) {
      give_wake_event();
      if (sleeper_.wake_event != nullptr && sleeper_.word.load() != 0 && sleeper_.wake_event->rung++ == 0) {
        wake_event::ring(sleeper_.wake_event->fd);
      }
    }
    return true;
  }

 private:
  Sleeper& sleeper_;
  bool listens_ = false;
};

// While it lives the thread may be cancelled at any instruction, as in the C library's own sleeps.
class Cancellable {
 public:
  Cancellable() { pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before_); }
  ~Cancellable() { pthread_setcanceltype(before_, nullptr); }
  Cancellable(const Cancellable&) = delete;
  Cancellable& operator=(const Cancellable&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_DEFERRED;
};

// This is a direct system call: the kernel reads `left` when the sleep begins, so a signal handler that runs before can
// set it to zero (signals::Alarm). The C library would take a copy.
int sleep_until_signalled(pollfd* fds, nfds_t count, const timespec* left, const sigset_t* mask) {
  constexpr long kMaskBytes = 8;
  const Cancellable here;
  return static_cast<int>(::syscall(SYS_ppoll, fds, count, left, mask, kMaskBytes));
}

int sleep_on_word(std::atomic<std::uint32_t>& word, const timespec* left) {
  const Cancellable here;
  return static_cast<int>(futex(word, FUTEX_WAIT_PRIVATE, 0, left));
}

constexpr long kMoment = 10'000'000;

// The wake event for signals of the one thread that listens.
int signal_wake_event() {
  int wake_event = g_signal_wake_event.load();
  if (wake_event < 0) g_signal_wake_event.store(wake_event = wake_event::make());
  return wake_event;
}

constinit thread_local __attribute__((tls_model("initial-exec"))) SpinTime t_spin_time, t_completion_spin_time;
// The sleeps in a row of this thread that have ended without the completion that it waits for.
constinit thread_local __attribute__((tls_model("initial-exec"))) unsigned t_sleeps_without_completion = 0;

// True if the condition was met in time.
bool spin(WaitCondition& condition, std::uint64_t end, Signals signals) {
  for (unsigned looks = 0;; ++looks) {
    progress();
    if (condition.ready()) return true;
    if (signals == Signals::kInterrupt && signals::held_back()) return false;
    give_way();
    if (looks % kLooksPerClock == kLooksPerClock - 1 && now_ns() >= end) return false;
    ProcessNic* const nic = engine::nic();
    if (nic == nullptr || VipxSpin(nic->cq(), looks) == 0) return false;
  }
}

Woken sleep(WaitCondition& condition, pollfd* fds, nfds_t count, std::uint64_t deadline,
            const sigset_t* mask, Signals signals) {
  counters::add(Counter::kSleeps);
  // Room for the caller's descriptors, this thread's wake event, and the wake event for signals.
  constexpr nfds_t kFew = 64, kOwn = 2;
  pollfd few[kFew];
  std::unique_ptr<pollfd[]> many;
  if (count + kOwn > kFew) many.reset(new pollfd[count + kOwn]);
  pollfd* const all = many != nullptr ? many.get() : few;
  if (count != 0) std::memcpy(all, fds, count * sizeof *fds);
  const bool interrupted_by_signals = signals == Signals::kInterrupt;
  Sleeper sleeper{condition};
  // A thread that waits for lanes alone needs no wake event: it sleeps on its own word and is woken alone.
  Asleep asleep(sleeper, count != 0 || mask != nullptr);
  for (;;) {
    const bool has_role = asleep.listen();
    ProcessNic* const nic = engine::nic();  // may have been lost meanwhile
    const bool listens = has_role && nic != nullptr;
    const int wake_event = sleeper.wake_event != nullptr ? sleeper.wake_event->fd : -1;
    all[count] = {wake_event, POLLIN, 0};
    all[count + 1] = {listens && interrupted_by_signals ? signal_wake_event() : -1, POLLIN, 0};
    timespec left = until(deadline);
    const signals::Alarm alarm(interrupted_by_signals ? &left : nullptr, all[count + 1].fd);
    progress();
    if (condition.ready()) return Woken::kReady;
    if (interrupted_by_signals && signals::held_back()) return Woken::kSignal;
    give_way();
    int ready;
    if (listens) {
      ready = VipxPoll(nic->cq(), all, count + kOwn, &left, mask);
    } else if (wake_event >= 0 || count != 0 || mask != nullptr) {
      // No descriptor is left for a wake event: look now and then.
      if (wake_event < 0 && (left.tv_sec > 0 || left.tv_nsec > kMoment)) left = {0, kMoment};
      if (interrupted_by_signals && signals::held_back()) return Woken::kSignal;
      ready = sleep_until_signalled(all, count + 1, &left, mask);
    } else {
      ready = sleep_on_word(sleeper.word, &left);
    }
    if (ready < 0 && errno == EINTR && interrupted_by_signals) return Woken::kSignal;
    if (ready < 0 && listens && errno == ENODEV) engine::lost(*nic);
    if (all[count + 1].fd >= 0 && all[count + 1].revents != 0) wake_event::empty(all[count + 1].fd);
    if (sleeper.word.load() != 0) {
      asleep.has_woken();
    } else if (ready > 0 && wake_event >= 0 && all[count].revents != 0) {
      sched_yield();  // for another user of the same wake event
    }
    if (ready > 0 && (listens || wake_event >= 0 || count != 0)) {
      bool any = false;
      for (nfds_t i = 0; i < count; ++i) {
        fds[i].revents = all[i].revents;
        any = any || all[i].revents != 0;
      }
      if (any) return Woken::kDescriptors;
    }
    progress();
    if (condition.ready()) return Woken::kReady;
    if (deadline != kNever && now_ns() >= deadline) return Woken::kTimeout;
  }
}

}  // namespace

// ---------------------------------------------------------------------------- waiting

Woken wait_for(WaitCondition& condition, pollfd* fds, nfds_t count, std::uint64_t deadline,
               const sigset_t* mask, bool worth_spinning, Signals signals) {
  const bool lanes = engine::nic() != nullptr && options().handling == Handling::kSingle;
  if (condition.ready() || (progress() && condition.ready())) return Woken::kReady;
  const std::uint64_t begin = now_ns();
  const bool expired = deadline != kNever && begin >= deadline;
  const bool spins = lanes && worth_spinning && !expired;
  const std::uint64_t most = options().spin_us * 1000;
  const std::uint64_t spin_ns = t_spin_time.ns(most);
  if (spins && spin_ns != 0 && spin(condition, std::min(deadline, begin + spin_ns), signals)) {
    counters::add(Counter::kSpinHits);
    return Woken::kReady;
  }
  if (expired) {
    constexpr timespec kNone{};
    const int ready = count == 0 && mask == nullptr ? 0 : libc::ppoll(fds, count, &kNone, mask);
    if (ready < 0 && errno == EINTR) return Woken::kSignal;
    return ready > 0 ? Woken::kDescriptors : Woken::kTimeout;
  }
  const Woken woken = sleep(condition, fds, count, deadline, mask, signals);
  if (spins && woken == Woken::kDescriptors) t_spin_time.looked_elsewhere();
  if (spins && woken != Woken::kDescriptors) t_spin_time.slept(now_ns() - begin, most);
  return woken;
}

// A sleep of kLookNs says little of how long the completion took, as nothing ends it early. Completions that take several
// sleeps are worth no spinning.
bool wait_for_completion(WaitCondition& condition) {
  constexpr std::uint64_t kLookNs = 200'000;
  constexpr unsigned kSleeps = 2;
  if (condition.ready() || (progress() && condition.ready())) return true;
  const std::uint64_t begin = now_ns();
  const std::uint64_t most = options().spin_us * 1000;
  const bool spins = engine::nic() != nullptr && options().handling == Handling::kSingle;
  if (spins && spin(condition, begin + t_completion_spin_time.ns(most), Signals::kWait)) {
    counters::add(Counter::kSpinHits);
    t_sleeps_without_completion = 0;
    return true;
  }
  const bool ready = sleep(condition, nullptr, 0, now_ns() + kLookNs, nullptr, Signals::kWait) == Woken::kReady;
  t_sleeps_without_completion = ready ? 0 : t_sleeps_without_completion + 1;
  if (t_sleeps_without_completion > kSleeps) {
    t_completion_spin_time.shorten();
  } else if (spins) {
    t_completion_spin_time.lengthen(most);
  }
  return ready;
}

namespace waiting {

void wake(const Watched& source) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (g_sleeping.load() == 0) return;
  WakeUps wake_ups;
  const LockGuard guard(g_sleepers_lock);
  for (Sleeper* s = g_sleepers; s != nullptr; s = s->next) {
    // The thread that processes arrivals before it sleeps checks its own condition itself.
    if (s == t_sleeper || !s->condition.concerns(source)) continue;
    wake_ups.add(*s);
    counters::add(Counter::kWakeUps);
  }
}

// Held over fork.
void before_fork() VIADUCT_NO_THREAD_SAFETY_ANALYSIS { g_sleepers_lock.lock(); }
void after_fork_in_parent() VIADUCT_NO_THREAD_SAFETY_ANALYSIS { g_sleepers_lock.unlock(); }
void after_fork_in_child() VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
  g_sleepers = nullptr;
  g_sleeping.store(0);
  listener::after_fork_in_child();
  // The wake events are shared with the parent's threads, so the child makes its own.
  for (WakeEvent& wake_event : g_wake_events) {
    own_descriptors::close(wake_event.fd);
    wake_event = {};
  }
  own_descriptors::close(g_signal_wake_event.exchange(-1));
  g_sleepers_lock.unlock();
}

}  // namespace waiting
}  // namespace viaduct::sovia
