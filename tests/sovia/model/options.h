// Options: the command line of sovia-model.
#ifndef SOVIA_MODEL_OPTIONS_H
#define SOVIA_MODEL_OPTIONS_H

#include <cstdint>
#include <string>

namespace model {

struct Options {
  std::uint64_t first = 1, last = 1;
  int jobs = 2;
  bool verbose = false, shrinks = true, kills = true;
  std::string kept;                 // operations of a shrunk program
  std::uint32_t most_bytes = 1u << 20;
  int patience_ms = 10'000;
  int most_findings = 3;
  int least_lanes = 0;              // percent of the connections that a warm-up waited for
  int seconds = 0;                  // 0: no limit
  std::string directory = ".", host[2], launcher, address = "10.77.0.2", output, commit;
  int port = 7000;
};

// Ends the program where it is wrong.
Options parse(int argc, char** argv);

}  // namespace model

#endif
