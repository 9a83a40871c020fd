// VipxPoll, VipxDescriptors.
#include <algorithm>
#include <cstring>

#include "vipl/granted/polled_elsewhere.h"
#include "vipl/process/cancellable.h"
#include "vipl/session/completion_queue.h"
#include "vipl/process/idle.h"
#include "vipl/process/lock.h"
#include "vipl/process/sys.h"
#include "vipl/process/thread.h"
#include "vipl/session/agent_monitor.h"
#include "vipl/session/session_guard.h"
#include "vipl/session/session_table.h"
#include "vipl/session/thread_registry.h"

using namespace viaduct::vipl;
namespace layout = viaduct::layout;

namespace {

// Descriptors of ours, in front of the caller's: the port's news, or the session's poll wake; and this
// thread's wake event.
constexpr std::size_t kWake = PortWatch::kNews, kOwn = kWake + 1;
constexpr std::size_t kFew = 64;  // all together: these lie on the stack

// The functions here return what VipxPoll returns, or this (not known yet), or -errno.
constexpr int kNothing = INT_MIN;

// While this object lives the thread takes no signals but faults. So a signal that comes between two sleeps ends the
// next sleep and is not forgotten.
class SignalsHeld {
 public:
  SignalsHeld() {
    const sigset_t held = all_but_faults();
    pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  ~SignalsHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;
  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_;
};

// One call of VipxPoll that may have to sleep.
class Poll {
 public:
  Poll(const SessionGuard& inside, pollfd* fds, std::size_t count)
      : session_(inside.session()),
        queue_(inside.session(), inside.handle()),
        poller_(inside.thread().poller),
        theirs_(fds),
        count_(count) {}

  int look() const;
  int sleep(std::uint64_t until, const sigset_t* mask);

 private:
  int prepare();
  void announce();
  int sleep_on(PortWatch::News& news, std::uint64_t until);
  void hear_poll_wake(short revents);
  bool sleep_once(std::uint64_t until);

