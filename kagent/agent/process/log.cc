#include "kagent/agent/process/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/sinks/syslog_sink.h>
#include <spdlog/spdlog.h>
#include <syslog.h>

#include <algorithm>
#include <iterator>
#include <memory>

namespace viaduct::log {
namespace {

std::string g_file;  // empty: not to a file

// systemd and syslog add the time themselves.
constexpr char kPlain[] = "viad: %l: %v";
constexpr char kWithTime[] = "%Y-%m-%d %H:%M:%S.%e viad[%P]: %l: %v";

std::shared_ptr<spdlog::logger> make(Target target) {
  std::shared_ptr<spdlog::logger> logger;
  switch (target) {
    case Target::kStandardError:
      logger = std::make_shared<spdlog::logger>(
          "viad", std::make_shared<spdlog::sinks::stderr_sink_st>());
      logger->set_pattern(kPlain);
      break;
    case Target::kFile:
      logger = std::make_shared<spdlog::logger>(
          "viad", std::make_shared<spdlog::sinks::basic_file_sink_st>(g_file));
      logger->set_pattern(kWithTime);
      break;
    case Target::kSyslog:
      logger = std::make_shared<spdlog::logger>(
          "viad",
          std::make_shared<spdlog::sinks::syslog_sink_st>("viad", LOG_PID, LOG_DAEMON, false));
      break;
  }
  logger->flush_on(spdlog::level::trace);
  return logger;
}

// The names of viad.conf; there is no "critical" among them.
constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::trace, spdlog::level::debug, spdlog::level::info,
                                                 spdlog::level::warn,  spdlog::level::err,   spdlog::level::off};

spdlog::level::level_enum of(Level level) {
  switch (level) {
    case Level::kDebug: return spdlog::level::debug;
    case Level::kInfo: return spdlog::level::info;
    case Level::kWarning: return spdlog::level::warn;
    case Level::kError: return spdlog::level::err;
    case Level::kCritical: break;
  }
  return spdlog::level::critical;
}

}  // namespace

void open(Target target, const std::string& file, const std::string& level) {
  g_file = target == Target::kFile ? file : "";
  try {
    // A full disk is no reason to stop.
    spdlog::set_error_handler([](const std::string&) {});
    const auto logger = make(target);
    logger->set_error_handler([](const std::string&) {});
    logger->set_level(spdlog::level::from_str(level));
    spdlog::set_default_logger(logger);
  } catch (const spdlog::spdlog_ex& error) {
    throw Error(file + ": " + error.what());
  }
}

void reopen() {
  if (g_file.empty()) return;
  try {
    const auto logger = make(Target::kFile);
    logger->set_error_handler([](const std::string&) {});
    logger->set_level(spdlog::default_logger()->level());
    spdlog::set_default_logger(logger);
    spdlog::info("reopened the log file");
  } catch (const spdlog::spdlog_ex& error) {
    spdlog::error("cannot reopen the log file, writing to the old one: {}", error.what());
  }
}

unsigned level() {
  const auto now = spdlog::default_logger_raw()->level();
  const auto it = std::find(std::begin(kLevels), std::end(kLevels), now);
  return static_cast<unsigned>(it - std::begin(kLevels));
}

std::string level_name() {
  const spdlog::string_view_t name = spdlog::level::to_string_view(spdlog::default_logger_raw()->level());
  return {name.data(), name.size()};
}

void set_level(unsigned level) {
  if (level < std::size(kLevels)) spdlog::default_logger_raw()->set_level(kLevels[level]);
}

void write(Level level, fmt::string_view text, fmt::format_args values) {
  spdlog::logger* const logger = spdlog::default_logger_raw();
  if (!logger->should_log(of(level))) return;
  try {
    logger->log(of(level), spdlog::string_view_t(fmt::vformat(text, values)));
  } catch (const std::exception&) {
    // No memory for a message is no reason to stop.
  }
}

}  // namespace viaduct::log
