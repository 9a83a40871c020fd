// Which cases there are.
#ifndef VIADUCT_EXAMPLES_VIABENCH_PLAN_H
#define VIADUCT_EXAMPLES_VIABENCH_PLAN_H

#include <vector>

#include "examples/viabench/case.h"
#include "examples/viabench/options.h"

namespace viabench {

struct Available {
  bool raw = false;
  bool offload = false;  // can be switched
  bool granted = false;
  bool sovia = false, lanevi = false;  // asked for the papers' figures alone
};

std::vector<Case> make_plan(const Options& options, const Available& available);

}  // namespace viabench

#endif
