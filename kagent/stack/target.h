// Where a message that arrives is to go.
#ifndef VIADUCT_KAGENT_STACK_TARGET_H
#define VIADUCT_KAGENT_STACK_TARGET_H

#include <cstdint>

#include "kagent/contract/session_layout.h"

namespace viaduct {

// A posted receive, copied from its slot.
struct Target {
  std::uint32_t segment_count;
  std::uint64_t capacity;
  std::uint64_t descriptor;
  std::uint32_t descriptor_handle;
  layout::Segment segments[layout::kMaxSegments];
};

}  // namespace viaduct

#endif
