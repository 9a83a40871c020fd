#include "vipl/granted/sleep_timer.h"

#include "vipl/process/sys.h"

namespace viaduct::vipl {

void SleepTimer::open() {
  fd_ = sys::timer();
  at_ = kNever;
}

void SleepTimer::close() {
  if (fd_ >= 0) sys::close(fd_);
  fd_ = -1;
}

std::uint64_t SleepTimer::prepare(std::uint64_t now, std::uint64_t due) {
  // A sleep that is only a look does not need the timer.
  if (fd_ < 0 || due <= now) return due;
  const bool will_go_off_in_time = at_ > now && at_ <= due;
  if (will_go_off_in_time) return kNever;
  if (!sys::set_timer(fd_, due)) return due;  // which also takes back that it is readable
  at_ = due;
  return kNever;
}

}  // namespace viaduct::vipl
