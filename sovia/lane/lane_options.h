// The options of a lane, and the places that it needs for them.
#ifndef VIADUCT_SOVIA_LANE_LANE_OPTIONS_H
#define VIADUCT_SOVIA_LANE_LANE_OPTIONS_H

#include <cstddef>
#include <cstdint>

namespace viaduct::sovia {

// The number of MORE packets of one end that may be on their way.
inline constexpr std::uint32_t kMostMores = 2;

bool copy_plainly(void* to, const void* from, std::size_t bytes);

struct LaneOptions {
  std::uint32_t window = 32;         // w, of this end
  std::uint32_t ack_threshold = 16;  // t <= w
  bool combine = true;               // small sends
  bool settles = false;              // settled() will be called
  // Copies from or to the program's memory. False: that can't be read or written.
  bool (*copy)(void* to, const void* from, std::size_t bytes) = copy_plainly;
  bool messages = false;  // the peer may write to memory (lane_sinks.h)
  bool join = true;       // sends may share a packet that waits for credits
  // Data that lacks credits waits in the program's call, not in the lane, and each unread packet counts against the
  // window.
  bool strict_window = false;
  bool timer = false;  // small sends wait until flush(), whatever is on its way
};
// The options with window and threshold inside the limits of a lane.
LaneOptions within_limits(LaneOptions options);

// Places that a transport needs.
struct LanePlaces {
  std::uint32_t data, control, receive;
  std::uint32_t writes;  // 0: the lane has none
};
LanePlaces places_for(const LaneOptions& options);

}  // namespace viaduct::sovia

#endif
