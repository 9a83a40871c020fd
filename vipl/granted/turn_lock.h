// The lock of the thread that gives a granted stack its turn. A thread that finds it taken has rung its doorbell; it
// leaves a mark, for which the holder gives the stack another turn.
#ifndef VIADUCT_VIPL_GRANTED_TURN_LOCK_H
#define VIADUCT_VIPL_GRANTED_TURN_LOCK_H

#include <atomic>
#include <cstdint>

#include "xdp/thread_annotations.h"

namespace viaduct::vipl {

class VIADUCT_CAPABILITY("lock") TurnLock {
 public:
  bool try_take() VIADUCT_TRY_ACQUIRE(true) {
    for (;;) {
      std::uint32_t seen = kFree;
      if (word_.compare_exchange_strong(seen, kHeld, std::memory_order_acquire)) return true;
      if (seen == kWanted || word_.compare_exchange_strong(seen, kWanted)) return false;
    }
  }

  // Returns true if another thread has wanted the lock meanwhile.
  bool release() VIADUCT_RELEASE() { return word_.exchange(kFree) == kWanted; }

 private:
  static constexpr std::uint32_t kFree = 0;
  static constexpr std::uint32_t kHeld = 1;
  static constexpr std::uint32_t kWanted = 2;  // held, and another thread has found it held

  std::atomic<std::uint32_t> word_{kFree};
};

}  // namespace viaduct::vipl

#endif
