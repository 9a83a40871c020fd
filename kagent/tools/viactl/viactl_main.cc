// viactl: looks into the running agent. See viactl(8).
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <stdexcept>

#include "kagent/agent/config/config.h"
#include "kagent/contract/vip_codes.h"
#include "kagent/tools/viactl/agent_client.h"
#include "kagent/tools/viactl/doctor.h"
#include "kagent/tools/viactl/events.h"
#include "kagent/tools/viactl/top.h"
#include "kagent/tools/viactl/views.h"
#include "kagent/tools/viactl/words.h"
#include "xdp/descriptor.h"

namespace viaduct::tool {
namespace {

constexpr useconds_t kLookEveryUs = 100'000;
constexpr int kExitOk = 0;
constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

struct Options {
  std::string socket;
  bool json = false;
  std::string pattern;    // counters
  bool all = false;       // counters: also those that are 0
  std::string log_level;  // the level to set; "": show it
  std::uint32_t process = 0;
  std::string output;     // metrics
  bool cancel = false, wait = false;  // drain
  TopOptions top;
  EventOptions events;
};

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw std::runtime_error("can't write");
  }
}

void show(const Table& table, const Options& options, const char* none) {
  if (options.json) return print(table.json() + "\n");
  if (table.rows() == 0) return print(std::string(none) + "\n");
  print(table.text(terminal_width()));
}

void keep_process(const Options& options, Sessions& sessions) {
  if (options.process == 0) return;
  std::erase_if(sessions, [&](const report::Session& session) { return session.process != options.process; });
}

void show_status(const AgentClient& agent, const Options& options) {
  const report::Status status = agent.status();
  const Nics nics = agent.nics();
  print(options.json ? status_json(status, agent.socket_name(), nics) + "\n"
                     : status_text(status, agent.socket_name(), nics, terminal_width()));
}

void show_sessions(const AgentClient& agent, const Options& options) {
  Sessions sessions = agent.sessions();
  keep_process(options, sessions);
  show(sessions_table(sessions, agent.nics()), options, "no sessions");
}

void show_vis(const AgentClient& agent, const Options& options, bool connections) {
  const Nics nics = agent.nics();
  const Sessions sessions = agent.sessions();
  Vis vis = agent.vis(sessions, nics.size());
  std::erase_if(vis, [&](const report::Vi& vi) {
    const report::Session* const session = session_of(vi, sessions);
    const bool wanted = options.process == 0 || vi.process == options.process ||
                        (session != nullptr && session->process == options.process);
    return session == nullptr || !wanted;
  });
  if (connections) return show(connections_table(vis, sessions, nics), options, "no connections");
  show(vis_table(vis, sessions, nics), options, "no VIs");
}

void show_counters(const AgentClient& agent, const Options& options) {
  show(counters_table(parse_counters(agent.counters(), options.pattern), options.all || options.json), options,
       "none of them is above 0 (--all shows those too)");
}

// The file is written under another name and then renamed, so that it is never seen half written.
void write_metrics(const AgentClient& agent, const Options& options) {
  const std::string text = agent.counters();
  if (options.output.empty()) return print(text);
  // The folder may belong to another user: a name known in advance could be a link to a file of root's.
  std::string temporary = options.output + ".XXXXXX";
  const Descriptor file(mkostemp(temporary.data(), O_CLOEXEC));
  const bool written = file && write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       fchmod(file.get(), 0644) == 0 && std::rename(temporary.c_str(), options.output.c_str()) == 0;
  if (written) return;
  const std::string why = std::strerror(errno);
  if (file) unlink(temporary.c_str());
  throw std::runtime_error(options.output + ": " + why);
}

void show_log_level(const AgentClient& agent, const Options& options) {
  if (!options.log_level.empty()) agent.set_log_level(*log_level_of(options.log_level));
  const std::string level = log_level_word(agent.status().log_level);
  print(options.json ? "{\"log_level\": " + in_json(level) + "}\n" : level + "\n");
}

