// Where trains reach a port: what two ends tell each other. Plain data.
#ifndef VIADUCT_XDP_TRAIN_TRAIN_ADDRESS_H
#define VIADUCT_XDP_TRAIN_TRAIN_ADDRESS_H

#include <array>
#include <cstdint>

namespace viaduct {

struct TrainAddress {
  std::uint16_t port = 0;               // UDP; 0: no trains
  std::array<std::uint8_t, 4> v4{};     // 0: none
  std::array<std::uint8_t, 16> v6{};    // link-local; 0: none

  bool any() const { return port != 0; }
  bool operator==(const TrainAddress&) const = default;
};

}  // namespace viaduct

#endif
