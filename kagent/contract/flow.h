// A TCP connection, or two UDP sockets that talk, as one of the ends sees it; and the token of a claim to
// that end (claim_table.h).
#ifndef VIADUCT_KAGENT_CONTRACT_FLOW_H
#define VIADUCT_KAGENT_CONTRACT_FLOW_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace viaduct {

struct Flow {
  static constexpr std::uint16_t kIpv4 = 4;
  static constexpr std::uint16_t kIpv6 = 6;
  static constexpr std::uint16_t kTcp = 0;
  static constexpr std::uint16_t kUdp = 17;
  static constexpr std::size_t kAddressBytes = 16;

  std::uint16_t family;       // kIpv4 or kIpv6; IPv4 also for the sockets of IPv6 that carry it
  std::uint16_t local_port;   // host byte order
  std::uint16_t remote_port;
  std::uint16_t protocol;     // kTcp or kUdp
  std::uint8_t local[kAddressBytes];  // IPv4: the first 4, then 0
  std::uint8_t remote[kAddressBytes];

  // As the other end sees it.
  Flow reversed() const {
    Flow out = *this;
    std::swap(out.local_port, out.remote_port);
    std::swap(out.local, out.remote);
    return out;
  }
  bool valid() const {
    return (family == kIpv4 || family == kIpv6) && (protocol == kTcp || protocol == kUdp);
  }
  bool operator==(const Flow&) const = default;
};
static_assert(sizeof(Flow) == 40);

// Names a claim; cannot be guessed.
using ClaimToken = std::array<std::uint8_t, 16>;

// Whether a user owns a flow.
enum class Owns { kYes, kNo, kUnknown };

}  // namespace viaduct

#endif
