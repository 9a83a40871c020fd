// Text as JSON has it, with quotes.
#ifndef VIADUCT_SOVIA_LAUNCHER_JSON_TEXT_H
#define VIADUCT_SOVIA_LAUNCHER_JSON_TEXT_H

#include <cstdio>
#include <string>

namespace viaduct::sovia::launcher {

inline std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
      result += escape;
    } else {
      result += c;
    }
  }
  return result + "\"";
}

}  // namespace viaduct::sovia::launcher

#endif
