// The command line's options.
#ifndef VIADUCT_EXAMPLES_VIABENCH_OPTIONS_H
#define VIADUCT_EXAMPLES_VIABENCH_OPTIONS_H

#include <cstdint>
#include <string>
#include <vector>

#include "examples/viabench/measure.h"
#include "examples/viabench/sovia.h"

namespace viabench {

inline constexpr std::uint16_t kPort = 7778;

struct Options {
  bool server = false;
  std::string peer;
  std::uint16_t port = kPort;
  std::string interface;     // for raw AF_XDP; empty: that is not measured
  std::uint32_t mtu = 1500;  // of hosts that are made; between others it is found out
  std::string switch_ports;  // their rate, of a switch that joins hosts that are made; empty: a link without a limit
  std::string config;        // of the agents of hosts that are made
  std::uint32_t rounds = 9;
  bool quick = false;
  double fraction = 1;  // of the messages
  bool share = false;   // processors, between hosts that are made
  int half = -1;        // of the processors that this end keeps to; -1: all
  bool papers = false;  // the papers' figures, not Viaduct's own
  std::vector<std::string> figures;  // of these; empty: all
  SoviaEnd sovia_end;
  std::vector<std::string> only;
  std::string json, plots, markdown;
  Site site;

  bool wants(const std::string& what) const;
};

// The exit code to end with, or -1 to go on.
int parse(int argc, char** argv, Options& options);

}  // namespace viabench

#endif
