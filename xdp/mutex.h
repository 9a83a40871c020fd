// A mutex, and what holds one or two to the end of a block: as std::mutex and std::scoped_lock, in which Clang's thread
// safety analysis sees no locks (thread_annotations.h). To wait for a std::condition_variable_any, hand it the mutex itself.
#ifndef VIADUCT_XDP_MUTEX_H
#define VIADUCT_XDP_MUTEX_H

#include <mutex>

#include "xdp/thread_annotations.h"

namespace viaduct {

class VIADUCT_CAPABILITY("mutex") Mutex {
 public:
  constexpr Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() VIADUCT_ACQUIRE() { mutex_.lock(); }
  bool try_lock() VIADUCT_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() VIADUCT_RELEASE() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

// Works on Mutex and on every other lock that is annotated so.
template <class L>
class VIADUCT_SCOPED_CAPABILITY LockGuard {
 public:
  explicit LockGuard(L& lock) VIADUCT_ACQUIRE(lock) : first_(lock) { lock.lock(); }
  // Takes two, in this order; std::scoped_lock has none.
  LockGuard(L& first, L& second) VIADUCT_ACQUIRE(first, second) : first_(first), second_(&second) {
    first.lock();
    second.lock();
  }
  // The lock is held already.
  LockGuard(std::adopt_lock_t, L& lock) VIADUCT_REQUIRES(lock) : first_(lock) {}
  // Inlined also where an exception ends the block: else the guard would have to lie in memory.
  [[gnu::always_inline]] ~LockGuard() VIADUCT_RELEASE() {
    if (second_ != nullptr) second_->unlock();
    first_.unlock();
  }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  L& first_;
  L* const second_ = nullptr;
};

}  // namespace viaduct

#endif
