// Bytes that the kernel is to take before all that a program sends: a record, and the bytes of a broken lane that may not have
// arrived.
#ifndef VIADUCT_SOVIA_SOCKET_OWED_BYTES_H
#define VIADUCT_SOVIA_SOCKET_OWED_BYTES_H

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace viaduct::sovia {

class OwedBytes {
 public:
  OwedBytes() = default;
  ~OwedBytes() { drop(); }
  OwedBytes(const OwedBytes&) = delete;
  OwedBytes& operator=(const OwedBytes&) = delete;

  // May be asked by any thread.
  bool empty() const { return memory_.load(std::memory_order_relaxed) == nullptr; }
  // Memory for so many, which are all left then; nullptr: there is none. `waits`: a record without data, which goes with
  // the next data, or after kWaitNs: the kernel of a peer that was killed would answer it with a reset.
  std::byte* begin(std::size_t bytes, bool waits);
  void drop();
  bool waits() const { return waits_; }
  static constexpr std::uint64_t kWaitNs = 100'000'000;
  std::uint64_t waits_until = 0;
  // All that is left; none: no memory.
  iovec piece() const { return empty() ? iovec{} : iovec{const_cast<std::byte*>(data()), left()}; }
  const std::byte* data() const { return memory_.load(std::memory_order_relaxed) + taken_; }
  std::size_t left() const { return bytes_ - taken_; }
  void take(std::size_t bytes) {
    taken_ += bytes;
    urge();
  }
  // They wait no longer.
  void urge() {
    if (waits_ && !empty()) g_count.fetch_add(1);
    waits_ = false;
  }

  // The number of the process's sockets that have such bytes, without those that wait.
  static unsigned count() { return g_count.load(); }
  static void forget_count() { g_count.store(0); }

 private:
  static constinit std::atomic<unsigned> g_count;

  std::atomic<std::byte*> memory_{nullptr};
  std::size_t bytes_ = 0, taken_ = 0;
  bool waits_ = false;
};

}  // namespace viaduct::sovia

#endif
