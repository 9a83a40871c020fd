// The options of a lane, and the places that it needs for them.
#ifndef VIADUCT_SOVIA_LANE_LANE_OPTIONS_H
#define VIADUCT_SOVIA_LANE_LANE_OPTIONS_H

#include <cstddef>
#include <cstdint>

namespace viaduct::sovia {

// The number of ACK packets of one end that may be on their way.
inline constexpr std::uint32_t kMostAcks = 32;

bool copy_plainly(void* to, const void* from, std::size_t bytes);

struct LaneOptions {
  std::uint32_t window = 32;         // w, of this end
  std::uint32_t ack_threshold = 16;  // t <= w
  bool combine = true;               // small sends
  // Copies from or to the program's memory. False: that can't be read or written.
  bool (*copy)(void* to, const void* from, std::size_t bytes) = copy_plainly;
  bool messages = false;  // the peer may write to memory (lane_sinks.h)
  bool join = true;       // sends may share a packet that waits for credits
  // Data that lacks credits waits in the program's call, not in the lane, and each unread packet counts against the
  // window.
  bool strict_window = false;
  bool timer = false;  // small sends wait until flush(), whatever is on its way
  // The window with which a lane begins. It grows to w when the peer has used it up, so that a connection with little
  // data has few receives, which all take memory in turn. 0: w from the beginning.
  std::uint32_t first_window = 0;
};
// The options with window and threshold inside the limits of a lane.
LaneOptions within_limits(LaneOptions options);

// Places that a transport needs.
struct LanePlaces {
  std::uint32_t data, control, receive;
  std::uint32_t writes;  // 0: the lane has none
  std::uint32_t receive_at_first;  // of `receive`: those that are posted before the peer is there
};
LanePlaces places_for(const LaneOptions& options);
// The receives that an end needs with this window, if the peer may have `acks` ACK packets on their way.
std::uint32_t receives_for(const LaneOptions& options, std::uint32_t window, std::uint32_t acks);
// The number of ACK packets that an end may have on their way.
std::uint32_t most_acks(const LaneOptions& options);

}  // namespace viaduct::sovia

#endif
