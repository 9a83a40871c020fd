#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <CLI/CLI.hpp>
#include <algorithm>

#include "examples/viabench/options.h"
#include "examples/viabench/paper_figures.h"

namespace viabench {

bool Options::wants(const std::string& what) const {
  return only.empty() || std::find(only.begin(), only.end(), what) != only.end();
}

int parse(int argc, char** argv, Options& options) {
  CLI::App app{
      "Measures VIA, kernel TCP and raw AF_XDP side by side, in hosts that it makes itself, or\n"
      "between two hosts: `viabench --server' on one, then `viabench --peer HOST' on the other.",
      "viabench"};
  auto* const server = app.add_flag("--server", options.server, "be the other host's far end");
  app.add_option("--peer", options.peer, "measure between this host and HOST")->type_name("HOST");
  app.add_option("--port", options.port, "TCP port of the server")->capture_default_str();
  app.add_option("--interface", options.interface,
                 "interface that leads to the other host, for raw AF_XDP")
      ->type_name("NAME");
  app.add_option("--device", options.site.device, "NIC to open")
      ->default_val("nic0")
      ->type_name("NAME");
  auto* const mtu = app.add_option("--mtu", options.mtu, "MTU of the hosts' link")
                        ->check(CLI::Range(1500u, 9000u))
                        ->capture_default_str();
  auto* const ports = app.add_option("--switch", options.switch_ports,
                                     "join the hosts by a switch with ports of this rate: 1g, or 1g,queue=600k")
                          ->type_name("RATE[,queue=BYTES]");
  app.add_option("--config", options.config, "configuration of the agents of hosts that are made")
      ->type_name("FILE")
      ->check(CLI::ExistingFile);
  auto* const rounds = app.add_option("--rounds", options.rounds, "rounds (default 9; papers: 5; quick: 3)")
                           ->check(CLI::Range(1u, 1000u));
  app.add_flag("--quick", options.quick, "fewer cases, and an end within a minute");
  app.add_option("--fraction", options.fraction, "measure only this part of the messages")
      ->check(CLI::Range(0.001, 1.0));
  app.add_flag("--share-processors", options.share,
               "let both hosts that are made run on all processors, not each on half of them");
  app.add_option("--only", options.only, "measure only these, separated by commas")
      ->delimiter(',')
      ->type_name("WHAT")
      ->check(CLI::IsMember(
          {"latency", "bandwidth", "rate", "connect", "register", "idle", "senders", "memory"}));
  app.add_option("--json", options.json, "write all results there")->type_name("FILE");
  app.add_option("--markdown", options.markdown, "write the tables there")->type_name("FILE");
  app.add_option("--plots", options.plots, "write plots, SVG and PNG, there (needs gnuplot)")
      ->type_name("DIRECTORY");
  auto* const papers = app.add_subcommand("papers", "make the figures of the papers again");
  papers->fallthrough();
  papers->add_option("--figures", options.figures, "only these, separated by commas")
      ->delimiter(',')
      ->type_name("NAME")
      ->check(CLI::IsMember(paper_figure_names()));
  // How the program calls itself on SOVIA.
  app.add_option("--sovia-case", options.sovia_end.encoded)->group("");
  app.add_option("--sovia-host", options.sovia_end.host)->group("");
  app.add_option("--sovia-port", options.sovia_end.port)->group("");
  app.add_option("--sovia-report", options.sovia_end.report)->group("");
  // ... and within hosts that it has made.
  app.add_option("--plain-netns", options.site.plain_netns)->group("");
  app.add_option("--half", options.half)->group("");
  app.add_option("--raw", options.site.raw)->group("");
  app.add_option("--tcp-link", options.site.tcp_link)->group("");
  app.footer("Examples:\n  sudo viabench --quick\n  sudo viabench --json results.json --plots plots\n"
             "  viabench --server                      on one host, then on the other:\n"
             "  viabench --peer hostb --only bandwidth,rate");
#ifdef PACKAGE_VERSION
  app.set_version_flag("--version", "viabench " PACKAGE_VERSION);
#endif
  try {
    app.parse(argc, argv);
    if (server->count() > 0 && !options.peer.empty()) {
      throw CLI::ExcludesError("--server", "--peer");
    }
    options.papers = papers->parsed();
    if (options.papers && !options.only.empty()) throw CLI::ExcludesError("papers", "--only");
    const bool inside = !options.site.plain_netns.empty();
    if ((options.server || !options.peer.empty()) && !inside && mtu->count() > 0) {
      throw CLI::ExcludesError("--mtu", "--server and --peer: it is as it is there");
    }
    if ((options.server || !options.peer.empty()) && !inside && ports->count() > 0) {
      throw CLI::ExcludesError("--switch", "--server and --peer: the hosts are joined already");
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (options.papers && rounds->count() == 0) options.rounds = 5;
  if (options.quick && rounds->count() == 0) options.rounds = 3;
  return -1;
}

}  // namespace viabench
