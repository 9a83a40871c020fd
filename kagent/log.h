// Where the agent's messages go: standard error, a file, or syslog. The rest of the agent writes
// through spdlog's default logger.
#ifndef VIADUCT_KAGENT_LOG_H
#define VIADUCT_KAGENT_LOG_H

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

}  // namespace viaduct::log

#endif
