// viad: the agent of Viaduct. See viad(8).
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>

#include "kagent/agent/control/ask_agent.h"
#include "kagent/agent/control/counters_client.h"
#include "kagent/agent/process/log.h"
#include "kagent/agent/config/options.h"
#include "kagent/agent/process/pid_file.h"
#include "kagent/agent/process/privileges.h"
#include "kagent/agent/service/service.h"
#include "kagent/contract/slice.h"
#include "kagent/agent/process/supervisor.h"
#include "xdp/bpf/xdp_attachment.h"

namespace viaduct {
namespace {

// Signals come as events of the loop; blocked from the start, so that none is lost.
Descriptor take_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) sigaddset(&signals, number);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return Descriptor(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

void on_signal(int fd, Service& service) {
  signalfd_siginfo info{};
  while (read(fd, &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGHUP) {
      log::reopen();
      continue;
    }
    const bool hands_over = info.ssi_signo == SIGUSR1;
    log::info("stopping on a signal ({}){}", strsignal(static_cast<int>(info.ssi_signo)),
              hands_over ? "; programs with ports of their own continue" : "");
    notify_supervisor("STOPPING=1");
    if (hands_over) {
      service.hand_over();
    } else {
      service.stop();
    }
  }
}

bool only_pcap(const Config& config) {
  return std::all_of(config.nics.begin(), config.nics.end(),
                     [](const NicConfig& nic) { return nic.port == PortKind::kPcap; });
}

void check_privileges(const Config& config) {
  const std::string missing = missing_capabilities(only_pcap(config));
  if (!missing.empty()) throw std::runtime_error(missing);
  raise_limits();
}

int serve(const Options& options, const Config& config) {
  Readiness readiness;
  if (options.daemon) readiness = go_to_background();
  const Descriptor signals = take_signals();
  bool logging = false;
  try {
    const log::Target target = !options.log_file.empty() ? log::Target::kFile
                               : options.daemon          ? log::Target::kSyslog
                                                         : log::Target::kStandardError;
    log::open(target, options.log_file, config.log_level);
    logging = true;
    std::unique_ptr<PidFile> pid_file;
    if (!options.pid_file.empty()) pid_file = std::make_unique<PidFile>(options.pid_file);
    check_privileges(config);
    shorten_slice(0);
    Service service(config);
    service.loop().add(signals.get(), EPOLLIN, [&](std::uint32_t) {
      on_signal(signals.get(), service);
    });
    service.start();
    log::info("privileges: {}",
              drop_privileges(only_pcap(config), XdpAttachment::dispatcher_in_use()));
    log::info("ready: {}", service.description());
    readiness.ready();
    notify_supervisor("READY=1");
    service.run([&] {
      pid_file.reset();
      log::info("stopped");
    });
    return kExitOk;
  } catch (const std::exception& error) {
    if (logging) {
      log::critical("{}", error.what());
    } else {
      std::cerr << "viad: " << error.what() << "\n";
    }
    readiness.failed(error.what());
    return kExitFailure;
  }
}

int print_counters(const std::string& socket_name) {
  const std::string text = fetch_counters(socket_name.empty() ? default_agent_socket() : socket_name);
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
                       std::fflush(stdout) == 0;
  return written ? kExitOk : kExitFailure;
}

int run(int argc, char** argv) {
  int exit_code = kExitOk;
  const auto options = parse_options(argc, argv, exit_code);
  if (!options) return exit_code;
  Config config;
  try {
    // To print the counters the socket's name is enough; no configuration is read.
    if (options->counters && !options->socket.empty()) return print_counters(options->socket);
    config = make_config(*options, !options->counters);
  } catch (const ConfigError& error) {
    std::cerr << error.what() << "\n";
    return kExitUsage;
  }
  if (options->counters) return print_counters(config.socket);
  if (options->check_config) {
    std::cout << "the configuration is good\n";
    return kExitOk;
  }
  return serve(*options, config);
}

}  // namespace
}  // namespace viaduct

int main(int argc, char** argv) {
  try {
    return viaduct::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "viad: " << error.what() << "\n";
  } catch (...) {
    std::cerr << "viad: unknown failure\n";
  }
  return viaduct::kExitFailure;
}
