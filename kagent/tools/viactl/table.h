// Rows of values, shown as a table that fits the terminal or as JSON.
#ifndef VIADUCT_KAGENT_TOOLS_VIACTL_TABLE_H
#define VIADUCT_KAGENT_TOOLS_VIACTL_TABLE_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct::tool {

// A value, as people and as programs read it.
struct Cell {
  std::string text;
  std::string json;
};

Cell cell(std::string_view text);            // what others have written is shown without control characters
Cell cell(std::uint64_t number);
Cell cell_bytes(std::uint64_t bytes);        // "1.5 MiB"; JSON: the number
Cell cell_duration(std::uint64_t ns);        // "1.5 ms"; JSON: ns
Cell cell_rate(double per_second);
Cell cell_flag(bool value);
Cell cell_none();                            // "-"; JSON: null

std::string in_json(std::string_view text);  // with quotes

struct Column {
  const char* title;
  const char* key;       // in JSON
  bool left = false;     // adjusted
  unsigned rank = 0;     // where there is no room, columns of the highest rank are left out first
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void add(std::vector<Cell> cells);  // one for each column
  std::size_t rows() const { return rows_.size(); }

  // `width`: the terminal's; 0: there is none, and all columns are shown. Lines end with "\n".
  std::string text(std::size_t width) const;
  std::string json() const;  // an array of objects

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

// Width of the terminal that standard output is, in columns; 0 if it is none.
std::size_t terminal_width();
std::size_t terminal_height();

}  // namespace viaduct::tool

#endif
