#include "kagent/agent/config/options.h"

#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include <unistd.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>

namespace viaduct {
namespace {

// Makes a check of the configuration one of the command line.
template <class Check>
CLI::Validator validator(const Check& check, const char* form) {
  return CLI::Validator([check](const std::string& value) { return check(value).value_or(""); },
                        form);
}

std::optional<std::string> check_port(const std::string& value) {
  if (port_kind(value)) return std::nullopt;
  return "\"" + value + "\" is none of auto, tcx, xdp-native, xdp-generic, pcap";
}

std::optional<std::string> check_level(const std::string& value) {
  if (is_log_level(value)) return std::nullopt;
  return "\"" + value + "\" is none of trace, debug, info, warn, error, off";
}

// The interfaces that were asked for, with what the file says of each.
void choose_nics(const std::vector<std::string>& interfaces, Config& config) {
  std::vector<NicConfig> chosen;
  for (const std::string& interface : interfaces) {
    const auto named = [&](const NicConfig& nic) { return nic.interface == interface; };
    if (std::any_of(chosen.begin(), chosen.end(), named)) {
      throw ConfigError("--interface " + interface + ": given twice");
    }
    const auto it = std::find_if(config.nics.begin(), config.nics.end(), named);
    NicConfig nic;
    nic.interface = interface;
    chosen.push_back(it == config.nics.end() ? nic : *it);
  }
  if (chosen.size() > kMaxNics) {
    throw ConfigError("--interface: " + std::to_string(chosen.size()) + " given, at most " +
                      std::to_string(kMaxNics) + " can be served");
  }
  config.nics = chosen;
}

std::string own_host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0 || check_host_name(name)) return "localhost";
  return name;
}

}  // namespace

std::optional<Options> parse_options(int argc, const char* const* argv, int& exit_code) {
  Options options;
  bool foreground = false;
  CLI::App app("The agent of Viaduct: gives programs the VI Architecture over plain Ethernet.",
               "viad");
  app.set_version_flag("--version", "viad (viaduct) " PACKAGE_VERSION);
  app.add_option("-c,--config", options.config_file,
                 std::string("configuration file (default: ") + kDefaultConfigFile +
                     ", if it exists)")
      ->type_name("FILE");
  app.add_option("-i,--interface", options.interfaces,
                 "serve this interface and not those of the configuration; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false)
      ->check(validator(check_interface_name, ""));
  app.add_option("-p,--port", options.port,
                 "what carries the frames: auto, tcx, xdp-native, xdp-generic or pcap")
      ->type_name("KIND")
      ->check(validator(check_port, ""));
  app.add_option("-n,--name", options.name, "host name to answer to (default: this host's)")
      ->type_name("NAME")
      ->check(validator(check_host_name, ""));
  app.add_option("-s,--socket", options.socket,
                 "where programs find the agent (default: /run/viaduct/socket)")
      ->type_name("PATH|@NAME")
      ->check(validator(check_socket_name, ""));
  const auto stay = app.add_flag("-f,--foreground", foreground, "stay (the default)");
  app.add_flag("-d,--daemon", options.daemon, "go to the background once ready")->excludes(stay);
  app.add_option("-l,--log-level", options.log_level, "how much to log: trace, debug, info, warn, error or off")
      ->type_name("LEVEL")
      ->check(validator(check_level, ""));
  app.add_option("--log-file", options.log_file,
                 "log to this file (default: standard error; with --daemon: syslog)")
      ->type_name("FILE");
  app.add_option("--pid-file", options.pid_file, "write the process number to this file")
      ->type_name("FILE");
  app.add_flag("--check-config", options.check_config, "check the configuration and exit");
  app.add_flag("--counters", options.counters, "print the counters of the running agent and exit");
  app.footer("Examples:\n  sudo viad --interface eth0\n  viad --check-config --config viad.conf\n"
             "  viad --counters");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      exit_code = app.exit(error);
    } else {
      std::cerr << "viad: " << error.what() << "\n" << "Try 'viad --help'.\n";
      exit_code = kExitUsage;
    }
    return std::nullopt;
  }
  // A daemon works in the root folder, so relative paths are made absolute here.
  for (std::string* path : {&options.log_file, &options.pid_file}) {
    if (path->empty() || (*path)[0] == '/') continue;
    char* const here = getcwd(nullptr, 0);
    if (here != nullptr) *path = std::string(here) + "/" + *path;
    std::free(here);
  }
  return options;
}

Config make_config(const Options& options, bool need_nics) {
  Config config;
  const bool has_default = access(kDefaultConfigFile, F_OK) == 0;
  if (!options.config_file.empty()) {
    config = read_config(options.config_file);
  } else if (has_default) {
    config = read_config(kDefaultConfigFile);
  }
  if (!options.socket.empty()) config.socket = options.socket;
  if (!options.name.empty()) config.name = options.name;
  if (!options.log_level.empty()) config.log_level = options.log_level;
  if (!options.interfaces.empty()) choose_nics(options.interfaces, config);
  if (!options.port.empty()) {
    for (NicConfig& nic : config.nics) nic.port = *port_kind(options.port);
  }
  if (config.name.empty()) config.name = own_host_name();
  if (need_nics && config.nics.empty()) {
    const std::string file =
        options.config_file.empty() ? kDefaultConfigFile : options.config_file;
    const bool missing = options.config_file.empty() && !has_default;
    throw ConfigError(file + ": " + (missing ? "does not exist" : "has no [[nic]]") +
                      ", so there is no interface to serve; name one with --interface");
  }
  return config;
}

}  // namespace viaduct
