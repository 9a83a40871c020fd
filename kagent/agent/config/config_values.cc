// Values of the configuration that stand for something: what they may be, and what they mean.
#include <sys/un.h>

#include <algorithm>
#include <charconv>

#include "kagent/agent/config/config.h"
#include "kagent/agent/config/config_text.h"
#include "kagent/contract/crc32c.h"
#include "kagent/contract/wire.h"

namespace viaduct {

std::optional<std::string> check_socket_name(std::string_view value) {
  constexpr std::size_t kMost = sizeof(sockaddr_un::sun_path) - 1;
  const bool plain = std::all_of(value.begin(), value.end(),
                                 [](char c) { return static_cast<unsigned char>(c) >= ' '; });
  if (!plain) return "has control characters";
  if (value.size() > kMost) return "is longer than " + std::to_string(kMost) + " bytes";
  const bool good = value.size() > 1 && (value[0] == '@' || value[0] == '/');
  if (!good) return shown(value) + " is neither \"@NAME\" nor an absolute path";
  return std::nullopt;
}

std::optional<std::string> check_interface_name(std::string_view value) {
  const bool plain = std::none_of(value.begin(), value.end(), [](char c) {
    return static_cast<unsigned char>(c) <= ' ' || c == '/' || c == ':' || c == 0x7f;
  });
  if (value.empty() || value.size() > 15 || !plain || value == "." || value == "..") {
    return shown(value) + " is no name of an interface (1 to 15 bytes, no blanks, no /, no :)";
  }
  return std::nullopt;
}

std::optional<std::string> check_host_name(std::string_view value) {
  const bool plain = std::all_of(value.begin(), value.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '-' || c == '_' || c == '.';
  });
  if (value.empty() || value.size() > wire::kMaxNameBytes || !plain || value[0] == '.') {
    return shown(value) + " is no host name (1 to 63 of a-z, 0-9, -, _ and .)";
  }
  return std::nullopt;
}

std::optional<PortKind> port_kind(std::string_view text) {
  if (text == "auto") return PortKind::kAuto;
  if (text == "xdp-native") return PortKind::kXdpNative;
  if (text == "tcx") return PortKind::kTcx;
  if (text == "xdp-generic") return PortKind::kXdpGeneric;
  if (text == "pcap") return PortKind::kPcap;
  return std::nullopt;
}

std::optional<control::Placement> placement_of(std::string_view text) {
  if (text == "auto") return control::Placement::kAny;
  if (text == "hosted") return control::Placement::kHosted;
  if (text == "granted") return control::Placement::kGranted;
  return std::nullopt;
}

std::optional<bool> asks_for_checksum(std::string_view text) {
  if (text == "auto") return crc32c_is_fast();
  if (text == "on" || text == "always") return true;
  if (text == "off") return false;
  return std::nullopt;
}

bool is_log_level(std::string_view text) {
  constexpr std::string_view kLevels[] = {"trace", "debug", "info", "warn", "error", "off"};
  return std::find(std::begin(kLevels), std::end(kLevels), text) != std::end(kLevels);
}

std::optional<MacAddress> parse_mac(std::string_view text) {
  MacAddress out{};
  if (text.size() != 17) return std::nullopt;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const char* const at = text.data() + 3 * i;
    const auto [end, error] = std::from_chars(at, at + 2, out[i], 16);
    if (error != std::errc() || end != at + 2 || (i < 5 && at[2] != ':')) return std::nullopt;
  }
  if ((out[0] & 1) != 0 || out == MacAddress{}) return std::nullopt;
  return out;
}

std::string to_text(const MacAddress& address) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const std::uint8_t byte : address) {
    if (!out.empty()) out += ':';
    out += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return out;
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

}  // namespace viaduct
