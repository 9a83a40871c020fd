// How much a connection may have in the network: round trips measured, and a window that losses
// narrow and acknowledgements widen.
//
// Each lost frame takes something off the window, and each window's worth of acknowledgements adds
// some frames. So what the window comes to depends on the share of the frames that is lost, and
// is the same for all that share a queue that drops. A loss counts in full only when a queue was
// full. Otherwise the link loses frames whatever we do, and to send less would not help.
//
// While a queue is full, round trips are about as long as they get. Processors that are busy make
// round trips longer, too, but some much longer than others: then most are shorter than half of the
// longest.
#ifndef VIADUCT_KAGENT_STACK_CONGESTION_H
#define VIADUCT_KAGENT_STACK_CONGESTION_H

#include <algorithm>
#include <cstdint>

#include "kagent/stack/vi_state.h"

namespace viaduct::congestion {

using state::kWindow;
using state::Losses;
using state::Vi;

inline constexpr std::uint16_t kFirst = 32;     // frames
inline constexpr std::uint32_t kWidenAfterQueueLoss = 2;  // frames in a round trip
inline constexpr std::uint32_t kWidenAfterLinkLoss = 4;
inline constexpr std::uint32_t kWidenShortQueue = 1;
inline constexpr std::uint32_t kLeastPrice = 2;  // acknowledged frames for one more in the window
inline constexpr std::uint32_t kNarrowest = 2;  // frames
inline constexpr std::uint32_t kWidestWithLosses = kWindow * 5 / 8;
inline constexpr std::uint32_t kFrame = 4;  // a frame; window_debt counts parts of it
inline constexpr std::uint32_t kQueueLoss = 4;
inline constexpr std::uint32_t kLinkLoss = 1;
inline constexpr std::uint32_t kNoise = 20'000;  // ns of a round trip that are no queue
// With each sample the least round trip rises, and the longest falls, by 1/2^this of the difference.
inline constexpr std::uint32_t kForgetLeast = 12;
inline constexpr std::uint32_t kForgetLongest = 7;

// `doubtful`: the frame was sent more than once, and `time` counts from the first time. Such a sample serves until a
// better one comes.
inline void measure_rtt(Vi& vi, std::uint64_t time, bool doubtful) {
  const auto sample = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(time, 1, 0x3fffffff));
  vi.tx.tail_probes = 0;
  if (vi.tx.least_rtt == 0) {
    vi.tx.smoothed_rtt = vi.tx.longest_rtt = sample;
    vi.tx.least_rtt = doubtful ? 0 : sample;
    vi.tx.rtt_variation = sample / 2;
    return;
  }
  const std::uint32_t off =
      sample > vi.tx.smoothed_rtt ? sample - vi.tx.smoothed_rtt : vi.tx.smoothed_rtt - sample;
  vi.tx.rtt_variation = static_cast<std::uint32_t>((3ull * vi.tx.rtt_variation + off) / 4);
  vi.tx.smoothed_rtt = static_cast<std::uint32_t>((7ull * vi.tx.smoothed_rtt + sample) / 8);
  if (sample < vi.tx.least_rtt) {
    vi.tx.least_rtt = sample;
  } else {
    vi.tx.least_rtt += (sample - vi.tx.least_rtt) >> kForgetLeast;
  }
  if (sample > vi.tx.longest_rtt) {
    vi.tx.longest_rtt = sample;
  } else {
    vi.tx.longest_rtt -= (vi.tx.longest_rtt - sample) >> kForgetLongest;
  }
}

inline void begin_window(Vi& vi) {
  vi.tx.congestion_window = kFirst;
  vi.tx.window_credit = 0;
  vi.tx.window_debt = 0;
  vi.tx.losses = Losses::kNone;
}

// Widens the window: to the double in each round trip until a frame is lost.
inline void widen_window(Vi& vi, std::uint32_t acknowledged) {
  vi.tx.window_credit = static_cast<std::uint16_t>(vi.tx.window_credit + acknowledged);
  std::uint32_t price = 1;
  if (vi.tx.losses != Losses::kNone || vi.tx.keeps_queue_short != 0) {
    const std::uint32_t widen = vi.tx.keeps_queue_short != 0       ? kWidenShortQueue
                                : vi.tx.losses == Losses::kQueue ? kWidenAfterQueueLoss
                                                                 : kWidenAfterLinkLoss;
    price = std::max(vi.tx.congestion_window / widen, kLeastPrice);
    if (vi.tx.window_credit < price) return;
  }
  const std::uint32_t more = vi.tx.window_credit / price;
  vi.tx.window_credit = static_cast<std::uint16_t>(vi.tx.window_credit % price);
  vi.tx.congestion_window =
      static_cast<std::uint16_t>(std::min(vi.tx.congestion_window + more, kWindow));
}

inline bool queue_is_filled(const Vi& vi) {
  return vi.tx.smoothed_rtt > vi.tx.least_rtt + vi.tx.least_rtt / 8 + kNoise &&
         vi.tx.smoothed_rtt > vi.tx.least_rtt / 2 + vi.tx.longest_rtt / 2;
}

// How many frames of the window the network carries without its queue.
inline std::uint32_t carried(const Vi& vi) {
  const std::uint32_t least = std::min(vi.tx.least_rtt, vi.tx.smoothed_rtt);
  return static_cast<std::uint32_t>(std::uint64_t{vi.tx.congestion_window} * least / std::max(vi.tx.smoothed_rtt, 1u));
}

// While a gap is being filled new frames go on, but no more than the network carries without its
// queue: so the gap is filled sooner, and others that share the queue see it empty from time to time.
[[gnu::noinline]] inline std::uint32_t window_behind_gap(const Vi& vi) {
  if (vi.tx.least_rtt == 0 || !queue_is_filled(vi)) return vi.tx.congestion_window;
  return std::max(carried(vi), kNarrowest);
}

[[gnu::noinline]] inline void narrow_window(Vi& vi, std::uint32_t lost) {
  const bool queue = queue_is_filled(vi);
  vi.tx.losses = queue ? Losses::kQueue : Losses::kLink;
  const std::uint32_t debt = vi.tx.window_debt + lost * (queue ? kQueueLoss : kLinkLoss);
  vi.tx.window_debt = static_cast<std::uint8_t>(debt % kFrame);
  // A lost frame holds up the acknowledgement for two round trips, and no more than kWindow frames
  // can be behind it.
  const std::uint32_t window = std::min<std::uint32_t>(vi.tx.congestion_window, kWidestWithLosses);
  const std::uint32_t frames = std::min(debt / kFrame, window);
  vi.tx.congestion_window = static_cast<std::uint16_t>(std::max(window - frames, kNarrowest));
}

inline void halve_window(Vi& vi) {
  vi.tx.losses = Losses::kQueue;
  vi.tx.congestion_window =
      static_cast<std::uint16_t>(std::max(vi.tx.congestion_window / 2u, kNarrowest));
}

}  // namespace viaduct::congestion

#endif
