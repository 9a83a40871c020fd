// poll, ppoll.
#include <errno.h>

#include "sovia/poll/kernel_only_poll.h"
#include "sovia/poll/poll_set.h"
#include "sovia/poll/ready_arguments.h"
#include "sovia/process/guarded_copy.h"
#include "sovia/process/libc.h"
#include "sovia/process/signals.h"
#include "sovia/socket/held_sends.h"
#include "sovia/sovia.h"

using namespace viaduct::sovia;

namespace {

// No process can have more descriptors than this: such calls are left to the kernel, as are bad pointers.
constexpr nfds_t kMost = 1u << 20;

bool concerns_us(const pollfd* fds, nfds_t count, KernelOnlyPoll& bypassing) {
  const signals::Inside inside;
  if (count > kMost || !can_read(fds, count * sizeof *fds)) return false;
  for (nfds_t i = 0; i < count; ++i) {
    if (PollSet::concerns_us(fds[i].fd) && !bypassing.take(fds[i].fd)) return true;
  }
  return false;
}

// Whether all descriptors are known to be the kernel's alone. This is found without holding signal handlers back. Only
// a few descriptors in one page are looked at, as that memory can be read directly once its first byte could.
bool kernel_alone(const pollfd* fds, nfds_t count) {
  constexpr nfds_t kFew = 16;
  if (count == 0) return true;
  if (count > kFew || !lies_in_a_page(fds, count * sizeof *fds)) return false;
  int first;
  if (!copy_guarded(&first, &fds->fd, sizeof first)) return true;  // EFAULT
  for (nfds_t i = 0; i < count; ++i) {
    if (!PollSet::known_kernel_alone(fds[i].fd)) return false;
  }
  return true;
}

int wait(pollfd* fds, nfds_t count, bool look_only, std::uint64_t deadline, const sigset_t* mask) {
  const signals::Inside inside;
  PollSet set(count, false);
  for (nfds_t i = 0; i < count; ++i) set.add(fds[i].fd, fds[i].events);
  const int ready = set.wait(look_only, deadline, mask);
  if (ready < 0) return -1;
  for (nfds_t i = 0; i < count; ++i) {
    const short said = set.ready(i);
    if (fds[i].revents == said || copy_guarded(&fds[i].revents, &said, sizeof said)) continue;
    return failed(EFAULT);
  }
  return ready;
}

[[gnu::noinline]] int poll_lanes(pollfd* fds, nfds_t count, int timeout) {
  {
    KernelOnlyPoll bypassing;
    if (!concerns_us(fds, count, bypassing)) return libc::poll(fds, count, timeout);
  }
  const bool look_only = timeout == 0;
  return keeping_errno(
      [&] { return wait(fds, count, look_only, look_only ? 0 : deadline_in_ms(timeout), nullptr); });
}

}  // namespace

int sovia_poll(pollfd* fds, nfds_t count, int timeout) {
  libc::prepare();
  held_sends::before_wait();
  if (kernel_alone(fds, count)) return libc::poll(fds, count, timeout);
  return poll_lanes(fds, count, timeout);
}

int sovia_ppoll(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  return keeping_errno([&]() -> int {
    libc::prepare();
    held_sends::before_wait();
    if (kernel_alone(fds, count)) return libc::ppoll(fds, count, timeout, mask);
    Limit limit;
    {
      KernelOnlyPoll bypassing;
      if (!concerns_us(fds, count, bypassing) || !limit.take(timeout) || !is_mask(mask)) {
        return libc::ppoll(fds, count, timeout, mask);
      }
    }
    return wait(fds, count, limit.look_only, limit.deadline, mask);
  });
}
