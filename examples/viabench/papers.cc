#include "examples/viabench/papers.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace viabench {
namespace {

using Points = std::vector<std::uint32_t>;

bool is(const char* text, const char* other) { return std::strcmp(text, other) == 0; }

constexpr std::uint32_t kOfCrowds = 16384;  // bytes of a message

// Where on the axis points are wanted.
std::vector<std::uint32_t> wanted_points(const Options& options, const PaperFigure& figure) {
  if (figure.axis == Axis::kOneSize) return {4};
  if (figure.axis == Axis::kConnections) return options.quick ? Points{1, 8} : Points{1, 2, 4, 8};
  if (is(figure.what, "web")) return options.quick ? Points{4, 1024} : Points{4, 64, 256, 1024, 2048, 4096, 8192};
  return options.quick ? Points{4, 2048, 32768} : Points{4, 64, 256, 1024, 2048, 4096, 8192, 32768};
}

// The number of messages. Combined small ones are fast, and would be over too soon; the first thousands of a connection
// take longer, as threads learn how long to spin. The threads of NOTIFY and HANDLER never spin, and take ten times as long.
double count_of(const std::string& what, const PaperRow& row, std::uint32_t size) {
  if (what == "latency" && (is(row.level, "NOTIFY") || is(row.level, "HANDLER"))) return size >= 8192 ? 300 : 1000;
  if (what == "latency") return size >= 8192 ? 3000 : 20000;
  if (what == "register") return 2000;
  if (what == "web") return 800;
  if (what == "hotspot") return 16000;
  if (what == "streams" || what == "fanin" || what == "fanout") return 256e6 / size;
  const bool combines = is(row.level, "COMBINE") || is(row.level, "nagle") || is(row.level, "default");
  return std::min(64e6 / size, combines ? 100e3 : 20e3);
}

std::string what_of(const PaperFigure& figure) { return is(figure.what, "share") ? "bandwidth" : figure.what; }

// `placement` and `offload`: of VIPL and of TCP.
Case case_of(const PaperFigure& figure, const PaperRow& row, std::uint32_t point, const std::string& placement,
             const std::string& offload) {
  Case c;
  c.what = what_of(figure);
  c.transport = is(row.transport, "via") ? placement : row.transport;
  c.wait = row.wait;
  c.level = row.level;
  c.offload = is(row.transport, "tcp") ? offload : "-";
  const bool crowd = figure.axis == Axis::kConnections;
  c.size = crowd ? kOfCrowds : point;
  c.others = crowd ? point : row.others;
  return c;
}

std::uint32_t point_in(const PaperFigure& figure, const Case& c) {
  return figure.axis == Axis::kConnections ? c.others : c.size;
}

bool matches(const Case& c, const PaperFigure& figure, const PaperRow& row) {
  const bool transport = is(row.transport, "via") ? c.via() : c.transport == row.transport;
  return transport && c.what == what_of(figure) && c.wait == row.wait && c.level == row.level &&
         (figure.axis == Axis::kConnections || c.others == row.others);
}

// Of one end and its agent, in % of one processor, round by round.
Result share_of_processor(const Result& r, const std::string& end) {
  Result share{r.of, {}, {}};
  const auto values = [&](const std::string& name) {
    const auto found = r.figures.find(name);
    return found == r.figures.end() ? std::vector<double>() : found->second;
  };
  const std::vector<double> seconds = values("seconds"), own = values(end + "_cpu_ns");
  const std::vector<double> agent = values(end + "_agent_ns");
  for (std::size_t i = 0; i < std::min(seconds.size(), own.size()); ++i) {
    const double ns = own[i] + (i < agent.size() ? agent[i] : 0);
    share.figures["percent"].push_back(ns / seconds[i] / 1e7);
  }
  return share;
}

bool is_bandwidth(const PaperFigure& figure) {
  return !is(figure.what, "share") && is(figure_of(figure.what).name, "gbit_s");
}

Summary times(const Summary& s, double factor) {
  return {s.median * factor, s.q1 * factor, s.q3 * factor, s.min * factor, s.max * factor, s.rounds};
}

}  // namespace

bool is_wanted(const std::vector<std::string>& names, const PaperFigure& figure) {
  return names.empty() || std::find(names.begin(), names.end(), figure.name) != names.end();
}

std::vector<Case> plan_papers(const Options& options, const Available& available) {
  std::vector<Case> cases;
  std::set<std::string> there;
  for (const PaperFigure& figure : paper_figures()) {
    if (!is_wanted(options.figures, figure)) continue;
    for (const std::uint32_t point : wanted_points(options, figure)) {
      for (const PaperRow& row : figure.rows) {
        if (is(row.transport, "sovia") && !available.sovia) continue;
        if (is(row.transport, "lanevi") && !available.lanevi) continue;
        Case c = case_of(figure, row, point, available.granted ? "granted" : "hosted",
                         available.offload ? "on" : "kept");
        const double count = count_of(c.what, row, c.size) * options.fraction * (options.quick ? 0.5 : 1);
        c.count = static_cast<std::uint32_t>(std::max(count, 10.0));
        if (there.insert(c.id()).second) cases.push_back(c);
      }
    }
  }
  return cases;
}

std::vector<std::uint32_t> points_of(const Results& results, const PaperFigure& figure) {
  std::set<std::uint32_t> points;
  for (const Result& r : results.all) {
    for (const PaperRow& row : figure.rows) {
      if (matches(r.of, figure, row) && r.summary()) points.insert(point_in(figure, r.of));
    }
  }
  if (figure.axis == Axis::kOneSize && !points.empty()) return {*points.begin()};
  return {points.begin(), points.end()};
}

std::optional<Summary> point_of(const Results& results, const PaperFigure& figure, const PaperRow& row,
                                std::uint32_t point) {
  for (const Result& r : results.all) {
    if (!matches(r.of, figure, row) || point_in(figure, r.of) != point) continue;
    const auto summary = r.summary();
    if (is_bandwidth(figure) && summary) return times(*summary, 1000);
    if (!is(figure.what, "share")) return summary;
    return share_of_processor(r, is(row.name, "sender") ? "near" : "far").summary("percent");
  }
  return std::nullopt;
}

const char* unit_of(const PaperFigure& figure) {
  if (is(figure.what, "share")) return "% of a processor";
  return is_bandwidth(figure) ? "Mb/s" : figure_of(figure.what).unit;
}

}  // namespace viabench
