#include "xdp/train/outgoing_train.h"

namespace viaduct {
namespace {

constexpr std::size_t kFlagsAt = 17;
constexpr std::byte kChecked{0x80};  // a flag: has a checksum
constexpr std::byte kZeros[4096]{};  // fill segments up

}  // namespace

bool OutgoingTrain::may_add(const std::byte* head, std::uint32_t length) {
  if (segments_ == 0) return true;
  if (segments_ == kMostSegments || piece_count_ + kMostPieces + 2 > kAllPieces || length > segment_bytes_ ||
      (segments_ + 1) * segment_bytes_ > kMostBytes || !same_address(head, first_)) {
    return false;
  }
  // A frame may be longer than its content. So a short last frame is filled up, and the next message goes on in the
  // same train.
  if (last_bytes_ < segment_bytes_) {
    const std::uint32_t missing = segment_bytes_ - last_bytes_;
    if (length * 2 < segment_bytes_ || missing > sizeof kZeros) return false;
    pieces_[piece_count_++] = {const_cast<std::byte*>(kZeros), missing};
    bytes_ += missing;
  }
  return true;
}

void OutgoingTrain::note(const std::byte* head, std::uint32_t length) {
  if ((head[kFlagsAt] & kChecked) == std::byte{}) checked_ = false;
  if (segments_++ == 0) first_ = head, segment_bytes_ = length;
  last_bytes_ = length;
  bytes_ += length;
}

bool OutgoingTrain::add(const Frame& frame) {
  if (!may_add(frame.data, frame.length)) return false;
  pieces_[piece_count_++] = {frame.data, frame.length};
  frames_[frame_count_++] = frame;
  note(frame.data, frame.length);
  return true;
}

bool OutgoingTrain::add(std::span<const std::byte> head, std::span<const iovec> pieces) {
  std::size_t length = head.size();
  for (const iovec& piece : pieces) length += piece.iov_len;
  if (head.size() > kMostHead || pieces.size() > kMostPieces || !may_add(head.data(), static_cast<std::uint32_t>(length))) {
    return false;
  }
  std::byte* const copy = heads_[segments_];
  std::memcpy(copy, head.data(), head.size());
  pieces_[piece_count_++] = {copy, head.size()};
  for (const iovec& piece : pieces) pieces_[piece_count_++] = piece;
  note(copy, static_cast<std::uint32_t>(length));
  return true;
}

void OutgoingTrain::clear() {
  segments_ = bytes_ = frame_count_ = piece_count_ = 0;
  checked_ = true;
}

}  // namespace viaduct
