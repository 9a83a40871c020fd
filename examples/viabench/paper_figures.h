// The papers' tables and figures that can be made again here: which systems each compares, and what it says of them.
#ifndef VIADUCT_EXAMPLES_VIABENCH_PAPER_FIGURES_H
#define VIADUCT_EXAMPLES_VIABENCH_PAPER_FIGURES_H

#include <cstdint>
#include <string>
#include <vector>

namespace viabench {

// The x axis of a figure.
enum class Axis {
  kSize,         // of messages
  kOneSize,      // 4 bytes alone
  kConnections,  // with messages of 16 KB
};

// One line of a figure. Figures of the paper are those at the left and the right end, in its own unit; 0: it does not
// tell them in numbers.
struct PaperRow {
  const char* name;       // as the paper calls it
  const char* transport;  // as in Case; via: VIPL, whatever its placement
  const char* wait;
  const char* level;
  std::uint32_t others;
  double left, right;
};

struct PaperFigure {
  const char* name;   // on the command line, and of its files
  const char* title;
  const char* what;   // as in Case; share: of a processor that a stream takes
  const char* reference;  // name of the row that the others are divided by
  Axis axis;
  std::vector<PaperRow> rows;
};

const std::vector<PaperFigure>& paper_figures();
std::vector<std::string> paper_figure_names();

}  // namespace viabench

#endif
