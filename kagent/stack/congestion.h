// How much a connection may have in the network: round trips measured, and a window that losses
// narrow and acknowledgements widen.
//
// Each lost frame takes something off the window, and each window's worth of acknowledgements adds
// kWiden frames. So what the window comes to depends on the share of the frames that is lost, and
// is the same for all who share a queue that drops. A loss counts in full only when the round trip
// has become longer than it need be: then a queue was full. Otherwise the link loses frames
// whatever we do, and to send less would not help.
#ifndef VIADUCT_KAGENT_STACK_CONGESTION_H
#define VIADUCT_KAGENT_STACK_CONGESTION_H

#include <algorithm>
#include <cstdint>

#include "kagent/stack/stack_state.h"

namespace viaduct::congestion {

using state::kWindow;
using state::Losses;
using state::Vi;

inline constexpr std::uint16_t kFirst = 32;     // frames
inline constexpr std::uint32_t kWiden = 3;      // frames in a round trip
inline constexpr std::uint32_t kNarrowest = 2;  // frames
inline constexpr std::uint32_t kWidestWithLosses = kWindow * 5 / 8;
inline constexpr std::uint32_t kFrame = 4;  // of which window_debt counts the parts
inline constexpr std::uint32_t kQueueLoss = 4;
inline constexpr std::uint32_t kLinkLoss = 1;
inline constexpr std::uint32_t kNoise = 20'000;  // ns of a round trip that are no queue
inline constexpr std::uint32_t kForget = 12;     // the least round trip follows each by 1/2^this

// `doubtful`: the frame was sent more than once, and it counts from the first time. That is good
// until something better comes.
inline void measure_rtt(Vi& vi, std::uint64_t time, bool doubtful) {
  const auto sample = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(time, 1, 0x3fffffff));
  if (vi.least_rtt == 0) {
    vi.smoothed_rtt = sample;
    vi.least_rtt = doubtful ? 0 : sample;
    vi.rtt_variation = sample / 2;
    return;
  }
  const std::uint32_t off =
      sample > vi.smoothed_rtt ? sample - vi.smoothed_rtt : vi.smoothed_rtt - sample;
  vi.rtt_variation = static_cast<std::uint32_t>((3ull * vi.rtt_variation + off) / 4);
  vi.smoothed_rtt = static_cast<std::uint32_t>((7ull * vi.smoothed_rtt + sample) / 8);
  if (sample < vi.least_rtt) {
    vi.least_rtt = sample;
  } else {
    vi.least_rtt += (sample - vi.least_rtt) >> kForget;
  }
}

inline void begin_window(Vi& vi) {
  vi.congestion_window = kFirst;
  vi.window_credit = 0;
  vi.window_debt = 0;
  vi.losses = Losses::kNone;
}

// Doubled in each round trip until a queue was full.
inline void widen_window(Vi& vi, std::uint32_t acknowledged) {
  vi.window_credit = static_cast<std::uint16_t>(vi.window_credit + acknowledged);
  const bool doubling = vi.losses != Losses::kQueue;
  if (!doubling && vi.window_credit < vi.congestion_window / kWiden) return;
  const std::uint32_t more = doubling ? vi.window_credit : 1;
  vi.window_credit = 0;
  vi.congestion_window = static_cast<std::uint16_t>(std::min(vi.congestion_window + more, kWindow));
}

inline bool queue_is_filled(const Vi& vi) {
  return vi.smoothed_rtt > vi.least_rtt + vi.least_rtt / 8 + kNoise;
}

// While a gap is being filled new frames go on, but no more than the network carries without its
// queue: so the gap is filled sooner, and those who share the queue see it empty from time to time.
[[gnu::noinline]] inline std::uint32_t window_behind_gap(const Vi& vi) {
  const std::uint32_t window = vi.congestion_window;
  if (vi.least_rtt == 0 || !queue_is_filled(vi)) return window;
  const std::uint64_t carried = std::uint64_t{window} * vi.least_rtt / vi.smoothed_rtt;
  return std::max(static_cast<std::uint32_t>(carried), kNarrowest);
}

[[gnu::noinline]] inline void narrow_window(Vi& vi, std::uint32_t lost) {
  const bool queue = queue_is_filled(vi);
  vi.losses = queue || lost * 8 >= vi.congestion_window || vi.losses == Losses::kQueue
                  ? Losses::kQueue
                  : Losses::kLink;
  const std::uint32_t debt = vi.window_debt + lost * (queue ? kQueueLoss : kLinkLoss);
  vi.window_debt = static_cast<std::uint8_t>(debt % kFrame);
  // A lost frame holds up the acknowledgement for two round trips, and no more than kWindow frames
  // can be behind it.
  const std::uint32_t window = std::min<std::uint32_t>(vi.congestion_window, kWidestWithLosses);
  const std::uint32_t frames = std::min(debt / kFrame, window);
  vi.congestion_window = static_cast<std::uint16_t>(std::max(window - frames, kNarrowest));
}

inline void halve_window(Vi& vi) {
  vi.losses = Losses::kQueue;
  vi.congestion_window =
      static_cast<std::uint16_t>(std::max(vi.congestion_window / 2u, kNarrowest));
}

}  // namespace viaduct::congestion

#endif
