#include "kagent/stack/placer.h"

#include <algorithm>

namespace viaduct {

using state::Vi;
using state::kNone;

// Collects [offset, offset + payload) of the message for writing.
template <class Platform>
void Placer<Platform>::place(ViIndex i, const Target& target, std::uint32_t offset,
                             std::span<const std::byte> payload) {
  if (payload.empty()) return;
  begin_placing(i, payload);
  std::uint64_t begin = offset;
  const std::uint64_t end = begin + payload.size();
  std::uint64_t at = 0;
  for (unsigned s = 0; s < target.segment_count && begin < end; ++s) {
    const layout::Segment& segment = target.segments[s];
    const std::uint64_t segment_end = at + segment.length;
    if (begin < segment_end) {
      const std::uint64_t piece = std::min(end, segment_end) - begin;
      place_piece(segment.address + (begin - at), piece);
      begin += piece;
    }
    at = segment_end;
  }
}

// As place(), for an RDMA write. The last word of a message is a piece of its own, so it becomes visible after all
// the rest: programs spin on it.
template <class Platform>
void Placer<Platform>::place_at(ViIndex i, std::uint64_t address, std::span<const std::byte> data,
                                bool last) {
  if (data.empty()) return;
  begin_placing(i, data);
  std::size_t tail = 0;
  if (last) {
    tail = std::min<std::size_t>(data.size(), 8);
    // A whole aligned word where there is one.
    const std::size_t aligned = (address + data.size()) % 8;
    if (aligned != 0 && aligned < tail) tail = aligned;
  }
  const std::size_t head = data.size() - tail;
  if (head != 0) place_piece(address, head);
  if (tail != 0) {
    pieces_.remote[pieces_.remotes++] = {reinterpret_cast<void*>(address + head), tail};
  }
}

// Takes the bytes of `data` to be placed next, in at most kMaxSegments pieces; writes what is there first if it is
// another VI's, or if there is no room.
template <class Platform>
void Placer<Platform>::begin_placing(ViIndex i, std::span<const std::byte> data) {
  if (placing_ != i || pieces_.locals == kMaxPieces ||
      pieces_.remotes + layout::kMaxSegments > kMaxPieces) {
    flush_placement();
  }
  placing_ = i;
  pieces_.local[pieces_.locals++] = {const_cast<std::byte*>(data.data()), data.size()};
}

template <class Platform>
void Placer<Platform>::place_piece(std::uint64_t address, std::uint64_t length) {
  iovec* const next = &pieces_.remote[pieces_.remotes];
  if (pieces_.remotes != 0 &&
      reinterpret_cast<std::uint64_t>(next[-1].iov_base) + next[-1].iov_len == address) {
    next[-1].iov_len += length;
  } else {
    *next = {reinterpret_cast<void*>(address), length};
    ++pieces_.remotes;
  }
}

// Writes what was collected. A failure is noted in the VI, whose message has not ended yet.
template <class Platform>
bool Placer<Platform>::flush_placement() {
  if (placing_ == kNone) return true;
  Vi& vi = vis_[placing_];
  const bool written = environment_.write_program(vi.program, {pieces_.remote, pieces_.remotes},
                                                  {pieces_.local, pieces_.locals});
  if (!written) vi.rx.receive_failed = 1;
  placing_ = kNone;
  pieces_.remotes = pieces_.locals = 0;
  return written;
}

}  // namespace viaduct
