#include "tests/scale/meter.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

namespace scale {
namespace {

constexpr std::uint64_t kBlocks = 100;  // in a tenth, at most

double since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

double median(std::vector<double>& values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Meter::Meter(std::string what, std::uint64_t operations, const std::vector<pid_t>& watched)
    : what_(std::move(what)),
      block_(std::max<std::uint64_t>(operations / 10 / kBlocks, 1)),
      tenth_(std::max<std::uint64_t>(operations / 10 / block_, 1) * block_),
      processes_{getpid()} {
  processes_.insert(processes_.end(), watched.begin(), watched.end());
  for (const Use& use : all_uses()) processor_before_ += use.processor_ns;
  block_begin_ = tenth_begin_ = std::chrono::steady_clock::now();
}

Meter::Use Meter::use_of(pid_t process) {
  Use use{};
  const std::string directory = "/proc/" + std::to_string(process);
  std::ifstream status(directory + "/status");
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") status >> use.resident_kib;
    if (word == "VmData:") status >> use.data_kib;
  }
  clockid_t clock;
  timespec spent;
  if (clock_getcpuclockid(process, &clock) == 0 && clock_gettime(clock, &spent) == 0) {
    use.processor_ns = static_cast<double>(spent.tv_sec) * 1e9 + static_cast<double>(spent.tv_nsec);
  }
  return use;
}

std::vector<Meter::Use> Meter::all_uses() const {
  std::vector<Use> uses;
  for (const pid_t process : processes_) uses.push_back(use_of(process));
  return uses;
}

void Meter::end_block() {
  blocks_.push_back(since(block_begin_) / static_cast<double>(block_));
  if (done_ % tenth_ == 0) end_tenth();
  block_begin_ = std::chrono::steady_clock::now();
}

void Meter::end_tenth() {
  const auto operations = static_cast<double>(tenth_);
  Tenth tenth{since(tenth_begin_) / operations, median(blocks_),
              *std::max_element(blocks_.begin(), blocks_.end()), 0, all_uses()};
  double processor = 0;
  for (const Use& use : tenth.uses) processor += use.processor_ns;
  tenth.processor = (processor - processor_before_) / operations;
  processor_before_ = processor;
  blocks_.clear();
  tenths_.push_back(std::move(tenth));
  tenth_begin_ = std::chrono::steady_clock::now();
}

bool Meter::report(std::uint64_t allowed_kib) const {
  for (std::size_t i = 0; i < tenths_.size(); ++i) {
    const Tenth& tenth = tenths_[i];
    std::printf("%s, tenth %2zu: mean %.0f, typical %.0f, slowest %.0f, processors %.0f ns; KiB "
                "(resident/data):",
                what_.c_str(), i + 1, tenth.mean, tenth.typical, tenth.slowest, tenth.processor);
    for (const Use& use : tenth.uses) {
      std::printf(" %llu/%llu", static_cast<unsigned long long>(use.resident_kib),
                  static_cast<unsigned long long>(use.data_kib));
    }
    std::printf("\n");
  }
  std::uint64_t most = 0;
  for (std::size_t p = 0; p < processes_.size() && tenths_.size() > 2; ++p) {
    const Use &before = tenths_[1].uses[p], &after = tenths_.back().uses[p];
    const auto grown = [](std::uint64_t from, std::uint64_t to) { return to > from ? to - from : 0; };
    most = std::max({most, grown(before.resident_kib, after.resident_kib),
                     grown(before.data_kib, after.data_kib)});
  }
  std::printf("%s: %llu operations;", what_.c_str(), static_cast<unsigned long long>(done_));
  if (tenths_.size() > 1) {
    const Tenth &first = tenths_.front(), &last = tenths_.back();
    std::printf(" last tenth / first tenth: mean %.3f, typical %.3f, processors %.3f;",
                last.mean / first.mean, last.typical / first.typical,
                last.processor / first.processor);
  }
  std::printf(" grown by %llu KiB at most%s\n", static_cast<unsigned long long>(most),
              most > allowed_kib ? " (TOO MUCH)" : "");
  std::fflush(stdout);
  return most <= allowed_kib;
}

}  // namespace scale
