// The parts of libvipl that remember something from one world to the next, with a way to forget it: the
// same seed must be the same run whatever ran before.
#include "tests/sim/world/kernel.h"
#include "vipl/session/registry.cc"
#include "vipl/session/agent_monitor.cc"

namespace viaduct::sim {

void Kernel::end() {
  fibers.end([](const Fiber& fiber) { return fiber.owner == nullptr; });
  vipl::registry::g_next = 0;
  vipl::agent_monitor::g_running = false;
  outside_ = nullptr;
}

}  // namespace viaduct::sim
