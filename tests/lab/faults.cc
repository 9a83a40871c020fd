#include "tests/lab/faults.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

namespace viaduct::lab {
namespace {

constexpr std::uint32_t kEthernetHeader = 14;
constexpr unsigned kOvertakers = 8;

enum class Kind : std::uint64_t { kLoss, kReorder, kDuplicate, kCorrupt, kDistance, kBit };

// SplitMix64.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

std::uint64_t draw(const Faults& faults, int direction, std::uint64_t number, Kind kind) {
  const auto stream = static_cast<std::uint64_t>(kind) * kDirections + std::uint64_t(direction);
  return mix(mix(mix(faults.seed) + stream) + number);
}

bool happens(double probability, std::uint64_t random) {
  return probability > 0 && static_cast<double>(random >> 11) * 0x1p-53 < probability;
}

// A number that is not negative, and what follows it.
std::optional<std::pair<double, std::string>> number_and_unit(const std::string& text) {
  if (text.empty() || text[0] < '0' || text[0] > '9') return {};
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (!std::isfinite(value)) return {};
  return std::pair(value, std::string(end));
}

struct Unit {
  const char* name;
  double factor;
};

template <std::size_t N>
bool scaled(const std::string& text, const Unit (&units)[N], double highest, double& value) {
  const auto parts = number_and_unit(text);
  if (!parts) return false;
  for (const Unit& unit : units) {
    if (parts->second == unit.name || (parts->first == 0 && parts->second.empty())) {
      const double scaled = parts->first * unit.factor;
      if (scaled > highest) return false;
      value = scaled;
      return true;
    }
  }
  return false;
}

bool probability(const std::string& text, double& value) {
  static constexpr Unit kUnits[] = {{"%", 0.01}, {"", 1}};
  return scaled(text, kUnits, 1, value);
}

bool whole(const std::string& text, const Unit (&units)[4], double highest, std::uint64_t& value) {
  double scaled_value;
  if (!scaled(text, units, highest, scaled_value)) return false;
  value = static_cast<std::uint64_t>(std::llround(scaled_value));
  return true;
}

// Empty if the option took its value, else what it needs.
std::string set(const std::string& option, const std::string& value, Faults& faults) {
  static constexpr Unit kTimes[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  static constexpr Unit kBits[] = {{"", 1}, {"k", 1e3}, {"m", 1e6}, {"g", 1e9}};
  static constexpr Unit kBytes[] = {{"", 1}, {"k", 1024}, {"m", 1 << 20}, {"g", 1 << 30}};
  static constexpr Unit kPlain[] = {{"", 1}, {"", 1}, {"", 1}, {"", 1}};
  const char* const share = "a probability, such as 1% or 0.01";
  if (option == "--loss") return probability(value, faults.loss) ? "" : share;
  if (option == "--reorder") return probability(value, faults.reorder) ? "" : share;
  if (option == "--duplicate") return probability(value, faults.duplicate) ? "" : share;
  if (option == "--corrupt") return probability(value, faults.corrupt) ? "" : share;
  if (option == "--delay") {
    return whole(value, kTimes, 10e9, faults.delay_ns) ? "" : "a time up to 10s, such as 1ms";
  }
  if (option == "--rate") {
    return scaled(value, kBits, 1e12, faults.rate) ? ""
                                                   : "bits in a second, such as 100m, 1g, or 0";
  }
  if (option == "--queue") {
    return whole(value, kBytes, 1 << 30, faults.queue_bytes) ? "" : "bytes, such as 512k";
  }
  if (option == "--seed") return whole(value, kPlain, 0x1p53, faults.seed) ? "" : "a number";
  return "to be known";
}

}  // namespace

Parsed apply(const std::vector<std::string>& options, Settings& settings) {
  Parsed parsed;
  Settings wanted = settings;
  int first = 0;
  int last = kDirections - 1;
  for (std::size_t i = 0; i < options.size(); ++i) {
    const std::string& option = options[i];
    if (option == "--clear") {
      for (int d = first; d <= last; ++d) wanted[d] = Faults{.seed = wanted[d].seed};
      continue;
    }
    const std::string value = i + 1 < options.size() ? options[++i] : "";
    if (option == "--from") {
      if (value != "a" && value != "b") return {"--from needs a or b", {}};
      first = last = value == "a" ? 0 : 1;
      continue;
    }
    for (int d = first; d <= last; ++d) {
      const std::string need = set(option, value, wanted[d]);
      if (!need.empty()) return {option + " needs " + need, {}};
      parsed.seeded[d] = parsed.seeded[d] || option == "--seed";
    }
  }
  settings = wanted;
  return parsed;
}

std::string text(const Faults& faults) {
  char line[256];
  std::snprintf(line, sizeof line,
                "loss %g%% reorder %g%% duplicate %g%% corrupt %g%% delay %gms rate %gm queue %llu "
                "seed %llu",
                faults.loss * 100, faults.reorder * 100, faults.duplicate * 100,
                faults.corrupt * 100, static_cast<double>(faults.delay_ns) / 1e6, faults.rate / 1e6,
                static_cast<unsigned long long>(faults.queue_bytes),
                static_cast<unsigned long long>(faults.seed));
  return line;
}

Fate fate(const Faults& faults, int direction, std::uint64_t number, std::uint32_t length) {
  const auto random = [&](Kind kind) { return draw(faults, direction, number, kind); };
  Fate result;
  result.lost = happens(faults.loss, random(Kind::kLoss));
  if (result.lost) return result;
  result.duplicated = happens(faults.duplicate, random(Kind::kDuplicate));
  if (happens(faults.reorder, random(Kind::kReorder))) {
    result.overtaken_by = 1 + static_cast<unsigned>(random(Kind::kDistance) % kOvertakers);
  }
  if (length > kEthernetHeader && happens(faults.corrupt, random(Kind::kCorrupt))) {
    result.corrupted = true;
    result.flip_bit =
        static_cast<std::uint32_t>(random(Kind::kBit) % ((length - kEthernetHeader) * 8ull));
  }
  return result;
}

}  // namespace viaduct::lab
