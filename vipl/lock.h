// A lock in one word: one compare-and-swap each way when nobody else wants it. The word may lie in
// memory that other processes share. Held for a few hundred instructions at most, never while its
// owner waits for anything.
#ifndef VIADUCT_VIPL_LOCK_H
#define VIADUCT_VIPL_LOCK_H

#include <atomic>
#include <cstdint>

namespace viaduct::vipl {

class Lock {
 public:
  explicit Lock(std::atomic<std::uint32_t>& word) : word_(word) { acquire(word); }
  ~Lock() { release(word_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  static void acquire(std::atomic<std::uint32_t>& word) {
    std::uint32_t expected = kFree;
    if (!word.compare_exchange_strong(expected, kHeld, std::memory_order_acquire)) contend(word);
  }
  static void release(std::atomic<std::uint32_t>& word) {
    if (word.exchange(kFree, std::memory_order_release) == kWanted) wake(word);
  }

 private:
  static constexpr std::uint32_t kFree = 0;
  static constexpr std::uint32_t kHeld = 1;
  static constexpr std::uint32_t kWanted = 2;  // held, and somebody may sleep for it

  static void contend(std::atomic<std::uint32_t>& word);
  static void wake(std::atomic<std::uint32_t>& word);

  std::atomic<std::uint32_t>& word_;
};

}  // namespace viaduct::vipl

#endif
