#include "vipl/process/lock.h"

#include "vipl/process/idle.h"
#include "vipl/process/sys.h"

namespace viaduct::vipl {

void Lock::contend(LockWord& word, std::uint32_t held) {
  constexpr int kTries = 64;
  constexpr std::uint64_t kLookAgainNs = 10'000'000;
  for (int i = 0; i < kTries; ++i) {
    std::uint32_t expected = kFree;
    if (word.compare_exchange_weak(expected, held, std::memory_order_acquire)) return;
    relax();
  }
  for (;;) {
    std::uint32_t seen = kFree;
    if (word.compare_exchange_strong(seen, held | layout::kLockWanted, std::memory_order_acquire)) {
      return;
    }
    const std::uint32_t wanted = seen | layout::kLockWanted;
    if (seen != wanted && !word.compare_exchange_strong(seen, wanted)) continue;
    // A holder in another process may be killed after it has given the lock up and before it wakes us, so the sleep
    // then has an end.
    const bool ours = (seen & ~layout::kLockWanted) == held;
    sys::futex_wait(word, wanted, ours ? kNever : now_ns() + kLookAgainNs);
  }
}

void Lock::release_of(LockWord& word, std::uint32_t member) {
  if ((word.load() & ~layout::kLockWanted) != 1 + member) return;
  word.store(kFree);
  sys::futex_wake(word);
}

void Lock::wake(LockWord& word) { sys::futex_wake(word, 1); }

}  // namespace viaduct::vipl
