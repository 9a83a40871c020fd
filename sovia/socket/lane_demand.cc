#include "sovia/socket/lane_demand.h"

#include <algorithm>

#include "sovia/process/clock.h"
#include "sovia/process/options.h"

namespace viaduct::sovia {
namespace {

constexpr std::uint32_t kCallsAgain = 64;  // before the second try for a lane, doubled each time
constexpr std::uint64_t kLongBurst = 4'096;  // bytes
constexpr std::uint32_t kMostCallsAgain = 1u << 20;
// A connection that lives for longer than this is worth a lane however little it moves: its bypass ends.
constexpr std::uint64_t kShortNs = 10'000'000;

}  // namespace

std::atomic<std::uint32_t> LaneDemand::g_round{1};

bool LaneDemand::count(Direction direction, std::uint64_t bytes) {
  if (bursts() == 0 || burst_direction_.load(std::memory_order_relaxed) != direction) {
    bursts_.fetch_add(1, std::memory_order_relaxed);
    burst_bytes_.store(0, std::memory_order_relaxed);
    burst_direction_.store(direction, std::memory_order_relaxed);
  }
  const std::uint64_t burst = burst_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  const std::uint32_t calls = calls_.fetch_add(1, std::memory_order_relaxed) + 1;
  const std::uint64_t all = bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (calls_needed_ != 0) return calls >= calls_needed_;
  // How large a burst is that goes on, the next calls show: many programs read large answers in small pieces.
  return (calls >= options().upgrade_after && burst < kLongBurst) || all >= options().upgrade_bytes;
}

void LaneDemand::put_off() {
  forget_all();
  bypass_until_.store(0);
  calls_needed_ = calls_needed_ == 0 ? kCallsAgain : std::min(2 * calls_needed_, kMostCallsAgain);
}

void LaneDemand::forget_all() {
  calls_.store(0);
  bytes_.store(0);
  bursts_.store(0);
}

void LaneDemand::begin_bypass() {
  calls_.store(calls_needed_);
  bypass_round_.store(kAnyRound);
  bypass_calls_.store(static_cast<std::int32_t>(calls_needed_));
}

void LaneDemand::bypass_this_round() {
  forget_all();
  calls_needed_ = 1;
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
