// A train that is being made: segments of one length, the last one may be shorter, all to one address.
//
// A segment is a frame of the port's, or lies in pieces that are elsewhere. It stays where it is until the train has been sent.
//
// For libvipl too: no allocation, no exception, nothing but the C library.
#ifndef VIADUCT_XDP_TRAIN_OUTGOING_TRAIN_H
#define VIADUCT_XDP_TRAIN_OUTGOING_TRAIN_H

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "xdp/port.h"

namespace viaduct {

// Whether two Ethernet addresses are the same. A call of memcmp() for each frame would be some of what a train costs.
inline bool same_address(const void* one, const void* other) {
  std::uint32_t head[2];
  std::uint16_t tail[2];
  std::memcpy(&head[0], one, sizeof head[0]);
  std::memcpy(&head[1], other, sizeof head[1]);
  std::memcpy(&tail[0], static_cast<const std::byte*>(one) + sizeof head[0], sizeof tail[0]);
  std::memcpy(&tail[1], static_cast<const std::byte*>(other) + sizeof head[1], sizeof tail[1]);
  return head[0] == head[1] && tail[0] == tail[1];
}

class OutgoingTrain {
 public:
  static constexpr std::uint32_t kMostSegments = 64;   // the kernel's UDP_MAX_SEGMENTS
  static constexpr std::uint32_t kMostBytes = 65'000;
  static constexpr std::uint32_t kMostPieces = 8;      // of a segment that is no frame, without its head
  static constexpr std::uint32_t kMostHead = 80;       // bytes

  // Adds a frame. False, and nothing done, if it does not fit.
  bool add(const Frame& frame);
  // Adds a segment that lies in pieces; `head`, its first bytes, is copied.
  bool add(std::span<const std::byte> head, std::span<const iovec> pieces);
  void clear();

  bool empty() const { return segments_ == 0; }
  std::uint32_t segments() const { return segments_; }
  std::uint32_t bytes() const { return bytes_; }
  std::uint32_t segment_bytes() const { return segment_bytes_; }  // of the first one
  const std::byte* first() const { return first_; }               // its first bytes
  bool is_checked() const { return checked_; }                    // all segments have checksums
  std::span<const Frame> frames() const { return {frames_, frame_count_}; }
  std::span<iovec> pieces() { return {pieces_, piece_count_}; }

 private:
  static constexpr std::uint32_t kAllPieces = 512;

  bool may_add(const std::byte* head, std::uint32_t length);
  void note(const std::byte* head, std::uint32_t length);

  std::uint32_t segments_ = 0, bytes_ = 0, segment_bytes_ = 0, last_bytes_ = 0;
  const std::byte* first_ = nullptr;
  bool checked_ = true;
  std::uint32_t frame_count_ = 0, piece_count_ = 0;
  Frame frames_[kMostSegments];
  iovec pieces_[kAllPieces];
  std::byte heads_[kMostSegments][kMostHead];
};

}  // namespace viaduct

#endif
