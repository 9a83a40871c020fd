// TCP through LANEVI: for a sample each end runs a lanevid(8), and kernel TCP over its interface.
#ifndef VIADUCT_EXAMPLES_VIABENCH_LANEVI_H
#define VIADUCT_EXAMPLES_VIABENCH_LANEVI_H

#include <string>

#include "examples/viabench/measure.h"

namespace viabench {

void lanevi_near(const Case& c, const Site& site, const std::string& where, const Reporter& report);
void lanevi_far(const Case& c, const Site& site, const Reporter& report);

// Whether there is a `lanevid' on the search path, and the right to make its interface.
bool lanevi_available();

}  // namespace viabench

#endif
