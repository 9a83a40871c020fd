#include "vipl/session/thread_registry.h"

#include "vipl/process/lock.h"
#include "vipl/process/sys.h"
#include "vipl/process/thread.h"

namespace viaduct::vipl::thread_registry {

constinit thread_local ThreadRecord* t_record = nullptr;

// The thread sanitizer knows nothing of membarrier.
#ifdef __SANITIZE_THREAD__
std::atomic<bool> g_fence_needed{true};
#else
std::atomic<bool> g_fence_needed{false};
#endif

namespace {

LockWord g_lock;
std::atomic<ThreadRecord*> g_records;  // never shrinks; added to under the lock
std::uint32_t g_forks;

void retire(void* value) {
  auto* const record = static_cast<ThreadRecord*>(value);
  if (record->poller.in != nullptr) record->poller.in->leave(record->poller);
  record->inside.store(0, std::memory_order_release);
  if (record->command != 0) {
    record->abandon_command(record->command_key, record->command_epoch, record->command - 1);
  }
  t_record = nullptr;
  record->in_use.store(false, std::memory_order_release);
}

ThreadRecord* unused_record() VIADUCT_REQUIRES(g_lock) {
  for (ThreadRecord* record = g_records.load(); record != nullptr; record = record->next) {
    if (!record->in_use.load(std::memory_order_acquire)) return record;
  }
  constexpr std::size_t kBlock = 4096;
  auto* const block = static_cast<ThreadRecord*>(sys::map(kBlock, -1));
  if (block == nullptr) return nullptr;
  for (std::size_t i = 0; i < kBlock / sizeof(ThreadRecord); ++i) {
    block[i].next = g_records.load();
    block[i].poller.wake_event.store(-1, std::memory_order_relaxed);
    g_records.store(&block[i], std::memory_order_release);
  }
  return g_records.load();
}

// The kernel takes 3 us to prepare a process of one thread, and 10 ms one of several: so before the program can have any.
// A child of fork inherits it.
[[gnu::constructor]] void begin() { prepare(); }

}  // namespace

ThreadRecord* enrol() {
  Lock lock(g_lock);
  ThreadRecord* const record = unused_record();
  if (record == nullptr) return nullptr;
  record->in_use.store(true);
  record->misses = 0;
  record->command = 0;
  at_thread_end(retire, record);
  t_record = record;
  return record;
}

void prepare() {
#ifndef __SANITIZE_THREAD__
  g_fence_needed.store(sys::membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) != 0);
#endif
}

void barrier() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!g_fence_needed.load()) sys::membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

bool anyone_inside(std::uint32_t nic) {
  for (ThreadRecord* record = g_records.load(std::memory_order_acquire); record != nullptr;
       record = record->next) {
    if (inside(*record, nic)) return true;
  }
  return false;
}

int descriptors(int* fds, int most) {
  int count = 0;
  for (ThreadRecord* record = g_records.load(std::memory_order_acquire); record != nullptr;
       record = record->next) {
    const int fd = record->poller.wake_event.load();
    if (fd < 0) continue;
    if (count < most) fds[count] = fd;
    ++count;
  }
  return count + Pollers::spares(count < most ? fds + count : nullptr, most > count ? most - count : 0);
}

std::uint32_t forks() { return g_forks; }

// The parent's threads sleep on their event descriptors: they would miss events that the child reads.
void forget_other_threads() {
  ++g_forks;
  g_lock.store(0);
  for (ThreadRecord* record = g_records.load(); record != nullptr; record = record->next) {
    record->poller.forget();
  }
  Pollers::forget_spares();
  for (ThreadRecord* record = g_records.load(); record != nullptr; record = record->next) {
    if (record == t_record) continue;
    record->inside.store(0);
    record->in_use.store(false);
  }
}

}  // namespace viaduct::vipl::thread_registry
