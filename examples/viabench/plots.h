// The results as pictures, made by gnuplot.
#ifndef VIADUCT_EXAMPLES_VIABENCH_PLOTS_H
#define VIADUCT_EXAMPLES_VIABENCH_PLOTS_H

#include <string>

#include "examples/viabench/results.h"

namespace viabench {

// Into a directory, which is made. Throws Failure that tells what is missing.
void write_plots(const Results& results, const std::string& directory);

}  // namespace viabench

#endif
