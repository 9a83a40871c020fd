// Walks over the pieces of memory that a program sends from or receives to.
#ifndef VIADUCT_SOVIA_LANE_LANE_PIECES_H
#define VIADUCT_SOVIA_LANE_LANE_PIECES_H

#include <sys/uio.h>

#include <cstddef>

namespace viaduct::sovia {

// Calls take(bytes of a piece) for the pieces from `skip` on, until it returns less than asked for.
template <class Take>
std::size_t over_pieces(const iovec* pieces, std::size_t count, std::size_t skip, Take&& take) {
  std::size_t total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (skip >= pieces[i].iov_len) {
      skip -= pieces[i].iov_len;
      continue;
    }
    auto* const at = static_cast<std::byte*>(pieces[i].iov_base) + skip;
    const std::size_t here = pieces[i].iov_len - skip;
    skip = 0;
    const std::size_t taken = take(at, here);
    total += taken;
    if (taken < here) break;
  }
  return total;
}

}  // namespace viaduct::sovia

#endif
