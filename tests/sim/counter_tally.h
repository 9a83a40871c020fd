// The final counts of all stacks of simulated hosts.
#ifndef VIADUCT_TESTS_SIM_COUNTER_TALLY_H
#define VIADUCT_TESTS_SIM_COUNTER_TALLY_H

#include <cstdint>
#include <map>
#include <string>

#include "kagent/stack/counters.h"

namespace viaduct::sim {

inline std::map<std::string, std::uint64_t> counter_tally;

inline void add_to_tally(const StackCounters& counters) {
  for_each(counters, [](const char* name, const char*, std::uint64_t value) {
    counter_tally[name] += value;
  });
}

}  // namespace viaduct::sim

#endif
