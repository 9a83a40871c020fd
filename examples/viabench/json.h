// The results as JSON, with the figures of every round.
#ifndef VIADUCT_EXAMPLES_VIABENCH_JSON_H
#define VIADUCT_EXAMPLES_VIABENCH_JSON_H

#include <string>

#include "examples/viabench/results.h"

namespace viabench {

std::string json(const Results& results);

}  // namespace viabench

#endif
