// Words for what the agent's records say in numbers.
#ifndef VIADUCT_KAGENT_TOOLS_VIACTL_WORDS_H
#define VIADUCT_KAGENT_TOOLS_VIACTL_WORDS_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kagent/contract/report.h"

namespace viaduct::tool {

const char* placement_word(std::uint32_t placement);    // "auto", "hosted", "granted"
const char* reliability_word(std::uint32_t reliability);
const char* state_word(std::uint32_t state);
const char* losses_word(std::uint32_t losses);
const char* path_word(std::uint32_t path);
const char* log_level_word(std::uint32_t level);
const char* happened_word(std::uint32_t what);          // "connected"
const char* op_word(std::uint32_t op);                  // of a command: "RegisterMem"
const char* result_word(std::uint32_t result);          // "VIP_SUCCESS"
const char* error_word(std::uint32_t error);            // "VIP_ERROR_CONN_LOST"
std::optional<report::LogLevel> log_level_of(std::string_view word);
// The local time, with so many digits of the second's fraction, 9 at most: "17:02:31.042117".
std::string clock_text(std::uint64_t ns, int digits);
std::string mac_text(const std::uint8_t* address);      // "02:00:00:00:00:01"
std::string user_text(std::uint32_t user);              // its name, or the number
std::string program_text(std::uint32_t process);        // its command, "" if it can't be read

}  // namespace viaduct::tool

#endif
