// Which cases the papers' figures are made of, and where in the results each of their points is.
#ifndef VIADUCT_EXAMPLES_VIABENCH_PAPERS_H
#define VIADUCT_EXAMPLES_VIABENCH_PAPERS_H

#include <optional>
#include <vector>

#include "examples/viabench/paper_figures.h"
#include "examples/viabench/plan.h"
#include "examples/viabench/results.h"

namespace viabench {

// `names`: as of --figures; none: all.
bool is_wanted(const std::vector<std::string>& names, const PaperFigure& figure);

// Each once, however many figures it is in.
std::vector<Case> plan_papers(const Options& options, const Available& available);

// Where on the figure's axis some row of it was measured, in order.
std::vector<std::uint32_t> points_of(const Results& results, const PaperFigure& figure);

// Nothing: it was not measured.
std::optional<Summary> point_of(const Results& results, const PaperFigure& figure, const PaperRow& row,
                                std::uint32_t point);

// us, Mb/s or % of a processor.
const char* unit_of(const PaperFigure& figure);

}  // namespace viabench

#endif
