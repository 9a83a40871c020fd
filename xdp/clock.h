// The clock of whatever is driven by time, and units of it.
#ifndef VIADUCT_XDP_CLOCK_H
#define VIADUCT_XDP_CLOCK_H

#include <cstdint>
#include <ctime>

namespace viaduct {

inline constexpr std::uint64_t kNsPerUs = 1'000;
inline constexpr std::uint64_t kNsPerMs = 1'000'000;
inline constexpr std::uint64_t kNsPerSecond = 1'000'000'000;

// CLOCK_MONOTONIC in ns.
inline std::uint64_t monotonic_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * kNsPerSecond +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace viaduct

#endif
