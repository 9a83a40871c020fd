// When an unanswered control frame is sent again.
#ifndef VIADUCT_KAGENT_STACK_REPEAT_H
#define VIADUCT_KAGENT_STACK_REPEAT_H

#include <algorithm>
#include <cstdint>

namespace viaduct {

inline constexpr std::uint64_t kMs = 1'000'000;  // in ns

// The wait after the first transmission (attempts = 0) and after each further one: 2 ms, doubled up
// to 100 ms.
constexpr std::uint64_t repeat_after(unsigned attempts) {
  return std::min((2 * kMs) << std::min(attempts, 6u), 100 * kMs);
}

}  // namespace viaduct

#endif
