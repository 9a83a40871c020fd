// The final counts of all servers of a program's tests.
#ifndef VIADUCT_TESTS_UNIT_AGENT_COUNTER_TALLY_H
#define VIADUCT_TESTS_UNIT_AGENT_COUNTER_TALLY_H

#include <cstdint>
#include <map>
#include <string>

#include "kagent/agent/control/service_counters.h"

namespace viaduct {

inline std::map<std::string, std::uint64_t> counter_tally;

inline void add_to_tally(const ServiceCounters& counters) {
  for_each(counters, [](const char* name, const char*, std::uint64_t value) {
    counter_tally[name] += value;
  });
}

}  // namespace viaduct

#endif
