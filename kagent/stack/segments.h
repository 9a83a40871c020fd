// Segments of work requests.
#ifndef VIADUCT_KAGENT_STACK_SEGMENTS_H
#define VIADUCT_KAGENT_STACK_SEGMENTS_H

#include <atomic>
#include <cstdint>
#include <cstring>

#include "kagent/contract/session_layout.h"

namespace viaduct {

// Copies segments out of shared memory, which is read only once. Most messages have one segment.
inline void copy_segments(layout::Segment* to, const layout::Segment* from, std::uint32_t count) {
  std::memcpy(to, from, sizeof *to);
  if (count > 1) [[unlikely]] {
    std::memcpy(to + 1, from + 1, (count - 1) * sizeof *to);
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

}  // namespace viaduct

#endif
