#include "vipl/lanevi/message.h"

#include <algorithm>

namespace viaduct::lanevi {
namespace {

constexpr std::uint8_t kWantsAnswer = 1;
constexpr std::uint8_t kHeard = 2;
constexpr std::uint8_t kTakesUncutUdp = 4;  // not said by older hosts, and passed over by them
constexpr std::size_t kIpv4Header = 20;
constexpr std::size_t kIpv6Header = 40;

}  // namespace

std::optional<PacketEnds> ends_of(const std::uint8_t* message, std::size_t bytes) {
  if (bytes < kPacketHeader + kIpv4Header) return std::nullopt;
  const std::uint8_t* const ip = message + kPacketHeader;
  if (ip[0] >> 4 == 4) return PacketEnds{IpAddress::of_ipv4(ip + 12), IpAddress::of_ipv4(ip + 16)};
  if (ip[0] >> 4 != 6 || bytes < kPacketHeader + kIpv6Header) return std::nullopt;
  return PacketEnds{IpAddress::of_ipv6(ip + 8), IpAddress::of_ipv6(ip + 24)};
}

std::size_t Hello::encode(std::uint8_t* to) const {
  const std::size_t count = std::min(addresses.size(), kMostAddresses);
  to[0] = static_cast<std::uint8_t>((wants_answer ? kWantsAnswer : 0) | (heard ? kHeard : 0) |
                                    (takes_uncut_udp ? kTakesUncutUdp : 0));
  to[1] = static_cast<std::uint8_t>(count);
  to[2] = to[3] = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::copy(addresses[i].bytes.begin(), addresses[i].bytes.end(), to + 4 + 16 * i);
  }
  return 4 + 16 * count;
}

std::optional<Hello> Hello::decode(const std::uint8_t* from, std::size_t bytes) {
  if (bytes < 4 || from[1] > kMostAddresses || bytes != 4 + 16u * from[1]) return std::nullopt;
  Hello out;
  out.wants_answer = (from[0] & kWantsAnswer) != 0;
  out.heard = (from[0] & kHeard) != 0;
  out.takes_uncut_udp = (from[0] & kTakesUncutUdp) != 0;
  for (std::size_t i = 0; i < from[1]; ++i) {
    out.addresses.push_back(IpAddress::of_ipv6(from + 4 + 16 * i));
  }
  return out;
}

}  // namespace viaduct::lanevi
