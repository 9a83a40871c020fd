// Congestion control by delay: a connection that makes a queue in the network narrows its window until the queue is
// short. A queue of a few frames keeps a link as busy as one of hundreds, and small messages of all who share the link
// wait behind it.
//
// Round trips tell the queue. Some are much longer where processors are busy: there is a queue only if most of a period
// are alike, or frames have been lost to it. The least one counts.
// The round trip that is aimed at is the same for all, so that connections that share a queue get the same of the link.
// It does not depend on the least one that was ever seen: a connection that begins beside others sees their queue, too.
//
// A narrower window makes the queue shorter, and nothing slower, if the link is what limits. If round trips stay as long,
// the network is longer than a local one, or others fill the queue who do not care, or processors are what is waited for:
// then the window is as wide again as it was, and losses alone narrow it (congestion.h), until the queue is tried again
// some time later.
//
//     open --long round trips--> short <---short round trips, or a while later--- competes
//        ^                         | '---------------cuts in vain---------------------^
//        '----- widest window -----'
#ifndef VIADUCT_KAGENT_STACK_DELAY_H
#define VIADUCT_KAGENT_STACK_DELAY_H

#include <algorithm>
#include <cstdint>

#include "kagent/stack/delay_state.h"
#include "kagent/stack/vi_state.h"

namespace viaduct::delay {

using state::Delay;
using state::QueueMode;
using state::Vi;

inline constexpr std::uint32_t kRoundTrip = 300'000;  // ns, of a local network whose queue is short
inline constexpr std::uint32_t kNarrow = 6;           // frames; for a window of so many it may be twice as long
inline constexpr unsigned kAlike = 6;                 // round trips of a period that are at most twice the least one
inline constexpr std::uint32_t kLeast = 4;            // frames in the window that is kept short
inline constexpr unsigned kMostVain = 4;              // cuts in a row that do not help
inline constexpr unsigned kMostCuts = 12;
inline constexpr std::uint64_t kCompetesFor = 500'000'000;  // ns, doubled each time
inline constexpr std::uint8_t kMostTrials = 5;

inline std::uint32_t target(const Vi& vi) {
  return kRoundTrip + kRoundTrip * kNarrow / std::max<std::uint32_t>(vi.tx.congestion_window, 1);
}

inline void set_mode(Vi& vi, Delay& delay, QueueMode mode) {
  delay.mode = mode;
  vi.tx.keeps_queue_short = mode == QueueMode::kShort;
  delay.cuts = delay.vain = delay.grows = 0;
}

inline void begin_period(Delay& delay) { delay.count = 0; }

// For a new connection.
inline void begin(Vi& vi, Delay& delay) {
  delay = {};
  set_mode(vi, delay, QueueMode::kOpen);
}

// The connection has been idle, and the window is measured anew. One that keeps the queue short begins with no more than
// it had.
inline void go_on(Vi& vi, Delay& delay, std::uint16_t window_before) {
  begin_period(delay);
  if (vi.tx.keeps_queue_short != 0) vi.tx.congestion_window = std::min(vi.tx.congestion_window, window_before);
}

inline void compete(Vi& vi, Delay& delay, std::uint64_t now) {
  set_mode(vi, delay, QueueMode::kCompetes);
  vi.tx.congestion_window = std::max(vi.tx.congestion_window, delay.window);
  delay.due = now + (kCompetesFor << delay.trials);
  if (delay.trials < kMostTrials) ++delay.trials;
}

// The round trips of the period were longer than `wanted`.
inline void cut(Vi& vi, Delay& delay, std::uint32_t floor, std::uint32_t wanted, std::uint64_t now) {
  if (delay.mode != QueueMode::kShort) set_mode(vi, delay, QueueMode::kShort);
  if (delay.cuts == 0) {
    delay.window = vi.tx.congestion_window;
  } else {
    delay.vain = floor > delay.expected ? delay.vain + 1 : 0;
  }
  if (delay.vain >= kMostVain || delay.cuts >= kMostCuts) return compete(vi, delay, now);
  ++delay.cuts;
  delay.grows = 0;
  const std::uint32_t window = vi.tx.congestion_window;
  const auto fits = static_cast<std::uint32_t>(std::uint64_t{window} * wanted / floor);
  const std::uint32_t narrower = std::max(std::clamp(fits, window / 2, window - window / 8), kLeast);
  // Half of the round trip that the cut takes away, if it is all ours.
  const std::uint32_t less = window > narrower ? window - narrower : 0;
  delay.expected = static_cast<std::uint32_t>(floor - std::uint64_t{floor} * less / window / 2);
  vi.tx.congestion_window = static_cast<std::uint16_t>(narrower);
}

inline void end_period(Vi& vi, Delay& delay, std::uint64_t now) {
  std::sort(delay.samples, delay.samples + state::kRoundTrips);
  const std::uint32_t floor = delay.samples[0], wanted = target(vi);
  if (floor > wanted) {
    const bool queue = delay.samples[kAlike - 1] / 2 <= floor || vi.tx.losses == state::Losses::kQueue;
    if (queue && (delay.mode != QueueMode::kCompetes || now >= delay.due)) cut(vi, delay, floor, wanted, now);
    return;
  }
  if (delay.mode == QueueMode::kOpen) return;
  if (delay.mode == QueueMode::kCompetes) set_mode(vi, delay, QueueMode::kShort);
  delay.cuts = delay.vain = delay.trials = 0;
  delay.grows = floor < wanted / 4 * 3;
  if (floor < wanted / 2 && vi.tx.losses == state::Losses::kNone) {
    const std::uint32_t window = vi.tx.congestion_window;
    vi.tx.congestion_window = static_cast<std::uint16_t>(std::min(window + window / 2, state::kWindow));
    if (vi.tx.congestion_window == state::kWindow) set_mode(vi, delay, QueueMode::kOpen);
  }
}

// A round trip has been measured, in ns. `limited`: the window was in use, so the connection may have made the queue
// itself.
[[gnu::noinline]] inline void note_round_trip(Vi& vi, Delay& delay, std::uint64_t time, bool limited, std::uint64_t now) {
  if (!limited) return begin_period(delay);
  delay.samples[delay.count++] = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(time, 1, 0x3fffffff));
  if (delay.count < state::kRoundTrips) return;
  end_period(vi, delay, now);
  begin_period(delay);
}

}  // namespace viaduct::delay

#endif
