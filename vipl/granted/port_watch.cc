#include "vipl/granted/port_watch.h"

#include "vipl/process/sys.h"

namespace viaduct::vipl {

bool PortWatch::open() {
  program.poke = sys::eventfd();
  stand_in.poke = sys::eventfd();
  return program.poke >= 0 && stand_in.poke >= 0;
}

void PortWatch::close() {
  for (const Sleeper* sleeper : {&program, &stand_in}) {
    if (sleeper->poke >= 0) sys::close(sleeper->poke);
  }
}

void PortWatch::poke(const Sleeper& sleeper) {
  if (sleeper.asleep_until.load() == 0) return;
  const std::uint64_t one = 1;
  sys::write(sleeper.poke, &one, sizeof one);
}

void PortWatch::wake_for(std::uint64_t deadline) {
  for (const Sleeper* sleeper : {&program, &stand_in}) {
    if (deadline < sleeper->asleep_until.load()) poke(*sleeper);
  }
}

// The stand-in gives the watch up to a thread of the program, and everybody to nobody living.
bool PortWatch::take(std::uint32_t self, std::uint32_t helper) {
  std::uint32_t other = 0;
  if (holder.compare_exchange_strong(other, self)) return true;
  if (other == helper) {
    if (!holder.compare_exchange_strong(other, self)) return false;
    poke(stand_in);
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
