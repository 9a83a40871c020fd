#include "vipl/idle.h"

#include "vipl/environment.h"
#include "vipl/sys.h"

namespace viaduct::vipl {
namespace {

constexpr unsigned kFewProcessors = 4;        // fewer than this are few
constexpr std::uint32_t kPausesFirst = 2;     // few: looks before the first yield
constexpr std::uint32_t kYieldEvery = 4096;   // many: looks between yields
constexpr std::uint32_t kLooksPerClock = 64;  // looks between readings of the clock ...
constexpr std::uint32_t kYieldsPerClock = 4;  // ... and when each of them yields
// Few, but what is awaited is this thread's own doing: looks between yields.
constexpr std::uint32_t kYieldSeldom = 128;

bool g_few_processors = true;

}  // namespace

std::uint64_t now_ns() { return sys::monotonic_ns(); }

void nap() {
  std::atomic<std::uint32_t> nobody{0};
  constexpr std::uint64_t kNapNs = 1'000'000;
  sys::futex_wait(nobody, 0, now_ns() + kNapNs);
}

std::uint64_t deadline_after(std::uint64_t now, std::uint64_t timeout_ms) {
  return timeout_ms >= 0xffffffff ? kNever : now + timeout_ms * 1'000'000u;
}

void look_at_processors() {
  unsigned long mask[128] = {};
  if (sys::affinity(mask, sizeof mask) < 0) return;
  unsigned count = 0;
  for (const unsigned long word : mask) {
    for (unsigned long bits = word; bits != 0; bits &= bits - 1) ++count;
  }
  g_few_processors = count < kFewProcessors;
}

std::uint64_t spin_time(std::uint32_t recommended_us) {
  const std::uint64_t us = environment::spin_us(recommended_us);
  constexpr std::uint64_t kMostUs = 10'000'000;
  return (us < kMostUs ? us : kMostUs) * 1000;
}

bool missed(std::uint32_t& misses, bool others) {
  ++misses;
  if (!others) {
    if (g_few_processors && misses % kYieldSeldom == 0) sys::yield();
    return false;
  }
  if (g_few_processors ? misses > kPausesFirst : misses % kYieldEvery == 0) {
    sys::yield();
    return true;
  }
  relax();
  return false;
}

bool Spinner::again() {
  ++looks_;
  if (!others_) {
    if (looks_ % kLooksPerClock == 0 && now_ns() >= until_) return false;
    if (g_few_processors && looks_ % kYieldSeldom == 0) sys::yield();
    return true;
  }
  const bool yields = g_few_processors && looks_ > kPausesFirst;
  if (looks_ % (yields ? kYieldsPerClock : kLooksPerClock) == 0 && now_ns() >= until_) return false;
  if (yields || looks_ % kYieldEvery == 0) {
    sys::yield();
  } else {
    relax();
  }
  return true;
}

}  // namespace viaduct::vipl
