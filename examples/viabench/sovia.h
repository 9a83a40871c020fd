// Sockets on SOVIA: a sample is this program again at each end, run by `sovia run` in a configuration.
#ifndef VIADUCT_EXAMPLES_VIABENCH_SOVIA_H
#define VIADUCT_EXAMPLES_VIABENCH_SOVIA_H

#include <string>

#include "examples/viabench/measure.h"

namespace viabench {

// Of a case on SOVIA `level` is the configuration: a name for SOVIA_CONFIG, "default", or "messages". For
// latency `others`, if it is not 0, is the window w; then t is half of it.
//
// Both replace this process by the one that measures.
[[noreturn]] void sovia_near(const Case& c, const Site& site, const std::string& where, const Reporter& report);
[[noreturn]] void sovia_far(const Case& c, const Site& site, const Reporter& report);

// Whether programs can be run on SOVIA here, by the launcher on the search path.
bool sovia_available();

// The command line of a process that runs on SOVIA for one end.
struct SoviaEnd {
  std::string encoded;  // the case; empty: this is not such a process
  std::string host, port;  // of the far end; without a port this is the far end
  int report = -1;      // the descriptor for its lines
};
// Returns the exit code.
int run_sovia_end(const SoviaEnd& end);

}  // namespace viabench

#endif
