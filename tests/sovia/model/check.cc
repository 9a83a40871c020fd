#include "check.h"

#include <algorithm>
#include <cstdlib>
#include <thread>

namespace model {
namespace {

constexpr int kTries = 4;  // of a smaller program: what goes wrong may do so now and then only

constexpr int kFirstLaneMs = 2000;

bool is_tcp(const std::string& wrong) { return wrong.compare(0, 3, "tcp") == 0; }

// A settled row with another text.
std::string difference(const Outcome& tcp, const Outcome& sovia) {
  const std::size_t rows = std::min(tcp.rows.size(), sovia.rows.size());
  for (std::size_t i = 0; i < rows; ++i) {
    const Row &one = tcp.rows[i], &other = sovia.rows[i];
    if (one.operation != other.operation || !one.settled || !other.settled) return {};
    if (one.text == other.text) continue;
    return "they differ at operation " + std::to_string(one.operation) + ": TCP answers " + one.text + ", SOVIA " +
           other.text;
  }
  return {};
}

}  // namespace

Verdict Checker::run(const Program& program, const Limits& limits) {
  Verdict verdict;
  // Processes end with the thread that has started them.
  tcp_.start();
  if (sovia_.start()) make_ready();
  std::thread other([&] { verdict.tcp = Execution(program, tcp_, limits).run(); });
  verdict.sovia = Execution(program, sovia_, limits).run();
  other.join();
  if (!verdict.tcp.wrong.empty()) {
    verdict.wrong = "tcp: operation " + std::to_string(verdict.tcp.operation) + ": " + verdict.tcp.wrong;
  } else if (!verdict.sovia.wrong.empty()) {
    verdict.wrong = "sovia: operation " + std::to_string(verdict.sovia.operation) + ": " + verdict.sovia.wrong;
  } else {
    verdict.wrong = difference(verdict.tcp, verdict.sovia);
  }
  return verdict;
}

// The first lane of a process takes longer than those that follow.
void Checker::make_ready() {
  Program program;
  program.warmth[0] = Warmth::kWarm;
  const Limits limits{.warm_ms = kFirstLaneMs, .kept = {}};
  for (int i = 0; i < 2; ++i) Execution(program, sovia_, limits).run();
}

bool Checker::same(const Program& program, const Limits& limits, const Verdict& verdict) {
  for (int i = 0; i < kTries; ++i) {
    const Verdict again = run(program, limits);
    if (!again.wrong.empty() && is_tcp(again.wrong) == is_tcp(verdict.wrong)) return true;
  }
  return false;
}

Limits Checker::shrink(const Program& program, Limits limits, const Verdict& verdict) {
  const std::size_t count = program.operations.size();
  if (limits.kept.empty()) limits.kept.assign(count, true);
  limits.patience_ms = std::min(limits.patience_ms, 4000);
  for (std::size_t piece = std::max<std::size_t>(count / 2, 1); piece > 0; piece /= 2) {
    for (std::size_t from = 0; from < count; from += piece) {
      Limits less = limits;
      const std::size_t to = std::min(from + piece, count);
      std::fill(less.kept.begin() + static_cast<long>(from), less.kept.begin() + static_cast<long>(to), false);
      if (less.kept != limits.kept && same(program, less, verdict)) limits = less;
    }
  }
  for (std::uint32_t most : {10u, 1000u, 4000u, 20'000u, 100'000u}) {
    Limits less = limits;
    less.most_bytes = most;
    if (!same(program, less, verdict)) continue;
    return less;
  }
  return limits;
}

std::string text_of_kept(const std::vector<bool>& kept) {
  std::string text;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (!kept[i]) continue;
    std::size_t last = i;
    while (last + 1 < kept.size() && kept[last + 1]) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(i) + (last > i ? "-" + std::to_string(last) : "");
    i = last;
  }
  return text;
}

std::vector<bool> kept_of(const std::string& text, std::size_t count) {
  std::vector<bool> kept(count, false);
  for (const char* at = text.c_str(); *at != '\0';) {
    char* next;
    const std::size_t first = std::strtoul(at, &next, 10);
    std::size_t last = first;
    if (*next == '-') last = std::strtoul(next + 1, &next, 10);
    for (std::size_t i = first; i <= last && i < count; ++i) kept[i] = true;
    at = *next == ',' ? next + 1 : next;
    if (next == at && *next != '\0') break;
  }
  return kept;
}

}  // namespace model
