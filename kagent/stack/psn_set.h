// Sets of the PSNs that may be in flight.
#ifndef VIADUCT_KAGENT_STACK_PSN_SET_H
#define VIADUCT_KAGENT_STACK_PSN_SET_H

#include <cstdint>

#include "kagent/stack/state.h"

namespace viaduct::state {

// One bit for each PSN in flight, at psn % kWindow.
struct PsnSet {
  std::uint64_t words[kWindow / 64];

  bool has(std::uint32_t psn) const { return words[psn % kWindow / 64] >> (psn % 64) & 1; }
  void add(std::uint32_t psn) { words[psn % kWindow / 64] |= 1ull << (psn % 64); }
  void remove(std::uint32_t psn) { words[psn % kWindow / 64] &= ~(1ull << (psn % 64)); }
  bool empty() const { return (words[0] | words[1] | words[2] | words[3]) == 0; }
  void clear() { words[0] = words[1] = words[2] = words[3] = 0; }
};

}  // namespace viaduct::state

#endif
