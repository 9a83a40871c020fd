// Measuring in hosts of the program's own: two labs, one with agents and one with a plain link.
#ifndef VIADUCT_EXAMPLES_VIABENCH_LAB_RUN_H
#define VIADUCT_EXAMPLES_VIABENCH_LAB_RUN_H

#include "examples/viabench/options.h"

namespace viabench {

// Makes the hosts, runs this program again in them, as server and as near end with the same
// arguments, and takes the hosts down, however this ends. Returns the near end's status.
int run_in_lab(const Options& options, int argc, char** argv);

}  // namespace viabench

#endif
