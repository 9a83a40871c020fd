// Times of the protocol: when an unanswered control frame is sent again, and how long an
// acknowledgement may wait.
#ifndef VIADUCT_KAGENT_STACK_BACKOFF_H
#define VIADUCT_KAGENT_STACK_BACKOFF_H

#include <algorithm>
#include <cstdint>

namespace viaduct {

inline constexpr std::uint64_t kMs = 1'000'000;  // in ns

// How long an acknowledgement may wait for data to ride on.
inline constexpr std::uint64_t kAckDelay = 50 * kMs / 1000;

// The wait after the first transmission (attempts = 0) and after each further one: 2 ms, doubled up
// to 100 ms.
constexpr std::uint64_t backoff(unsigned attempts) {
  return std::min((2 * kMs) << std::min(attempts, 6u), 100 * kMs);
}

}  // namespace viaduct

#endif
