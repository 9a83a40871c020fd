#include "examples/viabench/paper_tables.h"

#include <cstring>
#include <filesystem>
#include <fstream>

#include "examples/common/nic.h"
#include "examples/viabench/papers.h"
#include "examples/viabench/worker.h"

namespace viabench {
namespace {

using via::Failure;
using via::format;

const PaperRow* reference_of(const PaperFigure& figure) {
  for (const PaperRow& row : figure.rows) {
    if (figure.reference != nullptr && std::strcmp(row.name, figure.reference) == 0) return &row;
  }
  return nullptr;
}

// The cells of a row at one point: our figure, its quartiles, and ours and the paper's as parts of the reference.
Row cells(const Results& results, const PaperFigure& figure, const PaperRow& row, std::uint32_t point, bool right) {
  const auto s = point_of(results, figure, row, point);
  Row out(4);
  out[0] = s ? number(s->median) : "-";
  if (s) out[1] = number(s->q1) + ".." + number(s->q3);
  const PaperRow* const reference = reference_of(figure);
  const double told = right ? row.right : row.left;
  if (reference == nullptr) {
    if (told != 0) out[3] = number(told);
    return out;
  }
  const auto r = point_of(results, figure, *reference, point);
  if (s && r) out[2] = number(s->median / r->median);
  const double of = right ? reference->right : reference->left;
  if (told != 0 && of != 0) out[3] = number(told / of);
  return out;
}

std::string table_of(const Results& results, const PaperFigure& figure, Style style) {
  const auto points = points_of(results, figure);
  if (points.empty()) return "";
  const std::string by = figure.reference != nullptr ? std::string("/") + figure.reference : "";
  Row head{""};
  const char* const of = figure.axis == Axis::kConnections ? "connections" : "B";
  const auto add_head = [&](std::uint32_t point) {
    const std::string unit = format("%u %s, %s", point, of, unit_of(figure));
    for (const std::string& title : {unit, std::string("quartiles"), by, std::string("paper")}) head.push_back(title);
  };
  add_head(points.front());
  const bool two = points.size() > 1;
  if (two) add_head(points.back());
  Table table(style, head);
  for (const PaperRow& row : figure.rows) {
    Row line{row.name};
    const auto add = [&](std::uint32_t point, bool right) {
      for (std::string& cell : cells(results, figure, row, point, right)) line.push_back(std::move(cell));
    };
    add(points.front(), false);
    if (two) add(points.back(), true);
    table.add(line);
  }
  return heading(style, std::string(figure.title) + " (" + figure.name + ")") + table.text();
}

// Columns: bytes of a message or connections, and for each row median and quartiles.
void write_data(const Results& results, const PaperFigure& figure, const std::string& path) {
  std::ofstream out(path);
  out << "# " << figure.title << ", " << unit_of(figure) << "\n# at";
  for (const PaperRow& row : figure.rows) out << " \"" << row.name << "\" q1 q3";
  out << '\n';
  for (const std::uint32_t point : points_of(results, figure)) {
    out << point;
    for (const PaperRow& row : figure.rows) {
      const auto s = point_of(results, figure, row, point);
      out << (s ? format(" %.6g %.6g %.6g", s->median, s->q1, s->q3) : std::string(" ? ? ?"));
    }
    out << '\n';
  }
  out.close();
  if (!out) throw Failure(path + ": can't be written");
}

void write_script(const PaperFigure& figure, const std::string& base) {
  std::ofstream out(base + ".gp");
  const bool linear = std::strcmp(figure.what, "share") == 0;
  out << "# gnuplot " << base << ".gp\nset datafile missing '?'\nset key outside right top\nset grid\n"
      << "set title '" << figure.title << "' noenhanced\nset xlabel '"
      << (figure.axis == Axis::kConnections ? "connections" : "bytes of a message") << "'\nset ylabel '"
      << unit_of(figure) << "'\nset logscale x 2\n"
      << (linear ? "set yrange [0:*]\n" : "set logscale y\n");
  std::string plot = "plot ";
  int column = 2;
  for (const PaperRow& row : figure.rows) {
    plot += format("%s'%s.dat' using 1:%d:%d:%d with yerrorlines title '%s' noenhanced", column == 2 ? "" : ", ",
                   base.c_str(), column, column + 1, column + 2, row.name);
    column += 3;
  }
  out << "set terminal svg size 1000,600\nset output '" << base << ".svg'\n"
      << plot << "\nset terminal pngcairo size 1000,600\nset output '" << base << ".png'\nreplot\n";
  out.close();
  if (!out) throw Failure(base + ".gp: can't be written");
}

}  // namespace

std::string paper_tables(const Results& results, const Names& names, Style style) {
  std::string out = format("%s; medians of %u rounds, interleaved", results.hosts.c_str(), results.rounds);
  out = style == Style::kMarkdown ? out + ".\n\n" : "\n" + out + "\n\n";
  for (const std::string& note : results.notes) out += (style == Style::kMarkdown ? "- " : "") + note + "\n";
  if (!results.notes.empty()) out += "\n";
  for (const PaperFigure& figure : paper_figures()) {
    if (is_wanted(names, figure)) out += table_of(results, figure, style);
  }
  return out;
}

void write_paper_plots(const Results& results, const Names& names, const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw Failure("no plots: " + directory + ": " + error.message());
  std::string ignored;
  const bool draws = run_program({"gnuplot", "--version"}, &ignored) == 0;
  for (const PaperFigure& figure : paper_figures()) {
    if (!is_wanted(names, figure) || points_of(results, figure).empty()) continue;
    const std::string base = directory + "/" + figure.name;
    write_data(results, figure, base + ".dat");
    write_script(figure, base);
    std::string said;
    if (draws && run_program({"gnuplot", base + ".gp"}, &said) != 0) throw Failure("gnuplot: " + said);
  }
}

}  // namespace viabench
