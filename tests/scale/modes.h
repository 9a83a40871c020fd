// The modes of vipl-scale. Each function is one mode, prints its figures and returns the exit status; they throw
// std::runtime_error when a call of VIPL fails.
#ifndef VIADUCT_TESTS_SCALE_MODES_H
#define VIADUCT_TESTS_SCALE_MODES_H

#include "tests/scale/options.h"

namespace scale {

// The other side of those that take a host; ends with its first client.
int serve(const Options& options);

// Registers and deregisters memory.
int register_pairs(const Options& options);

// Connects and disconnects.
int connect_pairs(const Options& options);

// Opens, connects and ends many VIs, again and again; in the end leaves them, connected, to the
// agent.
int open_many(const Options& options);

// Latency without and with many idle VIs, in turn.
int idle_latency(const Options& options);

// Runs into every limit.
int limits(const Options& options);

}  // namespace scale

#endif
