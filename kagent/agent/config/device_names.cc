#include "kagent/agent/config/device_names.h"

#include <charconv>

namespace viaduct {
namespace {

struct Form {
  std::string_view prefix;
  std::size_t first;  // the number of NIC 0
};
constexpr Form kForms[] = {
    {"/dev/via_eth", 0}, {"nic", 0}, {"VINIC", 0}, {"/dev/clanvi", 0}, {"\\\\.\\VI", 1},
};
constexpr std::string_view kFirst = "VINIC";
constexpr std::string_view kInterfacePrefixes[] = {"", "/dev/", "/dev/via_"};
constexpr std::string_view kOtherLoopback = "/etc/via_lo";

// Decimal, as programs write it: no sign, no leading zeros.
std::optional<std::size_t> number(std::string_view digits) {
  std::size_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  if (digits.size() > 1 && digits[0] == '0') return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::size_t> find_device(std::string_view device,
                                       std::span<const std::string> interfaces) {
  if (device == kOtherLoopback) device = kLoopbackDevice;
  for (const std::string_view prefix : kInterfacePrefixes) {
    if (!device.starts_with(prefix)) continue;
    for (std::size_t i = 0; i < interfaces.size(); ++i) {
      if (device.substr(prefix.size()) == interfaces[i]) return i;
    }
  }
  std::optional<std::size_t> wanted;
  if (device == kFirst) wanted = 0;
  for (const Form& form : kForms) {
    if (!device.starts_with(form.prefix)) continue;
    const auto n = number(device.substr(form.prefix.size()));
    if (n && *n >= form.first) wanted = *n - form.first;
  }
  for (std::size_t i = 0; wanted && i < interfaces.size(); ++i) {
    if (interfaces[i] == kLoopbackDevice) continue;
    if (*wanted == 0) return i;
    --*wanted;
  }
  return std::nullopt;
}

}  // namespace viaduct
