// The far end: does its part of each sample that the near end asks for.
#ifndef VIADUCT_EXAMPLES_VIABENCH_SERVER_H
#define VIADUCT_EXAMPLES_VIABENCH_SERVER_H

#include "examples/viabench/options.h"

namespace viabench {

inline constexpr char kGreeting[] = "viabench 1";  // with the version of what is said

// Until the program is stopped.
void run_server(const Options& options);

}  // namespace viabench

#endif
