// The queue that a connection makes in the network, as far as it knows.
#ifndef VIADUCT_KAGENT_STACK_DELAY_STATE_H
#define VIADUCT_KAGENT_STACK_DELAY_STATE_H

#include <cstdint>

namespace viaduct::state {

// kOpen: it has made no queue yet. kShort: its window keeps the queue short. kCompetes: narrower windows did not make
// the queue shorter, so losses alone set the window.
inline constexpr unsigned kRoundTrips = 8;  // in a period

enum class QueueMode : std::uint8_t { kOpen, kShort, kCompetes };

struct Delay {
  std::uint64_t due;       // kCompetes: when the queue is tried again
  std::uint32_t expected;  // least round trip after the last cut, if it helps, ns
  std::uint16_t window;    // before the cuts, frames
  QueueMode mode;
  std::uint8_t count;      // of samples
  std::uint8_t cuts;       // in a row; 0: the queue is short
  std::uint8_t vain;       // of these, in a row, that did not help
  std::uint8_t trials;     // in vain, in a row
  std::uint8_t grows;      // 1: the queue is so short that the window may grow
  std::uint32_t samples[kRoundTrips];  // round trips of the period, ns
};

}  // namespace viaduct::state

#endif
