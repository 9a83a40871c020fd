// A TCP connection by its addresses and ports.
#ifndef VIADUCT_SOVIA_LANE_FLOW_H
#define VIADUCT_SOVIA_LANE_FLOW_H

#include <compare>
#include <cstdint>

namespace viaduct::sovia {

struct FlowEnd {
  std::uint8_t address[16];  // IPv4: the first four, then zeros
  std::uint8_t port[2];      // network byte order

  auto operator<=>(const FlowEnd&) const = default;
};
static_assert(sizeof(FlowEnd) == 18);

// A connection as this end sees it. IPv4 in IPv6 counts as IPv4.
struct Flow {
  bool ipv6;
  FlowEnd local, remote;

  bool operator==(const Flow&) const = default;
};

}  // namespace viaduct::sovia

#endif
