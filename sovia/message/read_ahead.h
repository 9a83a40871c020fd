// Frames of messages that were taken off the stream before the program wants them, by a call that looks for what is
// behind them. As they were in the stream: what is read of them, and then of the stream, is what has come.
#ifndef VIADUCT_SOVIA_MESSAGE_READ_AHEAD_H
#define VIADUCT_SOVIA_MESSAGE_READ_AHEAD_H

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "sovia/lane/lane_pieces.h"
#include "sovia/lane/spill.h"
#include "sovia/message/frame.h"
#include "sovia/process/guarded_copy.h"

namespace viaduct::sovia {

class ReadAhead {
 public:
  static constexpr std::size_t kMost = 64 * 1024 * 1024;  // no more is to be appended

  bool empty() const { return bytes_.size() == 0; }
  std::size_t size() const { return bytes_.size(); }
  const std::byte* data() const { return bytes_.data(); }

  // As recv(): false if the memory is not there. Not while it is empty.
  bool read(const iovec* pieces, std::size_t count, std::size_t skip, bool peek, std::size_t& got) {
    const std::byte* from = bytes_.data();
    std::size_t left = bytes_.size();
    bool there = true;
    got = over_pieces(pieces, count, skip, [&](std::byte* to, std::size_t here) {
      here = std::min(here, left);
      there = there && copy_guarded(to, from, here);
      from += here;
      left -= here;
      return here;
    });
    if (there && !peek) bytes_.drop(got);
    return there;
  }

  // A reader has begun with a frame, of which it has `head` and `body`: they are to be read again. While it is empty.
  bool begin(const std::byte* head, std::size_t head_bytes, const std::byte* body, std::size_t body_bytes) {
    of_last_ = 0;
    return append(head, head_bytes) && append(body, body_bytes);
  }
  // Appends the next bytes of the stream, no more than wants() of them.
  bool append(const std::byte* from, std::size_t bytes) {
    if (bytes != 0 && !bytes_.append(from, bytes)) return false;
    for (; bytes != 0 && of_last_ < kFrameBytes; --bytes) head_[of_last_++] = *from++;
    of_last_ += bytes;
    return true;
  }
  // Whether the last frame's head is all there; if so, what it says. False in `valid`: it is no frame.
  bool has_head(Frame& frame, bool& valid) const {
    if (of_last_ < kFrameBytes) return false;
    valid = frame.read(head_);
    return true;
  }
  // Bytes that the last frame lacks, of the head alone until it has come.
  std::size_t wants() const {
    if (of_last_ < kFrameBytes) return kFrameBytes - of_last_;
    Frame frame;
    frame.read(head_);
    return kFrameBytes + (frame.kind == FrameKind::kMessage ? frame.length : 0) - of_last_;
  }
  // The last frame, of which there is only the head, is not the program's.
  void drop_head() {
    bytes_.drop_last(kFrameBytes);
    of_last_ = 0;
  }
  // It is complete: the next one begins.
  void end_frame() { of_last_ = 0; }
  void clear() {
    bytes_.drop(bytes_.size());
    of_last_ = 0;
  }

 private:
  Spill bytes_;
  std::byte head_[kFrameBytes] = {};
  std::size_t of_last_ = 0;  // bytes of the last frame that have come, its head included
};

}  // namespace viaduct::sovia

#endif
