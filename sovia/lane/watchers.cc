#include "sovia/lane/watchers.h"

#include <array>
#include <cstddef>
#include <cstdint>

#include "xdp/mutex.h"

namespace viaduct::sovia {
namespace {

constexpr std::size_t kLocks = 32;
constinit std::array<Mutex, kLocks> g_locks{};

}  // namespace

Mutex& Watched::lock() const {
  return g_locks[reinterpret_cast<std::uintptr_t>(this) / 64 % kLocks];
}

void Watched::add(Watcher& watcher) {
  const LockGuard guard(lock());
  watcher.next_watcher = first_.load();
  first_.store(&watcher);
}

void Watched::remove(Watcher& watcher) {
  const LockGuard guard(lock());
  Watcher* first = first_.load();
  if (first == &watcher) {
    first_.store(watcher.next_watcher);
    return;
  }
  while (first->next_watcher != &watcher) first = first->next_watcher;
  first->next_watcher = watcher.next_watcher;
}

void Watched::tell_all(short what) {
  for_each_watcher([what](Watcher& watcher) { watcher.changed(what); });
}

// Held over fork.
bool Watched::try_lock_for_fork() VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
  for (std::size_t i = 0; i < kLocks; ++i) {
    if (g_locks[i].try_lock()) continue;
    while (i-- > 0) g_locks[i].unlock();
    return false;
  }
  return true;
}

void Watched::unlock_after_fork() VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
  for (Mutex& lock : g_locks) lock.unlock();
}

}  // namespace viaduct::sovia
