#include "kagent/agent/programs/host_names.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>

#include "kagent/agent/config/config.h"
#include "xdp/clock.h"

namespace viaduct {
namespace {

// Host names without regard to case; a name without domain is equal to the same with any.
bool same_host(std::string_view a, std::string_view b) {
  if (a.find('.') == a.npos || b.find('.') == b.npos) {
    a = a.substr(0, a.find('.'));
    b = b.substr(0, b.find('.'));
  }
  return !a.empty() && a == b;
}

}  // namespace

HostNames::HostNames(const std::string& name, const std::map<std::string, MacAddress>& hosts, Addresses addresses)
    : name_(name), name_in_lower_case_(lower_case(name)), hosts_(hosts), addresses_(std::move(addresses)) {}

std::optional<MacAddress> HostNames::look_up(std::string_view name) {
  const std::string wanted = lower_case(name);
  const auto known = hosts_.find(wanted);
  if (known != hosts_.end()) return known->second;
  if (wanted == "localhost" || is_own(wanted)) return address_;
  if (!parse_ip(wanted).empty()) return std::nullopt;
  for (const auto& [host, address] : hosts_) {
    if (same_host(host, wanted)) return address;
  }
  return std::nullopt;
}

bool HostNames::is_own(std::string_view name) {
  const IpAddress ip = parse_ip(name);
  if (!ip.empty()) return is_own_address(ip);
  return same_host(lower_case(name), name_in_lower_case_);
}

HostNames::IpAddress HostNames::parse_ip(std::string_view text) {
  std::uint8_t bytes[16];
  const std::string terminated(text);
  if (inet_pton(AF_INET, terminated.c_str(), bytes) == 1) return {bytes, bytes + 4};
  if (inet_pton(AF_INET6, terminated.c_str(), bytes) == 1) return {bytes, bytes + 16};
  return {};
}

bool HostNames::is_own_address(const IpAddress& address) {
  const std::uint64_t now = monotonic_ns();
  if (asked_at_ == 0 || now - asked_at_ >= kNsPerSecond) {
    asked_at_ = now;
    own_addresses_.clear();
    for (const std::string& text : addresses_()) own_addresses_.push_back(parse_ip(text));
  }
  return std::find(own_addresses_.begin(), own_addresses_.end(), address) != own_addresses_.end();
}

}  // namespace viaduct
