// The papers' figures beside what was measured: as tables, and for gnuplot.
#ifndef VIADUCT_EXAMPLES_VIABENCH_PAPER_TABLES_H
#define VIADUCT_EXAMPLES_VIABENCH_PAPER_TABLES_H

#include <string>
#include <vector>

#include "examples/viabench/results.h"
#include "examples/viabench/table.h"

namespace viabench {

// `names` of figures: none: all that were measured.
using Names = std::vector<std::string>;
std::string paper_tables(const Results& results, const Names& names, Style style);

// Of each figure NAME.dat, NAME.gp, and, if there is gnuplot, NAME.svg and NAME.png. Throws Failure.
void write_paper_plots(const Results& results, const Names& names, const std::string& directory);

}  // namespace viabench

#endif
