// Frames of messages that a call has taken off the stream, before the program wants them, to get at frames behind them.
// The bytes are kept as they were: a reader reads these and then the stream.
#ifndef VIADUCT_SOVIA_MESSAGE_READ_AHEAD_H
#define VIADUCT_SOVIA_MESSAGE_READ_AHEAD_H

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "sovia/lane/lane_pieces.h"
#include "sovia/message/spill.h"
#include "sovia/message/frame.h"
#include "sovia/process/guarded_copy.h"

namespace viaduct::sovia {

class ReadAhead {
 public:
  static constexpr std::size_t kMost = 64 * 1024 * 1024;  // no more may be appended

  bool empty() const { return bytes_.size() == 0; }
  std::size_t size() const { return bytes_.size(); }
  const std::byte* data() const { return bytes_.data(); }

  // As recv(); false if the program's memory is not there. Not to be called while this is empty.
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

  // Puts back `head` and `body`, the parts of a frame that a reader has taken already, to be read again. Only while
  // this is empty.
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
  // True if the last frame's head is complete: `frame` gets it. `valid` is false if it is no frame.
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
  // The last frame is complete: the next one begins.
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
