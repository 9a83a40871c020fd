#include "kagent/device_names.h"

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
constexpr std::string_view kFirst[] = {"VINIC", "/dev/via_lo", "/etc/via_lo"};
constexpr std::string_view kInterfacePrefixes[] = {"", "/dev/", "/dev/via_"};

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
  for (const std::string_view prefix : kInterfacePrefixes) {
    if (!device.starts_with(prefix)) continue;
    for (std::size_t i = 0; i < interfaces.size(); ++i) {
      if (device.substr(prefix.size()) == interfaces[i]) return i;
    }
  }
  if (interfaces.empty()) return std::nullopt;
  for (const std::string_view name : kFirst) {
    if (device == name) return 0;
  }
  for (const Form& form : kForms) {
    if (!device.starts_with(form.prefix)) continue;
    const auto n = number(device.substr(form.prefix.size()));
    if (n && *n >= form.first && *n - form.first < interfaces.size()) return *n - form.first;
  }
  return std::nullopt;
}

}  // namespace viaduct
