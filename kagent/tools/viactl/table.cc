#include "kagent/tools/viactl/table.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>

namespace viaduct::tool {
namespace {

constexpr std::size_t kGap = 2;

std::string formatted(const char* format, double value) {
  char room[64];
  std::snprintf(room, sizeof room, format, value);
  return room;
}

// Three digits, as "9.87" or "123".
std::string digits(double value) {
  return formatted(value < 9.995 ? "%.2f" : value < 99.95 ? "%.1f" : "%.0f", value);
}

winsize terminal() {
  winsize size{};
  if (isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return {};
  return size;
}

}  // namespace

std::string in_json(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (code < 0x20 || code >= 0x7f) {
      char room[8];
      std::snprintf(room, sizeof room, "\\u%04x", code);
      out += room;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

Cell cell(std::string_view text) {
  std::string shown(text);
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) c = '?';
  }
  return {shown.empty() ? "-" : shown, in_json(text)};
}

Cell cell(std::uint64_t number) { return {std::to_string(number), std::to_string(number)}; }

Cell cell_bytes(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  const std::string text = unit == 0 ? std::to_string(bytes) : digits(value);
  return {text + " " + kUnits[unit], std::to_string(bytes)};
}

Cell cell_duration(std::uint64_t ns) {
  const double seconds = static_cast<double>(ns) / 1e9;
  std::string text;
  if (ns < 1'000'000) {
    text = digits(static_cast<double>(ns) / 1e3) + " us";
  } else if (ns < 1'000'000'000) {
    text = digits(static_cast<double>(ns) / 1e6) + " ms";
  } else if (seconds < 120) {
    text = digits(seconds) + " s";
  } else if (seconds < 7200) {
    text = formatted("%.0f min", seconds / 60);
  } else if (seconds < 172800) {
    text = formatted("%.0f h", seconds / 3600);
  } else {
    text = formatted("%.0f d", seconds / 86400);
  }
  return {text, std::to_string(ns)};
}

Cell cell_rate(double per_second) {
  static constexpr const char* kUnits[] = {"", "k", "M", "G"};
  double value = per_second;
  std::size_t unit = 0;
  for (; value >= 9999.5 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  return {(unit == 0 ? formatted("%.0f", value) : digits(value)) + kUnits[unit], formatted("%.1f", per_second)};
}

Cell cell_flag(bool value) { return {value ? "yes" : "no", value ? "true" : "false"}; }

Cell cell_none() { return {"-", "null"}; }

void Table::add(std::vector<Cell> cells) {
  cells.resize(columns_.size(), cell_none());
  rows_.push_back(std::move(cells));
}

std::string Table::text(std::size_t width) const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t widest = std::string_view(columns_[c].title).size();
    for (const auto& row : rows_) widest = std::max(widest, row[c].text.size());
    widths.push_back(widest);
  }
  std::vector<bool> shown(columns_.size(), true);
  const auto total = [&] {
    std::size_t sum = 0;
    for (std::size_t c = 0; c < columns_.size(); ++c) sum += shown[c] ? widths[c] + (sum == 0 ? 0 : kGap) : 0;
    return sum;
  };
  while (width != 0 && total() > width) {
    std::optional<std::size_t> least;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (shown[c] && columns_[c].rank > 0 && (!least || columns_[c].rank >= columns_[*least].rank)) least = c;
    }
    if (!least) break;
    shown[*least] = false;
  }
  std::string out;
  const auto line = [&](const auto& text_of) {
    std::string row;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (!shown[c]) continue;
      const std::string text = text_of(c);
      const std::string pad(widths[c] - text.size(), ' ');
      if (!row.empty()) row.append(kGap, ' ');
      row += columns_[c].left ? text + pad : pad + text;
    }
    row.erase(row.find_last_not_of(' ') + 1);
    if (width != 0 && row.size() > width) row.resize(width);
    out += row + "\n";
  };
  line([&](std::size_t c) { return std::string(columns_[c].title); });
  for (const auto& row : rows_) line([&](std::size_t c) { return row[c].text; });
  return out;
}

std::string Table::json() const {
  std::string out = "[";
  for (const auto& row : rows_) {
    out += out.size() == 1 ? "\n  {" : ",\n  {";
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (c != 0) out += ", ";
      out += in_json(columns_[c].key) + ": " + row[c].json;
    }
    out += "}";
  }
  return out + (rows_.empty() ? "]" : "\n]");
}

std::size_t terminal_width() { return terminal().ws_col; }
std::size_t terminal_height() { return terminal().ws_row; }

}  // namespace viaduct::tool
