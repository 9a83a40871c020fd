// The time, and deadlines of calls that wait.
#ifndef VIADUCT_SOVIA_PROCESS_CLOCK_H
#define VIADUCT_SOVIA_PROCESS_CLOCK_H

#include <time.h>

#include <cstdint>

namespace viaduct::sovia {

inline constexpr std::uint64_t kNever = ~0ull;

// CLOCK_MONOTONIC in ns.
std::uint64_t now_ns();
// The deadline for a timeout as poll has it: a negative one is kNever.
std::uint64_t deadline_in_ms(long timeout_ms);
std::uint64_t deadline_in(const timespec* timeout);  // nullptr: never
// The time that is left before a deadline; some years before kNever.
timespec until(std::uint64_t deadline);

}  // namespace viaduct::sovia

#endif