  Session& session_;
  CompletionQueue queue_;
  Poller& poller_;
  pollfd* theirs_;
  std::size_t count_;
  const sigset_t* mask_ = nullptr;
  pollfd few_[kFew];
  pollfd* all_ = few_;
  int result_ = kNothing;  // of the last sleep
  bool poll_wakes_ = true;
  PolledElsewhere elsewhere_;
};

int Poll::look() const {
  if (!queue_.valid()) return -EINVAL;
  if (session_.over()) return -ENODEV;
  return queue_.shows_entry() ? 0 : kNothing;
}

int Poll::prepare() {
  if (!poller_.prepare()) return -errno;
  const std::size_t bytes = (count_ + kOwn) * sizeof(pollfd);
  if (count_ + kOwn > kFew) {
    if (bytes > poller_.room_bytes) {
      if (poller_.room != nullptr) sys::unmap(poller_.room, poller_.room_bytes);
      poller_.room = static_cast<pollfd*>(sys::map(bytes, -1));
      poller_.room_bytes = poller_.room != nullptr ? bytes : 0;
    }
    all_ = poller_.room;
  }
  if (all_ == nullptr) return -ENOMEM;
  if (count_ != 0) std::memcpy(all_ + kOwn, theirs_, count_ * sizeof(pollfd));
  return kNothing;
}

// Lets others know that this thread is about to sleep.
void Poll::announce() {
  std::atomic<std::uint32_t>& word = queue_.sleepers();
  poller_.word = &word;
  poller_.before = word.fetch_or(layout::kPoller) | layout::kPoller;
  session_.pollers.enter(poller_);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

int Poll::sleep(std::uint64_t until, const sigset_t* mask) {
  if (const int failed = prepare(); failed != kNothing) return failed;
  const std::uint32_t forks = thread_registry::forks();
  const SignalsHeld signals;
  mask_ = mask != nullptr ? mask : &signals.before();
  announce();
  int result;
  do {
    session_.turn();
    // was_taken() must come first: the thread that takes the poller off the list has changed before what look()
    // finds.
    const bool taken = poller_.was_taken();
    result = look();
    if (result == kNothing && taken) result = 0;
    if (result != kNothing) break;
    // In a child that a signal handler has forked nothing of the session is left.
    if (!sleep_once(until) || thread_registry::forks() != forks) return -EINTR;
    result = result_;
    if (result == kNothing && until != kNever && now_ns() >= until) result = 0;
  } while (result == kNothing);
  session_.pollers.leave(poller_);
  // Another thread should watch the port now.
  if (session_.driver != nullptr && !session_.driver->is_watched()) session_.pollers.wake_one();
  return result;
}

// Returns false in a forked child.
bool Poll::sleep_once(std::uint64_t until) {
  result_ = kNothing;
  if (elsewhere_.leaves()) {
    until = std::min(until, now_ns() + PolledElsewhere::kLeaveNs);
  } else if (session_.driver != nullptr) {
    const std::uint32_t turns = session_.driver->turns();
    const std::uint32_t forks = thread_registry::forks();
    struct Context {
      Poll& poll;
      std::uint32_t forks;
    } context{*this, forks};
    const Driver::Sleep sleep = {
        &context,
        [](void* self) { return static_cast<Context*>(self)->poll.poller_.was_taken(); },
        [](void* self, PortWatch::News& news, std::uint64_t due) {
          const Context& here = *static_cast<Context*>(self);
          here.poll.result_ = here.poll.sleep_on(news, due);
          return thread_registry::forks() == here.forks;
        }};
    switch (session_.driver->watch(sleep, until)) {
      case Driver::Watched::kYes:
        elsewhere_.slept(session_.driver->turns() - turns);
        return true;
      case Driver::Watched::kForked:
        return false;
      case Driver::Watched::kByAnother:
        break;
    }
  }
  // Another thread keeps watch or polls, or the agent keeps watch.
  const bool hosted = session_.driver == nullptr;
  PortWatch::News news = {{hosted && poll_wakes_ ? session_.poll_wake : -1, POLLIN, 0}, {-1, 0, 0}, {-1, 0, 0}, {-1, 0, 0}};
  result_ = sleep_on(news, until);
  if (hosted && news[0].revents != 0) hear_poll_wake(news[0].revents);
  return true;
}

// Returns as look().
int Poll::sleep_on(PortWatch::News& news, std::uint64_t until) {
  std::memcpy(all_, news, sizeof news);
  all_[kWake] = {poller_.wake_event, POLLIN, 0};
  const std::uint64_t timeout = time_until(until);
  const std::uint32_t forks = thread_registry::forks();
  int ready;
  {
    const Cancellable here(true);
    ready = sys::poll_ns(all_, count_ + kOwn, timeout, mask_);
  }
  if (ready < 0 || thread_registry::forks() != forks) return -errno;
  std::memcpy(news, all_, sizeof news);
  if (all_[kWake].revents != 0) session_.pollers.hear(poller_);
  for (std::size_t i = 0; i < kOwn; ++i) ready -= all_[i].revents != 0;
  if (ready == 0) return kNothing;
  for (std::size_t i = 0; i < count_; ++i) theirs_[i].revents = all_[kOwn + i].revents;
  return ready;
}

// The poll wake must be read empty before the other threads are woken.
void Poll::hear_poll_wake(short revents) {
  // The agent has hung up; the agent monitor will say so.
  if ((revents & POLLIN) == 0) poll_wakes_ = false;
  char anything[16];
  while (sys::recv(session_.poll_wake, anything, sizeof anything, MSG_DONTWAIT) > 0) continue;
  session_.pollers.wake(&poller_);
}

bool valid(const timespec* timeout) {
  return timeout == nullptr ||
         (timeout->tv_sec >= 0 && timeout->tv_nsec >= 0 && timeout->tv_nsec < 1'000'000'000);
}

std::uint64_t deadline(const timespec* timeout) {
  if (timeout == nullptr) return kNever;
  constexpr std::uint64_t kSecond = 1'000'000'000;
  const auto seconds = static_cast<std::uint64_t>(timeout->tv_sec);
  if (seconds > kNever / kSecond / 4) return kNever;
  return now_ns() + seconds * kSecond + static_cast<std::uint64_t>(timeout->tv_nsec);
}

void clear(pollfd* fds, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) fds[i].revents = 0;
}

}  // namespace

int VipxPoll(VIP_CQ_HANDLE cq, struct pollfd* fds, unsigned long nfds,
             const struct timespec* timeout, const sigset_t* mask) {
  const SessionGuard inside(cq, Kind::kCq);
  if (!inside || !valid(timeout) || (fds == nullptr && nfds != 0)) {
    errno = EINVAL;
    return -1;
  }
  const Uncancellable guard;
  Poll poll(inside, fds, nfds);
  inside.session().turn();
  int result = poll.look();
  if (result == kNothing && timeout != nullptr && timeout->tv_sec == 0 && timeout->tv_nsec == 0) {
    const Cancellable here(true);
    return sys::poll_ns(fds, nfds, 0, mask);
  }
  if (result == kNothing) result = poll.sleep(deadline(timeout), mask);
  if (result >= 0) {
    if (result == 0) clear(fds, nfds);
    return result;
  }
  errno = -result;
  return -1;
}

int VipxDescriptors(int* fds, int most) {
  int count = 0;
  const auto add = [&](int fd) {
    if (fd < 0) return;
    if (fds != nullptr && count < most) fds[count] = fd;
    ++count;
  };
  Lock lock(registry::g_lock);
  add(agent_monitor::agent_wake());
  for (std::uint32_t i = 0; i < kMaxSessions; ++i) {
    const Session& s = registry::at(i);
    if (s.state == Session::State::kFree) continue;
    const int room = fds != nullptr && most > count ? most - count : 0;
    count += registry::descriptors(s, room != 0 ? fds + count : nullptr, room);
  }
  const int room = fds != nullptr && most > count ? most - count : 0;
  return count + thread_registry::descriptors(room != 0 ? fds + count : nullptr, room);
}
