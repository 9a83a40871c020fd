// The command line of viad. It takes precedence over the configuration file.
#ifndef VIADUCT_KAGENT_AGENT_CONFIG_OPTIONS_H
#define VIADUCT_KAGENT_AGENT_CONFIG_OPTIONS_H

#include <optional>
#include <string>
#include <vector>

#include "kagent/agent/config/config.h"

namespace viaduct {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;  // command line or configuration

struct Options {
  std::string config_file;  // empty: the default file, if there is one
  std::vector<std::string> interfaces;
  std::string port, name, socket, log_level, log_file, pid_file;
  bool daemon = false;
  bool check_config = false;
  bool counters = false;
};

// No value, but the code to exit with, if there is nothing more to do: help, the version or an error has been
// printed.
std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_code);

// The configuration that file and options make together. Throws ConfigError. `need_nics`: that there
// is no NIC is an error.
Config make_config(const Options& options, bool need_nics = true);

}  // namespace viaduct

#endif