// Has the agent end when the last program has; with `wait` this returns when it has.
void drain(const AgentClient& agent, const Options& options) {
  agent.set_draining(!options.cancel);
  while (options.wait && !options.cancel) {
    try {
      agent.status();
    } catch (const std::runtime_error&) {
      break;
    }
    usleep(kLookEveryUs);
  }
  if (options.json) print(std::string("{\"draining\": ") + (options.cancel ? "false" : "true") + "}\n");
}

// Runs SOVIA's own program, which shows its sockets: viactl knows nothing of them, and SOVIA need not be installed.
// The program lies beside this one, or where the path says.
int show_sockets(const Options& options) {
  std::vector<std::string> words{"sovia", "sockets"};
  if (options.json) words.push_back("--json");
  if (options.process != 0) words.push_back(std::to_string(options.process));
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::error_code error;
  const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string beside = own.parent_path() / "sovia";
  // In the build tree there is a folder of that name.
  if (!error && !std::filesystem::is_directory(beside)) execv(beside.c_str(), arguments.data());
  execvp("sovia", arguments.data());
  throw std::runtime_error(std::string("sovia, which shows its sockets, can't be run: ") + std::strerror(errno));
}

int show_doctor(const AgentClient& agent, const Options& options) {
  const std::vector<Finding> findings = diagnose(gather(agent));
  print(options.json ? findings_json(findings) + "\n" : findings_text(findings, terminal_width()));
  const bool problems = std::any_of(findings.begin(), findings.end(),
                                    [](const Finding& finding) { return finding.severity == Severity::kProblem; });
  return problems ? kExitFailure : kExitOk;
}

std::string check_order(const std::string& value) {
  return is_top_order(value) ? "" : "\"" + value + "\" is none of frames, out, in, resent, rtt";
}

std::string check_level(const std::string& value) {
  return log_level_of(value) ? "" : "\"" + value + "\" is none of trace, debug, info, warn, error, off";
}

// A command of viactl. The command that was given is run with the agent, and returns the exit status.
struct Command {
  const CLI::App* app;
  std::function<int(const AgentClient&, Options&)> run;
};
using Commands = std::vector<Command>;

// Adds a command that fails only by an exception.
template <class Run>
void add(Commands& commands, const CLI::App* app, Run run) {
  commands.push_back({app, [run](const AgentClient& agent, Options& options) {
                        run(agent, options);
                        return kExitOk;
                      }});
}

void add_delay(CLI::App& command, double& every, double least, const char* text) {
  command.add_option("-d,--delay", every, text)->type_name("SECONDS")->check(CLI::Range(least, 3600.0));
}

// Commands that show the agent's state and counters once.
void add_views(CLI::App& app, Options& options, Commands& commands) {
  add(commands, app.add_subcommand("status", "the agent and its NICs"), show_status);
  const auto sessions = app.add_subcommand("sessions", "programs that have a NIC open");
  add(commands, sessions, show_sessions);
  const auto vis = app.add_subcommand("vis", "their VIs, connected or not");
  add(commands, vis, [](const AgentClient& agent, const Options& given) { show_vis(agent, given, false); });
  const auto connections = app.add_subcommand("connections", "connected VIs, their peers and how they fare");
  add(commands, connections, [](const AgentClient& agent, const Options& given) { show_vis(agent, given, true); });
  for (CLI::App* const each : {sessions, vis, connections}) {
    each->add_option("-p,--pid", options.process, "only what this process has")->type_name("PID");
  }
  const auto counters = app.add_subcommand("counters", "what the agent has counted");
  add(commands, counters, show_counters);
  counters->add_option("pattern", options.pattern, "only those with this in their name")->type_name("PATTERN");
  counters->add_flag("-a,--all", options.all, "those that are 0 too");
  const auto metrics = app.add_subcommand("metrics", "the counters in the text format of Prometheus");
  add(commands, metrics, write_metrics);
  metrics->add_option("-o,--output", options.output, "write them to this file")->type_name("FILE");
}

