// Frames that a port sends to its own address: copies, which come back from receive().
#ifndef VIADUCT_XDP_OWN_FRAMES_H
#define VIADUCT_XDP_OWN_FRAMES_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "xdp/port.h"

namespace viaduct {

class OwnFrames {
 public:
  static constexpr std::uint32_t kMark = 0x80000000;  // in the ids of the buffers

  // `stride`: bytes of the longest frame, rounded up.
  explicit OwnFrames(std::size_t stride) : stride_(stride) {}

  // Copies the frame. Where there is no room for it, it is dropped and counted.
  void send(const Frame& frame) {
    if (memory_ == nullptr) {
      memory_ = std::make_unique_for_overwrite<std::byte[]>(stride_ * kBuffers);
      for (std::uint32_t i = kBuffers; i-- > 0;) free_.push_back(i);
    }
    if (free_.empty() || frame.length > stride_) {
      ++dropped_;
      return;
    }
    const std::uint32_t buffer = free_.back();
    free_.pop_back();
    std::byte* data = &memory_[buffer * stride_];
    std::memcpy(data, frame.data, frame.length);
    queue_.push_back({data, frame.length, buffer | kMark});
  }

  // Hands out the oldest frames, half of the room at most, so that neither these nor other frames starve.
  std::size_t receive(std::span<Frame> frames) {
    if (head_ == queue_.size()) return 0;
    const std::size_t got =
        std::min(std::max<std::size_t>(frames.size() / 2, 1), queue_.size() - head_);
    std::copy_n(queue_.begin() + static_cast<std::ptrdiff_t>(head_), got, frames.begin());
    head_ += got;
    if (head_ == queue_.size()) queue_.clear(), head_ = 0;
    return got;
  }
  // Takes back a frame that receive() has handed out.
  void release(const Frame& frame) { free_.push_back(frame.id & ~kMark); }

  std::uint64_t dropped() const { return dropped_; }

 private:
  static constexpr std::uint32_t kBuffers = 2048;

  std::size_t stride_;
  std::unique_ptr<std::byte[]> memory_;  // made at the first use
  std::vector<std::uint32_t> free_;  // its buffers
  std::vector<Frame> queue_;         // frames [head_, end) wait for receive()
  std::size_t head_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace viaduct

#endif
