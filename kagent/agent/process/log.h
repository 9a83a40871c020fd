// The agent's messages, and where they go: standard error, a file, or syslog.
#ifndef VIADUCT_KAGENT_AGENT_PROCESS_LOG_H
#define VIADUCT_KAGENT_AGENT_PROCESS_LOG_H

#ifdef SPDLOG_FMT_EXTERNAL
#include <fmt/core.h>
#else
#include <spdlog/fmt/bundled/core.h>
#endif

#include <stdexcept>
#include <string>

namespace viaduct::log {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Target { kStandardError, kFile, kSyslog };

// `level` as in viad.conf. Throws Error if the file can't be opened.
void open(Target target, const std::string& file, const std::string& level);

// After the file was moved away: begins it anew. Keeps the old one, and says so in it, if the new
// one can't be opened. Does nothing for other targets.
void reopen();

// As in viad.conf, from trace (0) to off (5): of the messages that are written from now on.
unsigned level();
std::string level_name();
void set_level(unsigned level);

enum class Level { kDebug, kInfo, kWarning, kError, kCritical };

// Formats in one place, for all callers: spdlog and what it includes take seconds of each file.
void write(Level level, fmt::string_view text, fmt::format_args values);

template <typename... Values>
void say(Level level, fmt::format_string<Values...> text, Values&&... values) {
  write(level, text, fmt::make_format_args(values...));
}
template <typename... Values>
void debug(fmt::format_string<Values...> text, Values&&... values) {
  write(Level::kDebug, text, fmt::make_format_args(values...));
}
template <typename... Values>
void info(fmt::format_string<Values...> text, Values&&... values) {
  write(Level::kInfo, text, fmt::make_format_args(values...));
}
template <typename... Values>
void warn(fmt::format_string<Values...> text, Values&&... values) {
  write(Level::kWarning, text, fmt::make_format_args(values...));
}
template <typename... Values>
void error(fmt::format_string<Values...> text, Values&&... values) {
  write(Level::kError, text, fmt::make_format_args(values...));
}
template <typename... Values>
void critical(fmt::format_string<Values...> text, Values&&... values) {
  write(Level::kCritical, text, fmt::make_format_args(values...));
}

}  // namespace viaduct::log

#endif
