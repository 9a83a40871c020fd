// Which thread is inside which session, so that VipCloseNic knows when no thread looks at the
// session's memory any more.
//
// A thread notes the NIC's number in a record of its own before it looks whether the session is
// open, and clears it when it leaves: plain stores. VipCloseNic first marks the session as closed,
// then makes every thread of the process pass a memory barrier (membarrier), and then reads the
// records: a thread that is not in them by then will find the session closed.
#ifndef VIADUCT_VIPL_SESSION_THREAD_REGISTRY_H
#define VIADUCT_VIPL_SESSION_THREAD_REGISTRY_H

#include <atomic>
#include <cstdint>

#include "vipl/session/pollers.h"

namespace viaduct::vipl {

// The record of one thread that uses the library; when the thread ends, the next thread gets it.
struct alignas(64) ThreadRecord {
  std::atomic<std::uint32_t> inside;  // 1 + NIC number, 0: in none
  std::uint32_t misses;               // polls in a row that found nothing
  std::uint32_t command;              // 1 + slot of the command that the thread waits for (kForAgent), 0: none ...
  std::uint32_t command_key;          // ... and of which session
  std::uint32_t command_epoch;         // ... and, with kForAgent, at which of its control sessions
  void (*abandon_command)(std::uint32_t key, std::uint32_t control_session, std::uint32_t slot);
  std::atomic<bool> in_use;
  ThreadRecord* next;
  Poller poller;
};

namespace thread_registry {

extern constinit thread_local ThreadRecord* t_record;
extern std::atomic<bool> g_fence_needed;

// The calling thread's first use of the library. nullptr when there is no memory.
ThreadRecord* enrol();

inline ThreadRecord* record() {
  ThreadRecord* const mine = t_record;
  return mine != nullptr ? mine : enrol();
}

inline std::uint32_t enter(ThreadRecord& record, std::uint32_t nic) {
  const std::uint32_t outer = record.inside.load(std::memory_order_relaxed);
  // Stored with release: a thread that reads it knows that this one is done with the session before.
  record.inside.store(nic + 1, std::memory_order_release);
  if (g_fence_needed.load(std::memory_order_relaxed)) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  } else {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  return outer;
}

inline void leave(ThreadRecord& record, std::uint32_t outer) {
  record.inside.store(outer, std::memory_order_release);
}

// Prepares for barrier(). Call once, before the first session is published.
void prepare();

// Every thread has passed a memory barrier when this returns.
void barrier();

inline bool inside(const ThreadRecord& record, std::uint32_t nic) {
  return record.inside.load(std::memory_order_acquire) == nic + 1;
}

// Whether some thread is inside the session of this NIC.
bool anyone_inside(std::uint32_t nic);

// To be called in a forked child: only the calling thread is left.
void forget_other_threads();

// How many forks there have been from the process that started to this one.
std::uint32_t forks();

// The descriptors of all threads, as VipxDescriptors tells them: up to `most` of them; returns how
// many there are.
int descriptors(int* fds, int most);

}  // namespace thread_registry
}  // namespace viaduct::vipl

#endif
