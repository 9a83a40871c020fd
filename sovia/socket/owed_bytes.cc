#include "sovia/socket/owed_bytes.h"

#include <stdlib.h>

namespace viaduct::sovia {

constinit std::atomic<unsigned> OwedBytes::g_count{0};

std::byte* OwedBytes::begin(std::size_t bytes, bool waits) {
  drop();
  auto* const memory = static_cast<std::byte*>(malloc(bytes));
  if (memory == nullptr) return nullptr;
  memory_.store(memory, std::memory_order_relaxed);
  if (!waits) g_count.fetch_add(1);
  waits_ = waits;
  bytes_ = bytes;
  taken_ = 0;
  return memory;
}

void OwedBytes::drop() {
  if (empty()) return;
  free(memory_.exchange(nullptr, std::memory_order_relaxed));
  if (!waits_) g_count.fetch_sub(1);
}

}  // namespace viaduct::sovia
