// Viaduct's performance targets, and whether it meets them.
#ifndef VIADUCT_EXAMPLES_VIABENCH_BARS_H
#define VIADUCT_EXAMPLES_VIABENCH_BARS_H

#include <optional>
#include <string>
#include <vector>

#include "examples/viabench/results.h"

namespace viabench {

struct Verdict {
  const char* text;          // the measurement and its reference
  bool at_most;              // else: at least
  double limit;              // a ratio, or bytes
  std::optional<double> is;  // nothing: not measured
  bool met() const { return is && (at_most ? *is <= limit : *is >= limit); }
  const char* word() const { return !is ? "not measured" : met() ? "met" : "missed"; }
};

std::vector<Verdict> judge(const Results& results);

}  // namespace viabench

#endif
