// The bytes that a connection sends before it receives again. Long bursts are the kernel's, which takes less of the processors for a
// byte; the others are the lane's, which has them at the peer sooner.
#ifndef VIADUCT_SOVIA_SOCKET_BURST_H
#define VIADUCT_SOVIA_SOCKET_BURST_H

#include <atomic>
#include <cstddef>

namespace viaduct::sovia {

class Burst {
 public:
  static constexpr std::size_t kLongSend = 32 * 1024;   // of one call
  static constexpr std::size_t kLongBurst = 128 * 1024;  // of all

  // Whether a call that sends `bytes` is part of a long burst.
  bool is_long(std::size_t bytes) const {
    return bytes >= kLongSend || sent_.load(std::memory_order_relaxed) + bytes >= kLongBurst;
  }
  void sent(std::size_t bytes) { sent_.store(sent_.load(std::memory_order_relaxed) + bytes, std::memory_order_relaxed); }
  void received() {
    if (sent_.load(std::memory_order_relaxed) != 0) sent_.store(0, std::memory_order_relaxed);
  }

 private:
  std::atomic<std::size_t> sent_{0};
};

}  // namespace viaduct::sovia

#endif
