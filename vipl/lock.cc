#include "vipl/lock.h"

#include "vipl/idle.h"
#include "vipl/sys.h"

namespace viaduct::vipl {

void Lock::contend(std::atomic<std::uint32_t>& word) {
  constexpr int kTries = 64;
  for (int i = 0; i < kTries; ++i) {
    std::uint32_t expected = kFree;
    if (word.compare_exchange_weak(expected, kHeld, std::memory_order_acquire)) return;
    relax();
  }
  while (word.exchange(kWanted, std::memory_order_acquire) != kFree) {
    sys::futex_wait(word, kWanted, ~0ull);
  }
}

void Lock::wake(std::atomic<std::uint32_t>& word) { sys::futex_wake(word, 1); }

}  // namespace viaduct::vipl
