// Sizes of UMEM chunks.
#ifndef VIADUCT_XDP_XSK_CHUNK_H
#define VIADUCT_XDP_XSK_CHUNK_H

#include <algorithm>
#include <cstdint>

namespace viaduct {

inline constexpr std::uint32_t kHeadroom = 256;        // the kernel's, before each received frame
inline constexpr std::uint32_t kEthernet = 14;
inline constexpr std::uint32_t kEthernetAndTag = kEthernet + 4;

// Chunks are of 2048 or 4096 bytes, nothing else.
constexpr std::uint32_t chunk_for(std::uint32_t mtu) {
  return mtu + kEthernetAndTag + kHeadroom <= 2048 ? 2048 : 4096;
}

// The part of a link's MTU that fits into one chunk.
constexpr std::uint32_t mtu_in_chunk(std::uint32_t mtu) {
  return std::min(mtu, chunk_for(mtu) - kHeadroom - kEthernetAndTag);
}

// Frames may take several chunks (AF_XDP calls that multi-buffer), but links have no longer ones.
inline constexpr std::uint32_t kLongestMtu = 9216;

// How many chunks a frame may take: when it is received, each of them begins with a headroom.
constexpr std::uint32_t parts_for(std::uint32_t mtu, std::uint32_t chunk) {
  const std::uint32_t each = chunk - kHeadroom;
  return (mtu + kEthernetAndTag + each - 1) / each;
}

}  // namespace viaduct

#endif
