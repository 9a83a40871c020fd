// Which part of the program measures a case.
#ifndef VIADUCT_EXAMPLES_VIABENCH_SAMPLES_H
#define VIADUCT_EXAMPLES_VIABENCH_SAMPLES_H

#include <string>

#include "examples/viabench/measure.h"

namespace viabench {

// One sample, in a process of its own at each end. The far end says where it waits; the near end is
// told, and begins.
void near_sample(const Case& c, const Site& site, const std::string& where, const Reporter& report);
void far_sample(const Case& c, const Site& site, const Reporter& report);

}  // namespace viabench

#endif
