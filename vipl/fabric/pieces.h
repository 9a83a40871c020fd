// Cuts a transfer between two lists of memory ranges into pieces that a VIA descriptor can name: one
// range at the far end, at most kSegments here, at most so many bytes.
#ifndef VIADUCT_VIPL_FABRIC_PIECES_H
#define VIADUCT_VIPL_FABRIC_PIECES_H

#include <algorithm>
#include <array>
#include <cstdint>

#include "vipl/fabric/wire.h"

namespace viaduct::fabric {

struct Range {
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint32_t memory = 0;
};

class Ranges {
 public:
  bool add(const Range& range) {
    if (range.length == 0) return true;
    if (count_ == kSegments) return false;
    ranges_[count_++] = range;
    return true;
  }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (std::uint32_t i = 0; i < count_; ++i) sum += ranges_[i].length;
    return sum;
  }
  std::uint32_t count() const { return count_; }
  const Range& operator[](std::uint32_t i) const { return ranges_[i]; }

 private:
  std::array<Range, kSegments> ranges_;
  std::uint32_t count_ = 0;
};

struct Piece {
  Range remote;
  Ranges local;
};

class Pieces {
 public:
  Pieces() = default;
  Pieces(const Ranges& local, const Ranges& remote, std::uint64_t most)
      : local_{local}, remote_{remote}, most_(most) {}

  bool empty() const { return remote_.at == remote_.ranges.count(); }

  // The next piece; to be called only if there is one.
  Piece take() {
    Piece piece;
    const Range& target = remote_.ranges[remote_.at];
    std::uint64_t room = std::min(most_, target.length - remote_.offset);
    piece.remote = {target.address + remote_.offset, 0, target.memory};
    while (room != 0 && local_.at != local_.ranges.count()) {
      const Range& source = local_.ranges[local_.at];
      const std::uint64_t bytes = std::min(room, source.length - local_.offset);
      piece.local.add({source.address + local_.offset, bytes, source.memory});
      piece.remote.length += bytes;
      room -= bytes;
      local_.advance(bytes);
    }
    if (piece.remote.length == 0) {
      remote_.at = remote_.ranges.count();  // nothing is left here: the lists were not of one length
    } else {
      remote_.advance(piece.remote.length);
    }
    return piece;
  }

 private:
  struct Cursor {
    Ranges ranges;
    std::uint32_t at = 0;
    std::uint64_t offset = 0;
    void advance(std::uint64_t bytes) {
      offset += bytes;
      if (offset == ranges[at].length) {
        ++at;
        offset = 0;
      }
    }
  };
  Cursor local_;
  Cursor remote_;
  std::uint64_t most_ = 0;
};

}  // namespace viaduct::fabric

#endif
