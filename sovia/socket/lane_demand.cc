#include "sovia/socket/lane_demand.h"

#include <algorithm>

#include "sovia/process/clock.h"
#include "sovia/process/options.h"
#include "sovia/socket/burst.h"

namespace viaduct::sovia {
namespace {

constexpr std::uint32_t kCallsAgain = 64;  // before the second try for a lane, doubled each time
constexpr std::uint64_t kOpenBurst = 4'096;  // bytes; a burst that has so many may become a long one
constexpr std::uint32_t kLeastBursts = 3;    // that show that both ends send little
constexpr std::uint32_t kOneWayCalls = 4;
constexpr std::uint32_t kMostCallsAgain = 1u << 20;
// A connection that lives for longer than this is worth a lane however little it moves: its bypass ends.
constexpr std::uint64_t kShortNs = 10'000'000;

}  // namespace

std::atomic<std::uint32_t> LaneDemand::g_round{1};

LaneDemand::Verdict LaneDemand::count(Direction direction, std::uint64_t bytes, bool long_too) {
  if (bursts_.load(std::memory_order_relaxed) == 0 || burst_direction_.load(std::memory_order_relaxed) != direction) {
    bursts_.fetch_add(1, std::memory_order_relaxed);
    burst_bytes_.store(0, std::memory_order_relaxed);
    burst_direction_.store(direction, std::memory_order_relaxed);
  }
  const std::uint64_t burst = burst_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (burst >= Burst::kLongSend && !long_too) {
    calls_.store(0);
    bytes_.store(0);
    bursts_.store(1);
    return Verdict::kBypass;
  }
  const std::uint32_t calls = calls_.fetch_add(1, std::memory_order_relaxed) + 1;
  const std::uint64_t all = bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  // One that goes on in one direction shows it by more calls.
  const bool is_even = long_too || bursts_.load(std::memory_order_relaxed) >= kLeastBursts ||
                       calls >= kOneWayCalls * options().upgrade_after;
  const std::uint32_t needed = calls_needed_.load(std::memory_order_relaxed);
  const bool enough = needed != 0 ? calls >= needed
                                  : (calls >= options().upgrade_after && burst < kOpenBurst) ||
                                        all >= options().upgrade_bytes;
  return enough && is_even ? Verdict::kLane : Verdict::kNothing;
}

void LaneDemand::put_off() {
  forget_all();
  bypass_until_.store(0);
  const std::uint32_t before = calls_needed_.load(std::memory_order_relaxed);
  need(before == 0 ? kCallsAgain : std::min(2 * before, kMostCallsAgain));
}

void LaneDemand::forget_all() {
  calls_.store(0);
  bytes_.store(0);
  bursts_.store(0);
}

void LaneDemand::begin_bypass() {
  const std::uint32_t calls = calls_needed_.load(std::memory_order_relaxed);
  calls_.store(calls);
  bypass_round_.store(kAnyRound);
  bypass_calls_.store(static_cast<std::int32_t>(calls));
}

void LaneDemand::bypass_burst() {
  constexpr std::int32_t kLeast = 16, kMost = 1024;
  burst_calls_ = std::clamp(2 * burst_calls_, kLeast, kMost);
  bypass_until_.store(0);
  bypass_round_.store(kAnyRound);
  bypass_calls_.store(burst_calls_);
}

void LaneDemand::bypass_this_round() {
  forget_all();
  need(1);
  bypass_until_.store(0);
  bypass_round_.store(g_round.load());
  bypass_calls_.store(INT32_MAX);
}

void LaneDemand::limit_bypass() { bypass_until_.store(now_ns() + kShortNs); }

void LaneDemand::shorten_bypass() {
  constexpr std::int32_t kCallsAtRest = 1 << 16;  // some seconds of a busy connection
  if (bypass_calls_.load() > kCallsAtRest) bypass_calls_.store(kCallsAtRest);
}

void LaneDemand::end_bypass_unlike_others(std::uint64_t bytes) {
  const std::uint64_t all = bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (all < options().upgrade_bytes && now_ns() < bypass_until_.load()) return;
  bypass_until_.store(0);
  stop_bypass();
}

}  // namespace viaduct::sovia
