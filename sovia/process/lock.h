// A mutex that every call takes. Without contention lock() and unlock() are a locked instruction each, where the C
// library's also ask for the kind of mutex.
#ifndef VIADUCT_SOVIA_PROCESS_LOCK_H
#define VIADUCT_SOVIA_PROCESS_LOCK_H

#include <atomic>
#include <cstdint>

#include "xdp/thread_annotations.h"

namespace viaduct::sovia {

// The lock is not recursive. The thread that forks may hold it over fork().
class VIADUCT_CAPABILITY("lock") Lock {
 public:
  constexpr Lock() = default;
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  bool try_lock() VIADUCT_TRY_ACQUIRE(true) {
    std::uint32_t state = kFree;
    return state_.compare_exchange_strong(state, kHeld, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  void lock() VIADUCT_ACQUIRE() {
    if (!try_lock()) [[unlikely]] wait();
  }
  void unlock() VIADUCT_RELEASE() {
    if (state_.exchange(kFree, std::memory_order_release) == kWanted) [[unlikely]] wake();
  }

 private:
  enum State : std::uint32_t { kFree, kHeld, kWanted };  // kWanted: held, and a thread may sleep

  void wait() VIADUCT_ACQUIRE();
  void wake();

  std::atomic<std::uint32_t> state_{kFree};
};

}  // namespace viaduct::sovia

#endif
