// viaping: how long a message takes and how much goes through, between two hosts.
//
//   latency     client --- message n ---> server          client measures the round trip; one way
//               client <-- message n ---- server          is half of it
//
//   bandwidth   client === messages ====> server          VIA has no flow control: the client sends
//               client <-- credit -------- server         no more than the server has receives for;
//               client --- end ----------> server         a credit says which message is next
//               client <-- report -------- server         the server has measured and counted
//
//   With --op write the messages are RDMA writes with immediate data, in the latency measurement both
//   ways; with --op read the client reads them out of the server's memory and measures itself.
//
// Message n carries n as immediate data and, as its bytes, a stretch of a fixed pattern that begins at a place that
// depends on n. The receiver of a message compares all of it.
//
// The client states its wish in its discriminator (struct Wish), so the server need not be told anything else, and
// serves each client in a thread of its own.
//
// Uses nothing of VIA but vipl.h.
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>

#include "examples/viaping/client.h"
#include "examples/viaping/messages.h"
#include "examples/viaping/server.h"

namespace viaping {
namespace {

void stop(int) { stopped = true; }

// The exit code to end with, or -1 to go on.
int parse(int argc, char** argv, Options& options) {
  CLI::App app{
      "Measures the one-way time of messages, or the bandwidth, between two hosts over VIA.\n"
      "Start `viaping --server' on one host, then `viaping HOST' on the other.",
      "viaping"};
  auto* const host =
      app.add_option("HOST", options.host, "host name, IP address or MAC address of the server");
  app.add_flag("--server", options.server, "serve clients until interrupted");
  auto* const size = app.add_option("--size", options.size,
                                    "bytes of a message (default 4; 32768 with --bandwidth)")
                         ->check(CLI::Range(0u, kMaxSize));
  auto* const count = app.add_option("--count", options.count, "messages to measure")
                          ->check(CLI::Range(1u, 100000000u))
                          ->capture_default_str();
  auto* const interval = app.add_option("--interval", options.interval_ms,
                                        "milliseconds from the end of a message to the next one")
                             ->check(CLI::Range(0u, 3600000u))
                             ->capture_default_str();
  auto* const reliability = app.add_option("--reliability", options.reliability,
                                           "ud: unreliable delivery, rd: reliable delivery, "
                                           "rr: reliable reception")
                                ->check(CLI::IsMember({"ud", "rd", "rr"}))
                                ->capture_default_str();
  auto* const wait =
      app.add_option("--wait", options.wait,
                     "poll: ask again and again, block: sleep until something happens")
          ->check(CLI::IsMember({"poll", "block"}))
          ->capture_default_str();
  auto* const bandwidth = app.add_flag("--bandwidth", options.bandwidth,
                                       "stream one way and measure Mb/s and messages/s");
  bandwidth->excludes(interval);
  auto* const operation =
      app.add_option("--op", options.operation,
                     "send messages, write them into the other side's memory (RDMA), or read them "
                     "out of the server's")
          ->check(CLI::IsMember({"send", "write", "read"}))
          ->capture_default_str();
  auto* const json = app.add_flag("--json", options.json, "print one JSON object");
  app.add_option("--device", options.device, "NIC to open")->capture_default_str();
  app.footer("Examples:\n  viaping --server\n  viaping hostb\n  viaping hostb --bandwidth --wait block\n"
             "  viaping hostb --size 1024 --op write --json");
#ifdef PACKAGE_VERSION
  app.set_version_flag("--version", "viaping " PACKAGE_VERSION);
#endif
  try {
    app.parse(argc, argv);
    if (!options.server && options.host.empty()) {
      throw CLI::RequiredError("HOST, or --server,");
    }
    for (const CLI::Option* o : {host, size, count, interval, reliability, wait, bandwidth, operation, json}) {
      if (options.server && o->count() > 0) throw CLI::ExcludesError("--server", o->get_name());
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  options.size_given = size->count() > 0;
  return -1;
}

int run(int argc, char** argv) {
  Options options;
  if (const int code = parse(argc, argv, options); code >= 0) return code;

  struct sigaction action = {};
  action.sa_handler = stop;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);

  try {
    Nic nic(options.device);
    if (options.server) {
      run_server(nic);
    } else {
      run_client(nic, options);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "viaping: %s\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace viaping

int main(int argc, char** argv) { return viaping::run(argc, argv); }
