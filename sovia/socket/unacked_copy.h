// A copy of the bytes of a broken lane that may not have arrived: the kernel takes them before all that follows.
#ifndef VIADUCT_SOVIA_SOCKET_UNACKED_COPY_H
#define VIADUCT_SOVIA_SOCKET_UNACKED_COPY_H

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace viaduct::sovia {

class UnackedCopy {
 public:
  UnackedCopy() = default;
  ~UnackedCopy() { drop(); }
  UnackedCopy(const UnackedCopy&) = delete;
  UnackedCopy& operator=(const UnackedCopy&) = delete;

  bool empty() const { return memory_ == nullptr; }
  // Memory for so many, which are all left then; nullptr: there is none.
  std::byte* begin(std::size_t bytes);
  void drop();
  std::size_t size() const { return bytes_; }
  const std::byte* data() const { return memory_ + taken_; }
  std::size_t left() const { return bytes_ - taken_; }
  void take(std::size_t bytes) { taken_ += bytes; }

  // Until then a record without data waits for the peer's answer: no byte depends on it, and the kernel of a peer that
  // was killed would answer it with a reset.
  std::uint64_t held_until = 0;

  // The number of the process's sockets that have such a copy.
  static unsigned count() { return g_count.load(); }
  static void forget_count() { g_count.store(0); }

 private:
  static constinit std::atomic<unsigned> g_count;

  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0, taken_ = 0;
};

}  // namespace viaduct::sovia

#endif
