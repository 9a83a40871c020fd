// A lock in one word: one compare-and-swap each way when no other thread wants it. The word may lie in
// memory that other processes share. Held for a few hundred instructions at most, never while its
// owner waits for anything; but see Taking in family.cc.
//
// In memory that members of a family share the lock names its holder, so that the stack's driver can free a lock that
// a dead member held.
#ifndef VIADUCT_VIPL_PROCESS_LOCK_H
#define VIADUCT_VIPL_PROCESS_LOCK_H

#include <atomic>
#include <cstdint>

#include "kagent/contract/lock_word.h"
#include "kagent/contract/session_layout.h"
#include "xdp/thread_annotations.h"

namespace viaduct::vipl {

class VIADUCT_SCOPED_CAPABILITY Lock {
 public:
  // member: of the session whose segment the word lies in; otherwise 0.
  explicit Lock(LockWord& word, std::uint32_t member = 0) VIADUCT_ACQUIRE(word) : word_(word) {
    acquire(word, member);
  }
  ~Lock() VIADUCT_RELEASE() { release(word_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  // The bodies of the two are what a lock is made of: nothing in them for Clang to follow.
  static void acquire(LockWord& word, std::uint32_t member = 0)
      VIADUCT_ACQUIRE(word) VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
    std::uint32_t expected = kFree;
    if (!word.compare_exchange_strong(expected, 1 + member, std::memory_order_acquire)) {
      contend(word, 1 + member);
    }
  }
  static void release(LockWord& word) VIADUCT_RELEASE(word) VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
    if ((word.exchange(kFree, std::memory_order_release) & layout::kLockWanted) != 0) wake(word);
  }
  // Frees what this member held when it was killed.
  static void release_of(LockWord& word, std::uint32_t member);

 private:
  static constexpr std::uint32_t kFree = 0;

  static void contend(LockWord& word, std::uint32_t held);
  static void wake(LockWord& word);

  LockWord& word_;
};

}  // namespace viaduct::vipl

#endif
