#include "sovia/process/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace viaduct::sovia {
namespace {

constexpr unsigned kLooks = 100;  // about as long as other threads hold the lock

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
  const int saved = errno;
  const long result = ::syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, nullptr);
  errno = saved;
  return result;
}

}  // namespace

void Lock::wait() {
  for (unsigned looks = 0; looks < kLooks; ++looks) {
    if (state_.load(std::memory_order_relaxed) == kFree && try_lock()) return;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  while (state_.exchange(kWanted, std::memory_order_acquire) != kFree) {
    futex(state_, FUTEX_WAIT, kWanted);
  }
}

void Lock::wake() { futex(state_, FUTEX_WAKE, 1); }

}  // namespace viaduct::sovia
