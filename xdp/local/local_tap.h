// Reads along in a ring of the local path (local_ring.h), as a third party that neither end notices.
//
// The producer waits for its consumer, not for this: frames overwritten before they were read here are lost to
// the tap, and counted. A frame that was copied counts only if the producer had not begun to write there meanwhile.
//
// The two programs may put anything into the memory: every word is judged before it is used, and nonsense ends
// the tap.
#ifndef VIADUCT_XDP_LOCAL_LOCAL_TAP_H
#define VIADUCT_XDP_LOCAL_LOCAL_TAP_H

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "xdp/local/local_ring.h"

namespace viaduct::local {

class RingTap {
 public:
  enum class From { kBeginning, kNow };

  RingTap() = default;
  RingTap(const std::byte* ring, const Track* track, From from) : ring_(ring), track_(track) {
    if (from == From::kNow) begin_now();
  }

  // Copies the next frame to `room` (kMostFrame bytes) and says how long it is; 0: there is none.
  std::uint32_t next(std::byte* room) {
    while (!broken_) {
      const std::uint64_t published = track_->published.load(std::memory_order_acquire);
      const std::int32_t ahead = lines_ahead(published);
      if (ahead == 0) return 0;
      const std::uint32_t word = word_at(tail_);
      const std::uint32_t to_end = Words::to_end(tail_);
      const bool wraps = word == kWrap && to_end != kRingBytes;
      const bool fits = word != 0 && word <= kMostFrame && record_bytes(word) <= to_end;
      if (fits) std::memcpy(room, place(tail_) + frame_at(word), word);
      std::atomic_thread_fence(std::memory_order_acquire);
      if (track_->reserved.load(std::memory_order_relaxed) > tail_ + kRingBytes) {
        skip_to(track_->published.load(std::memory_order_acquire));
        return 0;
      }
      broken_ = ahead < 0 || !(fits || wraps);
      if (broken_) return 0;
      tail_ += wraps ? to_end : record_bytes(word);
      if (wraps) continue;
      ++frames_;
      return word;
    }
    return 0;
  }

  std::uint64_t lost() const { return lost_; }  // frames
  bool broken() const { return broken_; }
  // One of the two programs has ended: nothing more comes.
  bool has_ended() const { return track_->ended.load(std::memory_order_relaxed) != 0; }

 private:
  const std::byte* place(std::uint64_t position) const { return ring_ + position % kRingBytes; }
  std::uint32_t word_at(std::uint64_t position) const {
    return reinterpret_cast<const std::atomic<std::uint32_t>*>(place(position))->load(std::memory_order_acquire);
  }
  static std::uint32_t frames_of(std::uint64_t published) { return static_cast<std::uint32_t>(published >> 32); }
  std::int32_t lines_ahead(std::uint64_t published) const {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(published) - static_cast<std::uint32_t>(tail_ / kLine));
  }

  // `reserved` is a whole position that is not far from what `published` says modulo 2^32.
  void begin_now() {
    const std::uint64_t published = track_->published.load(std::memory_order_acquire);
    tail_ = track_->reserved.load(std::memory_order_relaxed) / kLine * kLine;
    tail_ += static_cast<std::int64_t>(lines_ahead(published)) * kLine;
    frames_ = frames_of(published);
  }

  void skip_to(std::uint64_t published) {
    lost_ += frames_of(published) - frames_;
    frames_ = frames_of(published);
    tail_ += static_cast<std::int64_t>(lines_ahead(published)) * kLine;
  }

  const std::byte* ring_ = nullptr;
  const Track* track_ = nullptr;
  std::uint64_t tail_ = 0;
  std::uint32_t frames_ = 0;  // frames that were published up to there, modulo 2^32
  std::uint64_t lost_ = 0;
  bool broken_ = false;
};

}  // namespace viaduct::local

#endif
