// The measurements: for each case, the figures of all rounds.
#ifndef VIADUCT_EXAMPLES_VIABENCH_RESULTS_H
#define VIADUCT_EXAMPLES_VIABENCH_RESULTS_H

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "examples/viabench/case.h"

namespace viabench {

using Figures = std::map<std::string, double>;

struct Summary {
  double median, q1, q3, min, max;
  std::size_t rounds;
};

struct Result {
  Case of;
  std::map<std::string, std::vector<double>> figures;
  std::vector<std::string> failures;  // one for each round that failed

  void add(const Figures& sample);
  // Of the figure that the case is about, or of another. Nothing when it was never measured.
  std::optional<Summary> summary(const std::string& figure = "") const;
};

struct Results {
  std::uint32_t mtu = 0;
  std::uint32_t rounds = 0;  // whole ones
  std::string hosts;         // where it was measured
  std::vector<std::string> notes;
  std::vector<Result> all;

  // The best of the cases whose identities are listed, separated by commas; one that ends in "/"
  // stands for all that begin so. NULL when none was measured.
  const Result* best(const std::string& identities, const std::string& figure = "") const;
};

}  // namespace viabench

#endif
