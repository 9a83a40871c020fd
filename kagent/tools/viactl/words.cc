#include "kagent/tools/viactl/words.h"

#include <pwd.h>

#include <cstdio>
#include <ctime>
#include <fstream>
#include <iterator>

#include "kagent/contract/session_layout.h"
#include "kagent/contract/vip_codes.h"
#include "xdp/clock.h"

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

const char* happened_word(std::uint32_t what) {
  static constexpr const char* kWords[] = {
      "missed",         "session opened", "session closed", "process attached", "process left",      "refused",
      "not granted",    "connected",      "disconnected",   "peer disconnected", "connection lost",  "loss",
      "timeout",        "interface up",   "interface down", "command"};
  return word(kWords, what);
}

// The names of the functions of the VIPL and its extensions that give these commands.
const char* op_word(std::uint32_t op) {
  static constexpr const char* kWords[] = {
      "?",               "CreatePtag",         "DestroyPtag",     "RegisterMem",     "DeregisterMem",
      "QueryMem",        "SetMemAttributes",   "CreateVi",        "DestroyVi",       "?",
      "SetViAttributes", "CreateCQ",           "DestroyCQ",       "ResizeCQ",        "ConnectWait",
      "ConnectAccept",   "ConnectReject",      "ConnectRequest",  "Disconnect",      "ConnectPeerRequest",
      "ConnectPeerDone", "ConnectPeerWait",    "NSGetHostByName", "NSGetHostByAddr", "cancel",
      "discover hosts",  "next host",          "claim",           "unclaim",         "verify claim",
      "take VI"};
  static_assert(std::size(kWords) == static_cast<std::size_t>(layout::Op::kLast) + 1);
  return word(kWords, op);
}

const char* result_word(std::uint32_t result) {
  static constexpr const char* kWords[] = {
      "VIP_SUCCESS",        "VIP_NOT_DONE",      "VIP_INVALID_PARAMETER", "VIP_ERROR_RESOURCE",
      "VIP_TIMEOUT",        "VIP_REJECT",        "VIP_INVALID_RELIABILITY_LEVEL", "VIP_INVALID_MTU",
      "VIP_INVALID_QOS",    "VIP_INVALID_PTAG",  "VIP_INVALID_RDMAREAD",  "VIP_DESCRIPTOR_ERROR",
      "VIP_INVALID_STATE",  "VIP_ERROR_NAMESERVICE", "VIP_NO_MATCH",      "VIP_NOT_REACHABLE",
      "VIP_ERROR_NOT_SUPPORTED"};
  return word(kWords, result);
}

const char* error_word(std::uint32_t error) {
  static constexpr const char* kWords[] = {
      "VIP_ERROR_POST_DESC",   "VIP_ERROR_CONN_LOST",   "VIP_ERROR_RECVQ_EMPTY", "VIP_ERROR_VI_OVERRUN",
      "VIP_ERROR_RDMAW_PROT",  "VIP_ERROR_RDMAW_DATA",  "VIP_ERROR_RDMAW_ABORT", "VIP_ERROR_RDMAR_PROT",
      "VIP_ERROR_COMP_PROT",   "VIP_ERROR_RDMA_TRANSPORT", "VIP_ERROR_CATASTROPHIC"};
  return word(kWords, error);
}

std::optional<report::LogLevel> log_level_of(std::string_view text) {
  for (std::uint32_t i = 0; i < std::size(kLevels); ++i) {
    if (text == kLevels[i]) return static_cast<report::LogLevel>(i);
  }
  return std::nullopt;
}

std::string clock_text(std::uint64_t ns, int digits) {
  const auto seconds = static_cast<std::time_t>(ns / kNsPerSecond);
  std::tm local{};
  localtime_r(&seconds, &local);
  char fraction[10];
  std::snprintf(fraction, sizeof fraction, "%09u", static_cast<unsigned>(ns % kNsPerSecond));
  char room[32];
  std::snprintf(room, sizeof room, "%02d:%02d:%02d.%.*s", local.tm_hour, local.tm_min, local.tm_sec, digits, fraction);
  return room;
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
