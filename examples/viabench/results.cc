#include "examples/viabench/results.h"

#include <algorithm>
#include <sstream>

namespace viabench {
namespace {

// Between the two values next to it. There is one at least, and they are sorted.
double quantile(const std::vector<double>& values, double part) {
  const double at = part * double(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (at - double(below));
}

bool matches(const std::string& identity, const std::string& pattern) {
  if (!pattern.empty() && pattern.back() == '/') return identity.rfind(pattern, 0) == 0;
  return identity == pattern;
}

}  // namespace

void Result::add(const Figures& sample) {
  for (const auto& [name, value] : sample) figures[name].push_back(value);
  const auto bytes = sample.find("bytes");
  if (of.what == "memory" || bytes == sample.end() || bytes->second <= 0) return;
  if (const auto seconds = sample.find("seconds"); seconds != sample.end()) {
    figures["gbit_s"].push_back(bytes->second * 8 / seconds->second / 1e9);
    figures["messages_s"].push_back(sample.at("messages") / seconds->second);
  }
  double sum = 0;
  for (const char* who : {"near_cpu", "near_agent", "far_agent", "far_cpu"}) {
    const auto spent = sample.find(std::string(who) + "_ns");
    if (spent == sample.end()) continue;
    figures[std::string(who) + "_ns_byte"].push_back(spent->second / bytes->second);
    sum += spent->second / bytes->second;
  }
  if (sum > 0) figures["cpu_ns_byte"].push_back(sum);
}

std::optional<Summary> Result::summary(const std::string& figure) const {
  const auto found = figures.find(figure.empty() ? figure_of(of.what).name : figure);
  if (found == figures.end() || found->second.empty()) return std::nullopt;
  std::vector<double> v = found->second;
  std::sort(v.begin(), v.end());
  return Summary{quantile(v, 0.5), quantile(v, 0.25), quantile(v, 0.75),
                 v.front(),        v.back(),          v.size()};
}

const Result* Results::best(const std::string& identities, const std::string& figure) const {
  const Result* found = nullptr;
  std::istringstream in(identities);
  for (std::string pattern; std::getline(in, pattern, ',');) {
    for (const Result& r : all) {
      if (!matches(r.of.id(), pattern)) continue;
      const auto is = r.summary(figure);
      if (!is) continue;
      const bool less = figure_of(r.of.what).less_is_better;
      const double best_yet = found == nullptr ? 0 : found->summary(figure)->median;
      if (found == nullptr || (less ? is->median < best_yet : is->median > best_yet)) found = &r;
    }
  }
  return found;
}

}  // namespace viabench
