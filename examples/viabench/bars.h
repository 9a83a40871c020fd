// What Viaduct is to reach, and whether it does.
#ifndef VIADUCT_EXAMPLES_VIABENCH_BARS_H
#define VIADUCT_EXAMPLES_VIABENCH_BARS_H

#include <optional>
#include <string>
#include <vector>

#include "examples/viabench/results.h"

namespace viabench {

struct Verdict {
  const char* text;          // what is measured, and against what
  bool at_most;              // else: at least
  double limit;              // a ratio, or bytes
  std::optional<double> is;  // nothing: not measured
  bool met() const { return is && (at_most ? *is <= limit : *is >= limit); }
  const char* word() const { return !is ? "not measured" : met() ? "met" : "missed"; }
};

std::vector<Verdict> judge(const Results& results);

}  // namespace viabench

#endif