// Commands that show events and figures as they come.
void add_watches(CLI::App& app, Options& options, Commands& commands) {
  const auto top = app.add_subcommand("top", "the connections that move most, again and again");
  add(commands, top, [](const AgentClient& agent, const Options& given) { run_top(agent, given.top); });
  top->add_option("-o,--sort", options.top.sort, "by frames, out, in, resent or rtt (default: frames)")
      ->type_name("WHAT")
      ->check(check_order);
  add_delay(*top, options.top.every, 0.1, "seconds between two looks (default: 1)");
  top->add_option("-n,--iterations", options.top.times, "how often (default: until interrupted)")->type_name("N");
  const auto events = app.add_subcommand("events", "sessions, connections, losses and refusals, as they happen");
  add(commands, events, [](const AgentClient& agent, const Options& given) { run_events(agent, given.events); });
  events->add_option("-p,--pid", options.events.process, "only what this process does")->type_name("PID");
  const auto trace = app.add_subcommand("trace", "what a program asks for, with the results, as it happens");
  add(commands, trace, [](const AgentClient& agent, const Options& given) { run_trace(agent, given.events); });
  trace->add_option("pid", options.events.process, "its process")->type_name("PID")->required();
  for (CLI::App* const each : {events, trace}) {
    each->add_flag("-a,--all", options.events.kept, "begin with what the agent still has");
    each->add_flag("-1,--once", options.events.once, "show what the agent still has, and end");
    add_delay(*each, options.events.every, 0.01, "seconds between two looks (default: 0.1)");
  }
}

// Commands that advise, or change the agent. `sockets` is there for the help: it needs no agent.
void add_care(CLI::App& app, Options& options, Commands& commands) {
  commands.push_back({app.add_subcommand("doctor", "what is wrong, and how to mend it"), show_doctor});
  const auto log_level = app.add_subcommand("log-level", "how much the agent logs; with LEVEL: sets it");
  add(commands, log_level, show_log_level);
  log_level->add_option("level", options.log_level, "trace, debug, info, warn, error or off")
      ->type_name("LEVEL")
      ->check(check_level);
  app.add_subcommand("sockets", "SOVIA's sockets, and why each has no lane that has none")
      ->add_option("-p,--pid", options.process, "only what this process has")
      ->type_name("PID");
  const auto drain_agent = app.add_subcommand("drain", "no new programs and connections; the agent ends with the last");
  add(commands, drain_agent, drain);
  drain_agent->add_flag("-w,--wait", options.wait, "wait until the agent has ended");
  drain_agent->add_flag("-c,--cancel", options.cancel, "go on as before");
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Looks into the running agent of Viaduct.", "viactl");
  app.set_version_flag("--version", "viactl (viaduct) " PACKAGE_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("-s,--socket", options.socket, "where the agent is (default: as programs look for it)")
      ->type_name("PATH|@NAME")
      ->check([](const std::string& value) { return check_socket_name(value).value_or(""); });
  app.add_flag("-j,--json", options.json, "print JSON");
  app.footer("Examples:\n  viactl status\n  viactl connections --json\n  viactl top --sort rtt\n"
             "  viactl counters drop\n  viactl events --all\n  sudo viactl log-level debug");
  Commands commands;
  add_views(app, options, commands);
  add_watches(app, options, commands);
  add_care(app, options, commands);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::cerr << "viactl: " << error.what() << "\nTry 'viactl --help'.\n";
    return kExitUsage;
  }
  if (app.got_subcommand("sockets")) return show_sockets(options);
  options.events.json = options.top.json = options.json;
  const AgentClient agent(find_socket(options.socket));
  for (const Command& command : commands) {
    if (command.app->parsed()) return command.run(agent, options);
  }
  return kExitOk;
}

}  // namespace
}  // namespace viaduct::tool

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_DFL);
  try {
    return viaduct::tool::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "viactl: " << error.what() << "\n";
  } catch (...) {
    std::cerr << "viactl: unknown failure\n";
  }
  return viaduct::tool::kExitFailure;
}
