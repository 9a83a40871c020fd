// The results as tables: for people, as Markdown.
#ifndef VIADUCT_EXAMPLES_VIABENCH_TABLES_H
#define VIADUCT_EXAMPLES_VIABENCH_TABLES_H

#include <string>

#include "examples/viabench/results.h"
#include "examples/viabench/table.h"

namespace viabench {

// All tables, and the list of targets.
std::string tables(const Results& results, Style style);

// "VIA granted, polling, Reliable Delivery": how a case is measured.
std::string method(const Case& c);

}  // namespace viabench

#endif
