// Text of a configuration in messages about it.
#ifndef VIADUCT_KAGENT_AGENT_CONFIG_CONFIG_TEXT_H
#define VIADUCT_KAGENT_AGENT_CONFIG_CONFIG_TEXT_H

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace viaduct {

inline std::string hex(std::uint64_t value) {
  char text[2 + 16] = {'0', 'x'};
  const auto end = std::to_chars(text + 2, text + sizeof text, value, 16).ptr;
  return {text, end};
}

// Text from the file may hold any byte; a terminal must be able to show it.
inline std::string printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
  }
  return text;
}

inline std::string shown(std::string_view text) {
  return "\"" + printable(std::string(text.substr(0, 64))) + (text.size() > 64 ? "...\"" : "\"");
}

}  // namespace viaduct

#endif
