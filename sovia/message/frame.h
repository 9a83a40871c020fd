// How messages lie in the stream of a connection that keeps their boundaries: each has a frame before it.
//
//      0      1      2      3      4             8             12
//     +------+------+------+------+-------------+-------------+----------------
//     | 'S'  | 'M'  |  1   | kind |   length    |   number    |  the message
//     +------+------+------+------+-------------+-------------+----------------
//
// The numbers are in network byte order. Messages of a direction are numbered from 0 on. A peer that keeps
// no boundaries sends bytes that are no frames.
#ifndef VIADUCT_SOVIA_MESSAGE_FRAME_H
#define VIADUCT_SOVIA_MESSAGE_FRAME_H

#include <endian.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "sovia/lane/packet.h"

namespace viaduct::sovia {

inline constexpr std::size_t kFrameBytes = 12;
inline constexpr std::uint8_t kFrameVersion = 1;
inline constexpr std::uint32_t kMostControl = 128 * 1024;  // the most bytes of a frame that is not for the program

enum class FrameKind : std::uint8_t {
  kMessage = 1,  // the message follows
  kOffer = 2,    // without bytes: a message of that length is next, in the stream or by RDMA to the receiver's buffer
  // Frames that programs never see (tag_frames.h). They are numbered apart from messages.
  kPut = 3,      // to a tagged buffer: Range, and the bytes
  kGet = 4,      // from a tagged buffer: Range, and how many bytes
  kAnswer = 5,   // to the kPut or kGet of that number: Answer, and for kGet the bytes
  kGone = 6,     // a tagged buffer has been withdrawn: its key
};

struct Frame {
  FrameKind kind;
  std::uint32_t length;  // of the message
  std::uint32_t number;

  void write(std::byte* to) const {
    const std::uint8_t head[4] = {'S', 'M', kFrameVersion, static_cast<std::uint8_t>(kind)};
    const std::uint32_t numbers[2] = {htobe32(length), htobe32(number)};
    std::memcpy(to, head, sizeof head);
    std::memcpy(to + sizeof head, numbers, sizeof numbers);
  }
  // False if this is no frame.
  bool read(const std::byte* from) {
    std::uint8_t head[4];
    std::uint32_t numbers[2];
    std::memcpy(head, from, sizeof head);
    std::memcpy(numbers, from + sizeof head, sizeof numbers);
    kind = static_cast<FrameKind>(head[3]);
    length = be32toh(numbers[0]);
    number = be32toh(numbers[1]);
    return head[0] == 'S' && head[1] == 'M' && head[2] == kFrameVersion && kind >= FrameKind::kMessage &&
           kind <= FrameKind::kGone && length <= (is_for_program() ? kMostMessage : kMostControl);
  }
  bool is_for_program() const { return kind <= FrameKind::kOffer; }
};

}  // namespace viaduct::sovia

#endif
