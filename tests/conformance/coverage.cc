#include "coverage.h"

#include <cstdio>
#include <map>
#include <optional>
#include <vector>

#include "expected.h"
#include "options.h"
#include "printing.h"

namespace conformance {
namespace {

bool two_hosts = false;
VIP_RELIABILITY_LEVEL levels = 0, read_levels = 0;
std::map<int, std::vector<std::string>> checklist;

// Why it may be missing in this run; nothing: it may not.
std::optional<std::string> excuse(Unless unless, const char* why) {
  const bool cut = two_hosts && !options.cut.empty();
  const bool kill = two_hosts && !options.kill_provider.empty();
  const bool all = (levels & ~read_levels) == 0;
  switch (unless) {
    case Unless::kNothing:
      return {};
    case Unless::kChoice:
      return why;
    case Unless::kNoCut:
      if (cut) return {};
      return "the link can't be cut in this run";
    case Unless::kNoKill:
      if (kill) return {};
      return "the provider can't be ended in this run";
    case Unless::kNoCutNoKill:
      if (cut || kill) return {};
      return "neither link nor provider can be broken in this run";
    case Unless::kOneProcess:
      if (!options.self()) return {};
      return "the peer is the same process";
    case Unless::kRdmaRead:
      if (read_levels == 0) return {};
      return "the NIC supports RDMA read";
    case Unless::kRdmaReadAll:
      if (!all) return {};
      return "the NIC supports RDMA read on all levels";
    case Unless::kNoRdmaRead:
      if (read_levels != 0) return {};
      return "the NIC has no RDMA read";
  }
  return {};
}

// Expected but never seen, for the end of the table.
std::vector<std::string> missing;

// `of`: the owner of the code, for that list.
void line(const std::string& of, const std::string& name, std::uint64_t times, Unless unless,
          const char* why) {
  if (times > 0) {
    std::printf("  %-34s %10llu\n", name.c_str(), static_cast<unsigned long long>(times));
  } else if (const auto reason = excuse(unless, why)) {
    std::printf("  %-34s %10s  %s\n", name.c_str(), "excused", reason->c_str());
  } else {
    std::printf("  %-34s %10s\n", name.c_str(), "MISSING");
    missing.push_back(of + " " + name);
  }
}

void print_functions(const Counts& counts) {
  for (std::size_t f = 0; f < kFunctions; ++f) {
    const auto function = static_cast<Function>(f);
    std::printf("%s\n", function_name(function));
    std::array<bool, kCodes> listed{};
    for (const ExpectedCode& e : expected_codes()) {
      if (e.function != function) continue;
      listed[e.code] = true;
      line(function_name(function), code_name(e.code), counts.codes[f][e.code], e.unless, e.why);
    }
    for (std::size_t code = 0; code < kCodes; ++code) {
      if (listed[code] || counts.codes[f][code] == 0) continue;
      std::printf("  %-34s %10llu  not in the list\n",
                  code_name(static_cast<VIP_RETURN>(code)).c_str(),
                  static_cast<unsigned long long>(counts.codes[f][code]));
    }
  }
}

void print_statuses(const Counts& counts) {
  std::printf("status of descriptors\n");
  for (const ExpectedStatus& e : expected_statuses()) {
    const std::string all = status_name(e.bit);
    std::string name = all.substr(0, all.find(" ("));
    if (!e.is_operation) name = name.substr(name.find('|') + 1);
    std::uint64_t times = 0;
    if (e.is_operation) {
      times = counts.operations[e.bit >> 16];
    } else {
      for (unsigned bit = 0; bit < 32; ++bit) {
        if (e.bit == 1U << bit) times = counts.status_bits[bit];
      }
    }
    line("status", name, times, e.unless, e.why);
  }
}

void print_errors(const Counts& counts) {
  std::printf("error handlers: codes\n");
  for (const ExpectedError& e : expected_errors()) {
    std::uint64_t times = 0;
    for (const std::uint64_t n : counts.errors[e.error]) times += n;
    line("error", error_name(e.error), times, e.unless, e.why);
  }
  std::printf("error handlers: resources\n");
  for (const ExpectedResource& e : expected_resources()) {
    std::uint64_t times = 0;
    for (const auto& row : counts.errors) times += row[e.resource];
    line("resource", resource_name(e.resource), times, e.unless, e.why);
  }
}

void print_checklist() {
  std::printf("checklist\n");
  for (int item = 1; item <= kChecklistItems; ++item) {
    const auto found = checklist.find(item);
    if (found == checklist.end()) {
      std::printf("  %2d MISSING\n", item);
      missing.push_back("checklist " + std::to_string(item));
      continue;
    }
    std::printf("  %2d", item);
    for (const std::string& test : found->second) std::printf(" %s", test.c_str());
    std::printf("\n");
  }
}

}  // namespace

void note_nics(const NicAttributes& near, const NicAttributes& far) {
  two_hosts = near.address != far.address;
  levels = near.reliability_levels;
  read_levels = near.rdma_read_levels;
}

void note_checklist(int number, const std::string& test) { checklist[number].push_back(test); }

int print_coverage() {
  const Counts counts = recorded();
  std::printf("\n--- coverage: times that each was seen\n");
  missing.clear();
  print_functions(counts);
  print_statuses(counts);
  print_errors(counts);
  print_checklist();
  if (counts.unknown > 0) {
    std::printf("codes that do not exist %33llu\n",
                static_cast<unsigned long long>(counts.unknown));
    missing.push_back("a list of codes without those that do not exist");
  }
  std::printf("--- %zu missing\n", missing.size());
  for (const std::string& name : missing) std::printf("missing: %s\n", name.c_str());
  return static_cast<int>(missing.size());
}

}  // namespace conformance
