// The control messages between the two sides of a measurement, and the number of measured messages that may be in
// flight.
#ifndef VIADUCT_EXAMPLES_COMMON_MESSAGES_H
#define VIADUCT_EXAMPLES_COMMON_MESSAGES_H

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace via {

inline constexpr std::uint32_t kEnd = 0xffffffff;  // immediate data of "end" and of the report

inline void store(std::uint8_t* to, std::uint32_t v) {
  for (int i = 0; i < 4; ++i) to[i] = static_cast<std::uint8_t>(v >> (24 - 8 * i));
}

inline std::uint32_t load(const std::uint8_t* from) {
  std::uint32_t v = 0;
  for (int i = 0; i < 4; ++i) v = v << 8 | from[i];
  return v;
}

// How the data gets from one side to the other.
enum class Operation : std::uint8_t { kSend, kWrite, kRead };

// The server's report of a bandwidth measurement; travels in network byte order.
struct Report {
  static constexpr std::uint32_t kBytes = 16;
  std::uint32_t received = 0;
  std::uint64_t nanoseconds = 0;  // from the first message to the last
  std::uint32_t refused = 0;      // messages that found no receive posted, if that was counted

  void encode(std::uint8_t* to) const {
    store(to, received);
    store(to + 4, static_cast<std::uint32_t>(nanoseconds >> 32));
    store(to + 8, static_cast<std::uint32_t>(nanoseconds));
    store(to + 12, refused);
  }
  static Report decode(const std::uint8_t* from) {
    return {load(from), std::uint64_t{load(from + 4)} << 32 | load(from + 8), load(from + 12)};
  }
};

// Where a server's memory is that RDMA writes to, or reads from. It is the first message after the
// connection has been made, in network byte order. A client to which the server writes back answers
// with its own.
struct Target {
  static constexpr std::uint32_t kBytes = 12;
  std::uint64_t address = 0;
  std::uint32_t handle = 0;

  void encode(std::uint8_t* to) const {
    store(to, static_cast<std::uint32_t>(address >> 32));
    store(to + 4, static_cast<std::uint32_t>(address));
    store(to + 8, handle);
  }
  static Target decode(const std::uint8_t* from) {
    return {std::uint64_t{load(from)} << 32 | load(from + 4), load(from + 8)};
  }
};

// Bytes from one buffer of a row of them to the next.
inline std::size_t stride(std::uint32_t size) {
  return (std::size_t{size} + 63) & ~std::size_t{63};
}

// The number of messages of a size that may be in flight: at most 256, and not more than 16 MiB. Unreliable ones have
// no flow control, so they must fit in the queues below the stack.
inline std::uint32_t window(std::uint32_t size, bool reliable) {
  const std::uint32_t bytes = reliable ? 16u << 20 : 1u << 20;
  return std::clamp(bytes / std::max(size, 1u), 8u, 256u);
}

}  // namespace via

#endif
