#include "sovia/process/clock.h"

#include <time.h>

#include <algorithm>

namespace viaduct::sovia {
namespace {

constexpr std::uint64_t kNsPerMs = 1'000'000;
constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
constexpr std::uint64_t kYears = 1'000'000'000;  // in seconds

}  // namespace

std::uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * kNsPerSecond +
         static_cast<std::uint64_t>(now.tv_nsec);
}

std::uint64_t deadline_in_ms(long timeout_ms) {
  if (timeout_ms < 0) return kNever;
  return now_ns() + static_cast<std::uint64_t>(timeout_ms) * kNsPerMs;
}

std::uint64_t deadline_in(const timespec* timeout) {
  if (timeout == nullptr) return kNever;
  const auto seconds = std::min(static_cast<std::uint64_t>(timeout->tv_sec), kYears);
  return now_ns() + seconds * kNsPerSecond + static_cast<std::uint64_t>(timeout->tv_nsec);
}

timespec until(std::uint64_t deadline) {
  const std::uint64_t now = now_ns();
  const std::uint64_t left = std::min(deadline > now ? deadline - now : 0, kYears * kNsPerSecond);
  return {static_cast<time_t>(left / kNsPerSecond), static_cast<long>(left % kNsPerSecond)};
}

}  // namespace viaduct::sovia
