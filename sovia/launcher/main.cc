// sovia: runs programs over VIA, and tells about them. See sovia(1).
#include "config.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "sovia/launcher/explain.h"
#include "sovia/launcher/preload_library.h"
#include "sovia/launcher/sockets.h"
#include "sovia/launcher/stat.h"
#include "sovia/process/options.h"

namespace viaduct::sovia::launcher {
namespace {

// Exit codes as shells have them.
constexpr int kNotRun = 126;
constexpr int kNotFound = 127;

struct RunRequest {
  std::map<std::string, std::string> settings;  // variable, value
  std::string debug;
  std::vector<std::string> command;
};

// SOVIA_UPGRADE_AFTER is --upgrade-after.
std::string flag_of(const char* variable) {
  std::string flag = "--";
  for (const char* at = variable + std::strlen("SOVIA_"); *at != '\0'; ++at) {
    flag += *at == '_' ? '-' : static_cast<char>(std::tolower(*at));
  }
  return flag;
}

void add_run(CLI::App& app, RunRequest& request) {
  CLI::App* const run = app.add_subcommand(
      "run",
      "Run a program whose TCP connections may use VIA: run [OPTIONS] PROGRAM [ARGUMENT...]");
  const auto add = [&](const char* variable, const std::string& text) {
    run->add_option_function<std::string>(
        flag_of(variable),
        [&request, variable](const std::string& value) { request.settings[variable] = value; },
        text);
  };
#define SOVIA_OPTION(member, variable, value, least, most, unit, text) \
  add(variable, std::string(text) + " (" + std::to_string(std::uint64_t{value}) + ")");
  SOVIA_OPTIONS(SOVIA_OPTION)
#undef SOVIA_OPTION
  add("SOVIA_CONFIG",
      "a row of the paper's table 4: NOTIFY HANDLER SINGLE REG COPY HYBRID BASE FLOWCNTL DACKS "
      "COMBINE; of other papers: DS DS_DA BCOPY ZCOPY");
  add("SOVIA_DEBUG", "1: tell on stderr what becomes of connections; FILE: append it there");
}

// All words after the program's name belong to it, even options: `sovia run ls --version`. Each option of run has a
// value. Returns where the program stands.
int split_command(int count, char** words, RunRequest& request) {
  if (count < 2 || std::strcmp(words[1], "run") != 0) return count;
  int at = 2;
  while (at < count && words[at][0] == '-') {
    const std::string word = words[at++];
    if (word == "--") break;
    const bool has_value = word.find('=') != std::string::npos || word == "--help" || word == "-h";
    if (!has_value) ++at;
  }
  const int end = at < count ? at : count;
  request.command.assign(words + end, words + count);
  return end;
}

// Puts the library before those that the user already preloads: the first one's symbols win.
void preload(const std::string& library) {
  const char* const others = std::getenv("LD_PRELOAD");
  std::string all = library;
  const std::string given = others != nullptr ? others : "";
  if (!given.empty() && given.find(library) == std::string::npos) all += ":" + given;
  setenv("LD_PRELOAD", all.c_str(), 1);
}

// AddressSanitizer's shared library refuses to run if another library was loaded before it. It need not be the first:
// the preload library's calls by the C library's names reach the sanitizer then. This is set by a variable, as the
// program may be a script that runs the sanitized program.
void let_sanitizer_be_second() {
  const char* const given = std::getenv("ASAN_OPTIONS");
  std::string all = "verify_asan_link_order=0";
  if (given != nullptr && *given != '\0') all += std::string(":") + given;  // later settings override
  setenv("ASAN_OPTIONS", all.c_str(), 1);
}

int run(const RunRequest& request) {
  preload(preload_library());
  let_sanitizer_be_second();
  for (const auto& [variable, value] : request.settings) {
    setenv(variable.c_str(), value.c_str(), 1);
  }
  std::vector<char*> arguments;
  for (const std::string& word : request.command) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  std::cerr << "sovia: cannot run " << arguments[0] << ": " << std::strerror(error) << "\n";
  return error == ENOENT ? kNotFound : kNotRun;
}

int main(int count, char** words) {
  CLI::App app("Sockets over VIA");
  app.set_version_flag("--version", "sovia " PACKAGE_VERSION);
  app.require_subcommand(1);
  app.footer("Examples:\n  sovia explain curl\n  sovia run curl http://hostb/\n  sovia run --stats 1 redis-cli -h hostb ping\n"
             "  sovia stat --json");

  RunRequest run_request;
  add_run(app, run_request);

  std::string program;
  CLI::App* const explaining =
      app.add_subcommand("explain", "Tell where a program's calls would go");
  explaining->add_option("program", program, "A program, or a path to one")->required();

  StatRequest stat_request;
  bool json = false;
  bool prometheus = false;
  CLI::App* const stat = app.add_subcommand("stat", "Show the counters of running programs");
  stat->add_option("pid", stat_request.processes, "Processes (all)");
  stat->add_flag("--json", json, "As JSON");
  stat->add_flag("--prometheus", prometheus, "In Prometheus' text format")->excludes("--json");
  stat->add_flag("--all", stat_request.zeros, "Counters that are 0, too");

  SocketsRequest sockets_request;
  CLI::App* const sockets =
      app.add_subcommand("sockets", "Show the sockets of running programs, and why each has no lane that has none");
  sockets->add_option("pid", sockets_request.processes, "Processes (all)");
  sockets->add_flag("--json", sockets_request.json, "As JSON");

  CLI11_PARSE(app, split_command(count, words, run_request), words);
  try {
    if (app.got_subcommand("run")) {
      if (run_request.command.empty()) throw std::runtime_error("run: no program is named; usage: sovia run [OPTIONS] PROGRAM [ARGUMENT...]");
      return run(run_request);
    }
    if (app.got_subcommand(explaining)) return explain(program, std::cout);
    if (app.got_subcommand(sockets)) return show_sockets(sockets_request, std::cout);
    stat_request.format = json         ? StatFormat::kJson
                          : prometheus ? StatFormat::kPrometheus
                                       : StatFormat::kTable;
    return show_counters(stat_request, std::cout);
  } catch (const std::exception& error) {
    std::cerr << "sovia: " << error.what() << "\n";
    return kNotFound;
  }
}

}  // namespace
}  // namespace viaduct::sovia::launcher

int main(int count, char** words) { return viaduct::sovia::launcher::main(count, words); }
