#include "tests/scale/meter.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

namespace scale {

std::uint64_t resident_kib(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string word; status >> word;) {
    std::uint64_t kib;
    if (word == "VmRSS:" && status >> kib) return kib;
  }
  return 0;
}

Meter::Meter(std::string what, std::uint64_t operations, const std::vector<pid_t>& watched)
    : what_(std::move(what)),
      tenth_(std::max<std::uint64_t>(operations / 10, 1)),
      processes_{getpid()},
      begun_(std::chrono::steady_clock::now()) {
  processes_.insert(processes_.end(), watched.begin(), watched.end());
}

void Meter::note() {
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::duration<double, std::nano> time = now - begun_;
  Tenth tenth{time.count() / static_cast<double>(tenth_), {}};
  for (const pid_t process : processes_) tenth.kib.push_back(resident_kib(process));
  tenths_.push_back(tenth);
  begun_ = std::chrono::steady_clock::now();
}

double Meter::change() const {
  return tenths_.empty() ? 0 : tenths_.back().ns / tenths_.front().ns;
}

bool Meter::report(std::uint64_t allowed_kib) const {
  for (std::size_t i = 0; i < tenths_.size(); ++i) {
    std::printf("%s, tenth %2zu: %9.0f ns each, resident KiB:", what_.c_str(), i + 1, tenths_[i].ns);
    for (const std::uint64_t kib : tenths_[i].kib) std::printf(" %llu", static_cast<unsigned long long>(kib));
    std::printf("\n");
  }
  bool steady = true;
  std::uint64_t most = 0;
  for (std::size_t p = 0; p < processes_.size() && tenths_.size() > 2; ++p) {
    const std::uint64_t before = tenths_[1].kib[p], after = tenths_.back().kib[p];
    const std::uint64_t grown = after > before ? after - before : 0;
    most = std::max(most, grown);
    steady &= grown <= allowed_kib;
  }
  std::printf("%s: %llu operations; last tenth / first tenth %.3f; grown by %llu KiB at most%s\n",
              what_.c_str(), static_cast<unsigned long long>(done_), change(),
              static_cast<unsigned long long>(most), steady ? "" : " (TOO MUCH)");
  std::fflush(stdout);
  return steady;
}

}  // namespace scale
