// Tagged buffers in the stream of messages: one end puts to, or gets from, a buffer of the other end by these frames
// where RDMA can't be used, and asks where it can be. All numbers are in network byte order.
#ifndef VIADUCT_SOVIA_MESSAGE_TAG_FRAMES_H
#define VIADUCT_SOVIA_MESSAGE_TAG_FRAMES_H

#include <cstddef>
#include <cstdint>

namespace viaduct::sovia {

// The bytes of a tag that programs hand to each other: struct sovia_tag.
struct TagBytes {
  std::uint8_t name[4];  // 'S' 'V' 'T' 1
  std::uint32_t access;
  std::uint64_t key;     // a random number: the name of the buffer at its own end
  std::uint64_t bytes;   // of the buffer
  std::uint64_t reserved;
};
static_assert(sizeof(TagBytes) == 32);

// The first part of the body of kPut and kGet. A long put or get is sent in pieces, each with the range of the whole,
// so that no piece is done of one that goes beyond the buffer.
struct Range {
  std::uint64_t key;
  std::uint64_t at;     // of this piece, from the beginning of the buffer
  std::uint64_t first;  // of the whole
  std::uint64_t bytes;  // of the whole
};
static_assert(sizeof(Range) == 32);

struct GetRange {
  Range range;
  std::uint32_t bytes;  // of this piece; 0: asks where the buffer is
  std::uint32_t reserved;
};
static_assert(sizeof(GetRange) == 40);

struct Answer {
  std::uint32_t status;   // an errno, or 0
  std::uint32_t lane;     // the number of the connection's lane on which the buffer is open to RDMA
  std::uint64_t address;
  std::uint32_t memory;   // its handle; 0: it is not open to RDMA
  std::uint32_t access;   // the access that is open
};
static_assert(sizeof(Answer) == 24);

inline constexpr std::uint32_t kPieceBytes = 64 * 1024;  // of a put or get

}  // namespace viaduct::sovia

#endif
