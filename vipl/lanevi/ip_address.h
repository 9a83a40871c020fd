// Addresses of IP: both versions in one form, as IPv6 writes those of IPv4 (::ffff:a.b.c.d).
#ifndef VIADUCT_VIPL_LANEVI_IP_ADDRESS_H
#define VIADUCT_VIPL_LANEVI_IP_ADDRESS_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

namespace viaduct::lanevi {

struct IpAddress {
  std::array<std::uint8_t, 16> bytes{};

  static IpAddress of_ipv4(const void* four_bytes);
  static IpAddress of_ipv6(const void* sixteen_bytes);

  bool is_ipv4() const;
  const std::uint8_t* ipv4_bytes() const { return bytes.data() + 12; }
  // Multicast, and the broadcast address of every network.
  bool is_group() const;

  friend bool operator==(const IpAddress&, const IpAddress&) = default;
};

struct IpAddressHash {
  std::size_t operator()(const IpAddress& address) const {
    std::uint64_t halves[2];
    std::memcpy(halves, address.bytes.data(), sizeof halves);
    return (halves[0] ^ halves[1]) * 0x9e3779b97f4a7c15u >> 16;
  }
};

// An interface's address with the length of its network's prefix, counted within its own version.
struct IpPrefix {
  IpAddress address;
  unsigned bits = 0;

  // The broadcast address of an IPv4 network that has one.
  std::optional<IpAddress> broadcast() const;
};

std::optional<IpAddress> parse_address(const std::string& text);
// Parses ADDRESS/BITS, or ADDRESS alone.
std::optional<IpPrefix> parse_prefix(const std::string& text);
std::string text_of(const IpAddress& address);

}  // namespace viaduct::lanevi

#endif
