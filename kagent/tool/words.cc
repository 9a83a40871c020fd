#include "kagent/tool/words.h"

#include <pwd.h>

#include <cstdio>
#include <fstream>
#include <iterator>

#include "kagent/contract/vip_codes.h"

namespace viaduct::tool {
namespace {

constexpr const char* kLevels[] = {"trace", "debug", "info", "warn", "error", "off"};

template <std::size_t kCount>
const char* word(const char* const (&words)[kCount], std::uint32_t number) {
  return number < kCount ? words[number] : "?";
}

}  // namespace

const char* placement_word(std::uint32_t placement) {
  static constexpr const char* kWords[] = {"auto", "hosted", "granted"};
  return word(kWords, placement);
}

const char* reliability_word(std::uint32_t reliability) {
  switch (reliability) {
    case vip::kUnreliable: return "UD";
    case vip::kReliableDelivery: return "RD";
    case vip::kReliableReception: return "RR";
    default: return "?";
  }
}

const char* state_word(std::uint32_t state) {
  static constexpr const char* kWords[] = {"idle", "connected", "pending", "error"};
  return word(kWords, state);
}

const char* losses_word(std::uint32_t losses) {
  static constexpr const char* kWords[] = {"none", "link", "queue"};
  return word(kWords, losses);
}

const char* path_word(std::uint32_t path) {
  static constexpr const char* kWords[] = {"network", "host", "memory"};
  return word(kWords, path);
}

const char* log_level_word(std::uint32_t level) { return word(kLevels, level); }

std::optional<report::LogLevel> log_level_of(std::string_view text) {
  for (std::uint32_t i = 0; i < std::size(kLevels); ++i) {
    if (text == kLevels[i]) return static_cast<report::LogLevel>(i);
  }
  return std::nullopt;
}

std::string mac_text(const std::uint8_t* a) {
  char room[18];
  std::snprintf(room, sizeof room, "%02x:%02x:%02x:%02x:%02x:%02x", a[0], a[1], a[2], a[3], a[4], a[5]);
  return room;
}

std::string user_text(std::uint32_t user) {
  const passwd* const entry = getpwuid(user);
  return entry != nullptr ? entry->pw_name : std::to_string(user);
}

std::string program_text(std::uint32_t process) {
  if (process == 0) return "";
  std::ifstream file("/proc/" + std::to_string(process) + "/comm");
  std::string out;
  std::getline(file, out);
  return out;
}

}  // namespace viaduct::tool
