// epoll_create, epoll_ctl, epoll_wait and their kin.
#include <errno.h>
#include <limits.h>
#include <sys/syscall.h>
#include <time.h>

#include "sovia/datagram/datagram_table.h"
#include "sovia/lane/waiting.h"
#include "sovia/poll/epoll_set.h"
#include "sovia/poll/ready_arguments.h"
#include "sovia/process/guarded_copy.h"
#include "sovia/process/libc.h"
#include "sovia/process/signals.h"
#include "sovia/socket/held_sends.h"
#include "sovia/socket/table.h"
#include "sovia/sovia.h"

using namespace viaduct::sovia;

namespace {

// The kernel's limit of events in one call; the kernel itself refuses larger numbers.
constexpr int kMost = INT_MAX / static_cast<int>(sizeof(epoll_event));

EpollSetRef set_for(int epfd, int most) {
  return most > 0 && most <= kMost ? epoll_sets::find_or_look(epfd) : nullptr;
}

// Sets errno.
bool can_write(epoll_event* events) {
  if (copy_guarded(events, events, sizeof *events)) return true;
  return failed(EFAULT, false);
}

// The time, precise to a few milliseconds only, but cheap.
std::uint64_t about_now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

int kernel_pwait2(int epfd, epoll_event* events, int most, const timespec* timeout,
                  const sigset_t* mask) {
  using Wait = int (*)(int, epoll_event*, int, const timespec*, const sigset_t*);
  const auto wait = SOVIA_LATE_AS(Wait, epoll_pwait2);
  if (wait != nullptr) return wait(epfd, events, most, timeout, mask);
  constexpr std::size_t kMaskBytes = 8;
  return static_cast<int>(
      ::syscall(SYS_epoll_pwait2, epfd, events, most, timeout, mask, kMaskBytes));
}

int created(int epfd) {
  const signals::Inside inside;
  epoll_sets::opened(epfd);
  return epfd;
}

// Goes on with a wait after events of which some are the set's own.
[[gnu::noinline]] int go_on_waiting(int epfd, epoll_event* events, int most, int count, int timeout,
                                    std::uint64_t begun) {
  const signals::Inside inside;
  const EpollSetRef set = epoll_sets::find(epfd);
  if (!set) return count;
  const std::uint64_t deadline =
      timeout < 0 ? kNever : begun + static_cast<std::uint64_t>(timeout) * 1'000'000;
  return keeping_errno([&] {
    return set->go_on_waiting(epfd, events, most, count, timeout == 0, timeout == 0 ? 0 : deadline);
  });
}

[[gnu::noinline]] int wait(int epfd, epoll_event* events, int most, int timeout) {
  const std::uint64_t begun = timeout > 0 ? about_now_ns() : 0;
  int count;
  if (!epoll_sets::wait_fast(epfd, events, most, timeout, count)) {
    return sovia_epoll_pwait(epfd, events, most, timeout, nullptr);
  }
  if (count <= 0 || !epoll_sets::has_own(events, count)) return count;
  return go_on_waiting(epfd, events, most, count, timeout, begun);
}

[[gnu::noinline]] int control(int epfd, int op, int fd, epoll_event* event) {
  const signals::Inside inside;
  // A UDP socket in a set leaves its lanes, as sets notice only datagrams that come through the kernel.
  datagram::table::give_up(fd, Reason::kEpoll);
  epoll_event given;
  const bool readable = event != nullptr && copy_guarded(&given, event, sizeof given);
  const EpollSetRef set =
      event == nullptr || readable ? epoll_sets::find_or_look(epfd) : EpollSetRef();
  if (readable) event = &given;
  return set ? set->control(epfd, op, fd, event) : libc::epoll_ctl(epfd, op, fd, event);
}

}  // namespace

int sovia_epoll_create(int size) {
  libc::prepare();
  return created(libc::epoll_create(size));
}

int sovia_epoll_create1(int flags) {
  libc::prepare();
  return created(libc::epoll_create1(flags));
}

int sovia_epoll_ctl(int epfd, int op, int fd, epoll_event* event) {
  libc::prepare();
  if (!datagram::table::knows(fd) && epoll_sets::kernels_alone(fd, table::peek(fd))) {
    epoll_event given;
    if (op == EPOLL_CTL_DEL) return libc::epoll_ctl(epfd, op, fd, event);
    if (copy_guarded(&given, event, sizeof given) && !epoll_sets::is_own(given)) {
      return libc::epoll_ctl(epfd, op, fd, &given);
    }
  }
  return keeping_errno([&] { return control(epfd, op, fd, event); });
}

int sovia_epoll_wait(int epfd, epoll_event* events, int most, int timeout) {
  held_sends::before_wait();
  if (timeout != 0 || !epoll_sets::kernel_says_all(epfd)) return wait(epfd, events, most, timeout);
  const int count = libc::epoll_wait(epfd, events, most, 0);
  if (count <= 0 || !epoll_sets::has_own(events, count)) return count;
  return go_on_waiting(epfd, events, most, count, 0, 0);
}

int sovia_epoll_pwait(int epfd, epoll_event* events, int most, int timeout,
                      const sigset_t* mask) {
  return keeping_errno([&]() -> int {
    libc::prepare();
    const signals::Inside inside;
    held_sends::before_wait();
    const EpollSetRef set = set_for(epfd, most);
    if (!set) {
      const signals::Outside outside;
      return libc::epoll_pwait(epfd, events, most, timeout, mask);
    }
    if (!can_write(events)) return -1;
    const bool look_only = timeout == 0;
    return set->wait(epfd, events, most, look_only, look_only ? 0 : deadline_in_ms(timeout), mask);
  });
}

int sovia_epoll_pwait2(int epfd, epoll_event* events, int most, const timespec* timeout,
                       const sigset_t* mask) {
  return keeping_errno([&]() -> int {
    libc::prepare();
    Limit limit;
    const bool valid = limit.take(timeout) && is_mask(mask);
    const signals::Inside inside;
    held_sends::before_wait();
    const EpollSetRef set = valid ? set_for(epfd, most) : nullptr;
    if (!set) {
      const signals::Outside outside;
      return kernel_pwait2(epfd, events, most, timeout, mask);
    }
    if (!can_write(events)) return -1;
    return set->wait(epfd, events, most, limit.look_only, limit.deadline, mask);
  });
}
