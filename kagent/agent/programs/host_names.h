// The names of hosts that the agent knows without asking others, and its own.
#ifndef VIADUCT_KAGENT_AGENT_PROGRAMS_HOST_NAMES_H
#define VIADUCT_KAGENT_AGENT_PROGRAMS_HOST_NAMES_H

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "xdp/port.h"

namespace viaduct {

class HostNames {
 public:
  // The texts of the NIC's own IP addresses. Asked for at most once a second.
  using Addresses = std::function<std::vector<std::string>()>;

  // `name` is this host's; `hosts` are names in lower case that it knows, and must outlive this.
  HostNames(const std::string& name, const std::map<std::string, MacAddress>& hosts, Addresses addresses);

  // Our own address, that of the port in use.
  void set_address(const MacAddress& address) { address_ = address; }

  // As Environment::look_up() and Environment::is_own_name().
  std::optional<MacAddress> look_up(std::string_view name);
  bool is_own(std::string_view name);
  std::string_view own() const { return name_; }

 private:
  // An IP address as bytes: 4, 16, or none.
  using IpAddress = std::vector<std::uint8_t>;
  static IpAddress parse_ip(std::string_view text);
  bool is_own_address(const IpAddress& address);

  MacAddress address_{};
  std::string name_;
  std::string name_in_lower_case_;
  const std::map<std::string, MacAddress>& hosts_;
  Addresses addresses_;
  std::vector<IpAddress> own_addresses_;
  std::uint64_t asked_at_ = 0;  // CLOCK_MONOTONIC, ns
};

}  // namespace viaduct

#endif
