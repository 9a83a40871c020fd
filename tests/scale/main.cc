// vipl-scale: what many operations and many objects cost. Knows nothing but vipl.h.
#include <malloc.h>

#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>

#include "tests/scale/modes.h"

int main(int argc, char** argv) {
  using namespace scale;
  // Each thread's own arena would look like growth.
  mallopt(M_ARENA_MAX, 1);
  Options options;
  int (*run)(const Options&) = nullptr;
  CLI::App app("What many operations and many objects cost, over VIPL.");
  app.require_subcommand(1);
  app.add_option("--device", options.device, "NIC to open")->capture_default_str();
  const auto mode = [&](const char* name, const char* text, int (*function)(const Options&)) {
    CLI::App* const sub = app.add_subcommand(name, text);
    sub->callback([&run, function] { run = function; });
    return sub;
  };
  const auto host = [&](CLI::App* sub) {
    sub->add_option("host", options.host, "where the server is")->required();
  };
  const auto nics = [&](CLI::App* sub) {
    sub->add_option("--nics", options.nics, "handles of the NIC that VIs are opened on")
        ->check(CLI::Range(1, 32));
  };
  const auto series = [&](CLI::App* sub) {
    sub->add_option("--count", options.count, "how many");
    sub->add_option("--allowed", options.allowed_kib, "KiB that memory may grow by")
        ->capture_default_str();
    sub->add_option("--watch", options.watch, "processes that count too")->delimiter(',');
  };

  mode("serve", "be the other side", serve);
  mode("limits", "run into each limit that the NIC states", limits);

  CLI::App* sub = mode("register", "register and deregister memory", register_pairs);
  series(sub);
  sub->add_option("--live", options.live, "regions that are registered beside");

  sub = mode("connect", "connect and disconnect", connect_pairs);
  host(sub);
  series(sub);
  sub->add_option("--threads", options.threads, "that do so at once")->check(CLI::Range(1, 64));

  sub = mode("vis", "open and close many VIs", open_many);
  host(sub);
  series(sub);
  nics(sub);

  sub = mode("idle-latency", "latency beside many idle VIs", idle_latency);
  host(sub);
  nics(sub);
  sub->add_option("--count", options.count, "idle VIs");
  sub->add_option("--rounds", options.rounds, "of measurements")->capture_default_str();
  sub->add_option("--messages", options.messages, "in a measurement")->capture_default_str();

  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "vipl-scale: %s\n", error.what());
    return 1;
  }
}
