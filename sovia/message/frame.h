// How messages lie in the stream of a connection that keeps their boundaries: each has a frame before it.
//
//      0      1      2      3      4             8             12
//     +------+------+------+------+-------------+-------------+----------------
//     | 'S'  | 'M'  |  1   | kind |   length    |   number    |  the message
//     +------+------+------+------+-------------+-------------+----------------
//
// The numbers are in network byte order. Messages of a direction are numbered from 0 on. What is no frame
// comes from a peer that keeps no boundaries.
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

enum class FrameKind : std::uint8_t {
  kMessage = 1,  // the message follows
  kOffer = 2,    // nothing follows: a message of that length does, unless it is written to the receiver's buffer
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
           kind <= FrameKind::kOffer && length <= kMostMessage;
  }
};

}  // namespace viaduct::sovia

#endif
