// poll, ppoll.
#include "sovia/kernel.h"
#include "sovia/poll_set.h"
#include "sovia/signals.h"
#include "sovia/sovia.h"

using namespace viaduct::sovia;

namespace {

// More than this no process can have: left to the kernel, as are bad pointers of the obvious kind.
constexpr nfds_t kMost = 1u << 20;

bool concerns_us(const pollfd* fds, nfds_t count) {
  if (fds == nullptr || count > kMost) return false;
  for (nfds_t i = 0; i < count; ++i) {
    if (PollSet::concerns_us(fds[i].fd)) return true;
  }
  return false;
}

int wait(pollfd* fds, nfds_t count, bool look_only, std::uint64_t deadline, const sigset_t* mask) {
  const signals::Inside inside;
  PollSet set(count, false);
  for (nfds_t i = 0; i < count; ++i) set.add(fds[i].fd, fds[i].events);
  const int ready = set.wait(look_only, deadline, mask);
  if (ready < 0) return -1;
  for (nfds_t i = 0; i < count; ++i) fds[i].revents = set.ready(i);
  return ready;
}

}  // namespace

int sovia_poll(pollfd* fds, nfds_t count, int timeout) {
  kernel::prepare();
  if (!concerns_us(fds, count)) return kernel::poll(fds, count, timeout);
  const bool look_only = timeout == 0;
  return wait(fds, count, look_only, look_only ? 0 : deadline_in_ms(timeout), nullptr);
}

int sovia_ppoll(pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  kernel::prepare();
  const bool valid = timeout == nullptr || (timeout->tv_sec >= 0 && timeout->tv_nsec >= 0 &&
                                            timeout->tv_nsec < 1'000'000'000);
  if (!valid || !concerns_us(fds, count)) return kernel::ppoll(fds, count, timeout, mask);
  const bool look_only = timeout != nullptr && timeout->tv_sec == 0 && timeout->tv_nsec == 0;
  return wait(fds, count, look_only, look_only ? 0 : deadline_in(timeout), mask);
}
