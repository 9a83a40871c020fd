// A viaping client's messages to its server.
#ifndef VIADUCT_EXAMPLES_VIAPING_MESSAGES_H
#define VIADUCT_EXAMPLES_VIAPING_MESSAGES_H

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "examples/common/messages.h"

namespace viaping {

using namespace via;  // the parts that measuring programs share

inline constexpr char kServerDiscriminator[] = "viaping";
inline constexpr std::uint32_t kMaxSize = 1u << 20;
inline constexpr std::uint32_t kMaxWarmUp = 1000;  // rounds before the measured ones

// The buffer that message `number` of RDMA writes to and fro goes to. The first one is that of the
// receive in which the other side said where its buffers are.
inline std::uint32_t slot_of(std::uint32_t number) { return 1 + number % 8; }

// The client's discriminator, in network byte order: "vp", version, mode, size, count, nonce.
struct Wish {
  static constexpr std::uint8_t kVersion = 3;
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

}  // namespace viaping

#endif
