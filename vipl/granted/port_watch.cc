#include "vipl/granted/port_watch.h"

#include "vipl/process/sys.h"

namespace viaduct::vipl {

bool PortWatch::open() {
  program.driver_wake = sys::eventfd();
  progress_thread.driver_wake = sys::eventfd();
  timer.open();
  return program.driver_wake >= 0 && progress_thread.driver_wake >= 0;
}

void PortWatch::close() {
  for (const Sleeper* sleeper : {&program, &progress_thread}) {
    if (sleeper->driver_wake >= 0) sys::close(sleeper->driver_wake);
  }
  timer.close();
}

void PortWatch::wake_driver(const Sleeper& sleeper) {
  if (sleeper.asleep_until.load() == 0) return;
  const std::uint64_t one = 1;
  sys::write(sleeper.driver_wake, &one, sizeof one);
}

void PortWatch::wake_for(std::uint64_t deadline) {
  for (const Sleeper* sleeper : {&program, &progress_thread}) {
    if (deadline < sleeper->asleep_until.load()) wake_driver(*sleeper);
  }
}

// A thread of the program takes the watch over from the progress thread. From another thread it does so only if that
// thread has ended.
bool PortWatch::take(std::uint32_t self, std::uint32_t helper) {
  std::uint32_t other = 0;
  if (holder.compare_exchange_strong(other, self)) return true;
  if (other == helper) {
    if (!holder.compare_exchange_strong(other, self)) return false;
    wake_driver(progress_thread);
    return true;
  }
  return !sys::thread_lives(static_cast<int>(other)) &&
         holder.compare_exchange_strong(other, self);
}

void PortWatch::leave(std::uint32_t self) {
  std::uint32_t mine = self;
  holder.compare_exchange_strong(mine, 0);
}

}  // namespace viaduct::vipl
