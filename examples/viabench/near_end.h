// The near end: has all cases measured, round by round.
#ifndef VIADUCT_EXAMPLES_VIABENCH_NEAR_END_H
#define VIADUCT_EXAMPLES_VIABENCH_NEAR_END_H

#include "examples/viabench/options.h"
#include "examples/viabench/results.h"

namespace viabench {

// Throws Failure when nothing can be measured. When the program is stopped, or the time of a quick
// run is over, it returns what there is.
Results measure(Options options);

}  // namespace viabench

#endif
