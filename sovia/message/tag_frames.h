// Tagged buffers in the stream of messages: how one end puts to, or gets from, a buffer of the other end where RDMA
// can't, and learns where it could. All numbers are in network byte order.
#ifndef VIADUCT_SOVIA_MESSAGE_TAG_FRAMES_H
#define VIADUCT_SOVIA_MESSAGE_TAG_FRAMES_H

#include <cstddef>
#include <cstdint>

namespace viaduct::sovia {

// The bytes of a tag that programs hand to each other: struct sovia_tag.
struct TagBytes {
  std::uint8_t name[4];  // 'S' 'V' 'T' 1
  std::uint32_t access;
  std::uint64_t key;     // a random number, which names the buffer to the end that has it
  std::uint64_t bytes;   // of the buffer
  std::uint64_t reserved;
};
static_assert(sizeof(TagBytes) == 32);

// Of kPut and kGet. A long put or get is sent in pieces, of which each says what the whole is: so none is done of
// one that leaves the buffer.
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
  std::uint32_t lane;     // where the buffer is open to RDMA: on the connection's so manieth lane
  std::uint64_t address;
  std::uint32_t memory;   // 0: it is not
  std::uint32_t access;   // ... for this alone
};
static_assert(sizeof(Answer) == 24);

inline constexpr std::uint32_t kPieceBytes = 64 * 1024;  // of a put or get

}  // namespace viaduct::sovia

#endif
