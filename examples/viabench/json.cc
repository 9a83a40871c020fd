#include "examples/viabench/json.h"

#include <cmath>
#include <cstdio>

#include "examples/common/nic.h"
#include "examples/viabench/bars.h"
#include "examples/viabench/papers.h"

namespace viabench {
namespace {

using via::format;

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += format("\\u%04x", c);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string number(double v) { return std::isfinite(v) ? format("%.9g", v) : "null"; }

// The items of a list, with commas between them.
template <typename Items, typename Print>
std::string list(const Items& items, Print print) {
  std::string out;
  for (const auto& item : items) out += (out.empty() ? "" : ",") + print(item);
  return out;
}

std::string figure(const Result& r, const std::string& name, const std::vector<double>& values) {
  const Summary s = *r.summary(name);
  return quoted(name) + ":{\"median\":" + number(s.median) + ",\"q1\":" + number(s.q1) +
         ",\"q3\":" + number(s.q3) + ",\"min\":" + number(s.min) + ",\"max\":" + number(s.max) +
         ",\"rounds\":[" + list(values, number) + "]}";
}

std::string result(const Result& r) {
  const Case& c = r.of;
  return "{\"id\":" + quoted(c.id()) + ",\"what\":" + quoted(c.what) +
         ",\"transport\":" + quoted(c.transport) + ",\"wait\":" + quoted(c.wait) +
         ",\"reliability\":" + quoted(c.level) + ",\"offload\":" + quoted(c.offload) +
         format(",\"size\":%u,\"count\":%u,\"others\":%u", c.size, c.count, c.others) +
         ",\"figure\":" + quoted(figure_of(c.what).name) + ",\"figures\":{" +
         list(r.figures, [&](const auto& f) { return figure(r, f.first, f.second); }) +
         "},\"failures\":[" + list(r.failures, quoted) + "]}";
}

std::string bar(const Verdict& v) {
  return "{\"bar\":" + quoted(v.text) + ",\"" + (v.at_most ? "at_most" : "at_least") +
         "\":" + number(v.limit) + ",\"is\":" + (v.is ? number(*v.is) : "null") +
         ",\"result\":" + quoted(v.word()) + "}";
}

std::string value(const std::optional<Summary>& s) {
  if (!s) return "null";
  return "{\"median\":" + number(s->median) + ",\"q1\":" + number(s->q1) + ",\"q3\":" + number(s->q3) + "}";
}

// A paper's figure: its lines with the paper's own numbers, and what was measured at each point.
std::string paper_figure(const Results& results, const PaperFigure& figure) {
  const auto points = points_of(results, figure);
  const auto row = [&](const PaperRow& one) {
    return "{\"name\":" + quoted(one.name) + ",\"left\":" + number(one.left) + ",\"right\":" + number(one.right) +
           ",\"values\":[" +
           list(points, [&](std::uint32_t point) { return value(point_of(results, figure, one, point)); }) + "]}";
  };
  return "{\"name\":" + quoted(figure.name) + ",\"title\":" + quoted(figure.title) +
         ",\"unit\":" + quoted(unit_of(figure)) +
         ",\"reference\":" + (figure.reference != nullptr ? quoted(figure.reference) : "null") +
         ",\"of\":" + quoted(figure.axis == Axis::kConnections ? "connections" : "B") +
         ",\"points\":[" + list(points, [](std::uint32_t point) { return format("%u", point); }) +
         "],\"rows\":[" + list(figure.rows, row) + "]}";
}

std::string paper_figures_of(const Results& results, const std::vector<std::string>& names) {
  std::vector<std::string> all;
  for (const PaperFigure& figure : paper_figures()) {
    if (is_wanted(names, figure)) all.push_back(paper_figure(results, figure) + "\n");
  }
  return ",\"papers\":[\n" + list(all, [](const std::string& one) { return one; }) + "]";
}

}  // namespace

std::string json(const Results& results, const std::vector<std::string>* papers) {
  return "{\"hosts\":" + quoted(results.hosts) +
         format(",\"mtu\":%u,\"rounds\":%u", results.mtu, results.rounds) + ",\"notes\":[" +
         list(results.notes, quoted) + "],\n\"results\":[\n" +
         list(results.all, [](const Result& r) { return result(r) + "\n"; }) + "],\n\"bars\":[\n" +
         list(judge(results), [](const Verdict& v) { return bar(v) + "\n"; }) + "]" +
         (papers != nullptr ? paper_figures_of(results, *papers) : "") + "}\n";
}

}  // namespace viabench
