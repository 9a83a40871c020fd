// The message when a promise is broken: the oracle's last words, and the command that runs the same seed again.
// Nothing can be trusted after that, so the process ends.
#ifndef VIADUCT_TESTS_SIM_WORLD_FAILURE_H
#define VIADUCT_TESTS_SIM_WORLD_FAILURE_H

#include <cstdint>
#include <string>

#include "tests/sim/world/less.h"

namespace viaduct::sim {

// The current run, for messages (those of signal handlers too).
struct Current {
  std::uint64_t seed = 0;
  const char* workload = "";
  std::uint64_t now = 0;  // virtual, ns
  const char* program = "simulation";
  Less less;
};
extern Current current;

// Whether fates are told while they happen.
extern bool verbose;

[[noreturn, gnu::format(printf, 1, 2)]] void fail(const char* format, ...);
[[gnu::format(printf, 1, 2)]] void tell(const char* format, ...);

// A crash, an abort and an endless loop are findings too.
void catch_crashes();
// Begins a seed, which must end within so many seconds of processor time.
void begin_seed(std::uint64_t seed, const char* workload, unsigned seconds);

}  // namespace viaduct::sim

#endif
