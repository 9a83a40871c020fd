// A table whose first column is text and whose others are numbers.
#ifndef VIADUCT_EXAMPLES_VIABENCH_TABLE_H
#define VIADUCT_EXAMPLES_VIABENCH_TABLE_H

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "examples/common/nic.h"

namespace viabench {

enum class Style { kText, kMarkdown };

using Row = std::vector<std::string>;

// Three digits that mean something.
inline std::string number(double v) {
  if (v == 0) return "0";
  const double size = std::fabs(v);
  return via::format("%.*f", size >= 100 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : 3, v);
}

class Table {
 public:
  Table(Style style, Row head) : style_(style) { rows_.push_back(std::move(head)); }
  void add(Row row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.size() == 1; }

  std::string text() const {
    std::string out;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      out += style_ == Style::kMarkdown ? line_of_markdown(rows_[i]) : line_of_text(rows_[i]);
      if (i == 0 && style_ == Style::kMarkdown) {
        out += "| --- |";
        for (std::size_t c = 1; c < rows_[0].size(); ++c) out += " ---: |";
        out += "\n";
      }
    }
    return out + "\n";
  }

 private:
  static std::string line_of_markdown(const Row& row) {
    std::string out = "|";
    for (const std::string& cell : row) out += " " + cell + " |";
    return out + "\n";
  }

  std::string line_of_text(const Row& row) const {
    std::string out = "  ";
    for (std::size_t c = 0; c < row.size(); ++c) {
      std::size_t width = 0;
      for (const Row& r : rows_) width = std::max(width, r[c].size());
      const std::string padding(width - row[c].size(), ' ');
      out += c == 0 ? row[c] + padding : "  " + padding + row[c];
    }
    return out + "\n";
  }

  Style style_;
  std::vector<Row> rows_;
};

inline std::string heading(Style style, const std::string& text) {
  return style == Style::kMarkdown ? "#### " + text + "\n\n" : text + "\n";
}

}  // namespace viabench

#endif
