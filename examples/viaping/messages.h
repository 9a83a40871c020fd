// What client and server say to each other beside the messages that are measured.
#ifndef VIADUCT_EXAMPLES_VIAPING_MESSAGES_H
#define VIADUCT_EXAMPLES_VIAPING_MESSAGES_H

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace viaping {

inline constexpr std::uint32_t kMaxSize = 1u << 20;
inline constexpr std::uint32_t kEnd = 0xffffffff;  // immediate data of "end" and of the report

inline constexpr std::uint32_t kMaxWarmUp = 1000;  // rounds before the measured ones

// The buffer that message `number` of RDMA writes to and fro goes to. The first one is that of the
// receive in which the other side said where its buffers are.
inline std::uint32_t slot_of(std::uint32_t number) { return 1 + number % 8; }

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

// The client's discriminator, in network byte order: "vp", version, mode, size, count, nonce.
struct Wish {
  static constexpr std::uint8_t kVersion = 2;
  static constexpr std::uint16_t kBytes = 16;

  bool bandwidth = false;
  bool block = false;
  Operation operation = Operation::kSend;
  std::uint32_t size = 0;
  std::uint32_t count = 0;

  // Rounds of the latency measurement that are not measured.
  std::uint32_t warm_up() const { return std::min(kMaxWarmUp, count / 10 + 1); }

  void encode(std::uint8_t* to) const {
    std::memcpy(to, "vp", 2);
    to[2] = kVersion;
    to[3] = static_cast<std::uint8_t>((bandwidth ? 1 : 0) | (block ? 2 : 0) |
                                      static_cast<int>(operation) << 2);
    store(to + 4, size);
    store(to + 8, count);
    store(to + 12,
          static_cast<std::uint32_t>(std::chrono::steady_clock::now().time_since_epoch().count()));
  }

  static bool decode(const std::uint8_t* from, std::size_t bytes, Wish& wish) {
    if (bytes != kBytes || std::memcmp(from, "vp", 2) != 0 || from[2] != kVersion) return false;
    wish.bandwidth = (from[3] & 1) != 0;
    wish.block = (from[3] & 2) != 0;
    wish.operation = static_cast<Operation>(from[3] >> 2);
    wish.size = load(from + 4);
    wish.count = load(from + 8);
    return wish.operation <= Operation::kRead && wish.size <= kMaxSize && wish.count > 0;
  }
};

// What the server has seen of a bandwidth measurement; travels in network byte order.
struct Report {
  static constexpr std::uint32_t kBytes = 12;
  std::uint32_t received = 0;
  std::uint64_t nanoseconds = 0;  // from the first message to the last

  void encode(std::uint8_t* to) const {
    store(to, received);
    store(to + 4, static_cast<std::uint32_t>(nanoseconds >> 32));
    store(to + 8, static_cast<std::uint32_t>(nanoseconds));
  }
  static Report decode(const std::uint8_t* from) {
    return {load(from), std::uint64_t{load(from + 4)} << 32 | load(from + 8)};
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
inline std::size_t stride(std::uint32_t size) { return (std::size_t{size} + 63) & ~std::size_t{63}; }

// How many messages of a size may be on their way: at most 256, and not more than 16 MiB. Nobody
// holds unreliable ones back, so they are to fit in the queues below the stack.
inline std::uint32_t window(std::uint32_t size, bool reliable) {
  const std::uint32_t bytes = reliable ? 16u << 20 : 1u << 20;
  return std::clamp(bytes / std::max(size, 1u), 8u, 256u);
}

}  // namespace viaping

#endif
