#include "sovia/socket/unacked_copy.h"

#include <stdlib.h>

namespace viaduct::sovia {

constinit std::atomic<unsigned> UnackedCopy::g_count{0};

std::byte* UnackedCopy::begin(std::size_t bytes) {
  drop();
  memory_ = static_cast<std::byte*>(malloc(bytes));
  if (memory_ == nullptr) return nullptr;
  g_count.fetch_add(1);
  bytes_ = bytes;
  taken_ = 0;
  return memory_;
}

void UnackedCopy::drop() {
  if (memory_ == nullptr) return;
  free(memory_);
  memory_ = nullptr;
  g_count.fetch_sub(1);
}

}  // namespace viaduct::sovia
