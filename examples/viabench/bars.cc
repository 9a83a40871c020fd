#include "examples/viabench/bars.h"

namespace viabench {
namespace {

struct Bar {
  const char* text;
  const char* measured;   // identities of cases; of several the best counts
  const char* reference;  // the same; NULL: the figure itself is judged
  const char* figure;     // NULL: the case's main figure
  bool at_most;
  double limit;
  std::uint32_t mtu;  // 0: whatever it is
};

constexpr bool kAtMost = true, kAtLeast = false;

// Of several identities the faster one counts, on either side: a program may choose how it waits.
constexpr Bar kBars[] = {
    {"granted, polling, 4 B one way / raw AF_XDP", "latency/granted/poll/rd/4", "latency/raw/4",
     nullptr, kAtMost, 1.35, 0},
    {"granted, polling, 4 B one way / TCP spinning", "latency/granted/poll/rd/4",
     "latency/tcp/poll/on/4,latency/tcp/poll/kept/4", nullptr, kAtMost, 0.65, 0},
    {"granted, blocking, 4 B one way / TCP blocking", "latency/granted/block/rd/4",
     "latency/tcp/block/on/4,latency/tcp/block/kept/4", nullptr, kAtMost, 0.5, 0},
    {"hosted, polling, 4 B one way / TCP spinning", "latency/hosted/poll/rd/4",
     "latency/tcp/poll/on/4,latency/tcp/poll/kept/4", nullptr, kAtMost, 1.25, 0},
    {"granted, 32 KB stream, MTU 1500 / raw AF_XDP",
     "bandwidth/granted/poll/rd/32768,bandwidth/granted/block/rd/32768", "bandwidth/raw/", nullptr,
     kAtLeast, 0.9, 1500},
    {"granted, 32 KB stream, MTU 1500 / TCP without segmentation offload",
     "bandwidth/granted/poll/rd/32768,bandwidth/granted/block/rd/32768",
     "bandwidth/tcp/poll/off/32768,bandwidth/tcp/block/off/32768", nullptr, kAtLeast, 1.1, 1500},
    {"granted, 32 KB stream, MTU 3498 / TCP with segmentation offload",
     "bandwidth/granted/poll/rd/32768,bandwidth/granted/block/rd/32768",
     "bandwidth/tcp/poll/on/32768,bandwidth/tcp/block/on/32768", nullptr, kAtLeast, 1.3, 3498},
    {"hosted, 32 KB stream, MTU 1500 / raw AF_XDP",
     "bandwidth/hosted/poll/rd/32768,bandwidth/hosted/block/rd/32768", "bandwidth/raw/", nullptr,
     kAtLeast, 0.75, 1500},
    {"granted, 64 B messages, 32 outstanding / raw AF_XDP frames",
     "rate/granted/poll/rd/64,rate/granted/block/rd/64", "rate/raw/64", nullptr, kAtLeast, 0.85, 0},
    {"granted, connections / TCP", "connect/granted/", "connect/tcp/", nullptr, kAtLeast, 1.5, 0},
    {"hosted, connections / TCP", "connect/hosted/", "connect/tcp/", nullptr, kAtLeast, 1, 0},
    {"granted, memory of a program with 16 VIs, bytes", "memory/granted/", nullptr, nullptr,
     kAtMost, 8e6, 0},
    {"granted, memory for each idle VI, bytes", "memory/granted/", nullptr,
     "bytes_for_each_idle_vi", kAtMost, 4096, 0},
};

}  // namespace

std::vector<Verdict> judge(const Results& results) {
  std::vector<Verdict> verdicts;
  for (const Bar& bar : kBars) {
    Verdict verdict{bar.text, bar.at_most, bar.limit, std::nullopt};
    const std::string figure = bar.figure == nullptr ? "" : bar.figure;
    const Result* const measured = results.best(bar.measured, figure);
    const bool here = bar.mtu == 0 || bar.mtu == results.mtu;
    if (here && measured != nullptr) {
      const double is = measured->summary(figure)->median;
      if (bar.reference == nullptr) {
        verdict.is = is;
      } else if (const Result* const r = results.best(bar.reference)) {
        verdict.is = is / r->summary()->median;
      }
    }
    verdicts.push_back(verdict);
  }
  return verdicts;
}

}  // namespace viabench
