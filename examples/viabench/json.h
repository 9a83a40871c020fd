// The results as JSON, with the figures of every round.
#ifndef VIADUCT_EXAMPLES_VIABENCH_JSON_H
#define VIADUCT_EXAMPLES_VIABENCH_JSON_H

#include <string>
#include <vector>

#include "examples/viabench/results.h"

namespace viabench {

// `papers`: names of the papers' figures to tell of as well, none for all; nullptr: no figures.
std::string json(const Results& results, const std::vector<std::string>* papers = nullptr);

}  // namespace viabench

#endif
