#include "vipl/lanevi/ip_address.h"

#include <arpa/inet.h>

#include <charconv>

namespace viaduct::lanevi {
namespace {

constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

}  // namespace

IpAddress IpAddress::of_ipv4(const void* four_bytes) {
  IpAddress out;
  std::memcpy(out.bytes.data(), kMapped.data(), kMapped.size());
  std::memcpy(out.bytes.data() + kMapped.size(), four_bytes, 4);
  return out;
}

IpAddress IpAddress::of_ipv6(const void* sixteen_bytes) {
  IpAddress out;
  std::memcpy(out.bytes.data(), sixteen_bytes, 16);
  return out;
}

bool IpAddress::is_ipv4() const {
  return std::memcmp(bytes.data(), kMapped.data(), kMapped.size()) == 0;
}

bool IpAddress::is_group() const {
  if (!is_ipv4()) return bytes[0] == 0xff;
  const std::uint8_t* const b = ipv4_bytes();
  return (b[0] & 0xf0) == 0xe0 || (b[0] & b[1] & b[2] & b[3]) == 0xff;
}

std::optional<IpAddress> IpPrefix::broadcast() const {
  if (!address.is_ipv4() || bits > 30) return std::nullopt;
  IpAddress out = address;
  for (unsigned bit = bits; bit < 32; ++bit) {
    out.bytes[12 + bit / 8] |= static_cast<std::uint8_t>(0x80 >> bit % 8);
  }
  return out;
}

std::optional<IpAddress> parse_address(const std::string& text) {
  in_addr four;
  if (inet_pton(AF_INET, text.c_str(), &four) == 1) return IpAddress::of_ipv4(&four);
  in6_addr sixteen;
  if (inet_pton(AF_INET6, text.c_str(), &sixteen) == 1) return IpAddress::of_ipv6(&sixteen);
  return std::nullopt;
}

std::optional<IpPrefix> parse_prefix(const std::string& text) {
  const std::size_t slash = text.find('/');
  const auto address = parse_address(text.substr(0, slash));
  if (!address) return std::nullopt;
  const unsigned most = address->is_ipv4() ? 32 : 128;
  unsigned bits = most;
  if (slash != std::string::npos) {
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + slash + 1, end, bits);
    if (read.ec != std::errc() || read.ptr != end || bits > most) return std::nullopt;
  }
  return IpPrefix{*address, bits};
}

std::string text_of(const IpAddress& address) {
  char out[INET6_ADDRSTRLEN];
  const bool four = address.is_ipv4();
  inet_ntop(four ? AF_INET : AF_INET6, four ? address.ipv4_bytes() : address.bytes.data(), out,
            sizeof out);
  return out;
}

}  // namespace viaduct::lanevi
