#include "sovia/lane/lane_options.h"

#include <algorithm>
#include <cstring>

#include "sovia/lane/packet.h"

namespace viaduct::sovia {
namespace {

// Packets that an end sends at most once: WAKEUP, TRUST, START, FIN, FINACK, LEAVE, PARK.
constexpr std::uint32_t kOnce = 7;

// ACK packets of one end that may be on their way: the peer posts receives for them beside the window.
constexpr std::uint32_t kMostAcks = 32;

// SINK, PLACED and REVOKED packets of one end that may be on their way: two sinks of which the first is void, a packet
// that takes the second back, and the answers to the peer's sinks.
constexpr std::uint32_t kMostSinks = 8;
constexpr std::uint32_t kWrites = 16;

}  // namespace

LaneOptions within_limits(LaneOptions options) {
  options.window = std::clamp(options.window, 1u, kMostWindow);
  const std::uint32_t least = (options.window + kMostAcks - 1) / kMostAcks;
  options.ack_threshold = std::clamp(options.ack_threshold, least, options.window);
  return options;
}

bool copy_plainly(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
  return true;
}

// There are more data places than the window: sends complete a little later than their credits come back, and a program
// may go on writing while it waits for credits.
LanePlaces places_for(const LaneOptions& asked) {
  const LaneOptions options = within_limits(asked);
  const std::uint32_t sinks = options.messages ? kMostSinks : 0;
  return {options.window + std::max(options.ack_threshold, 8u), kMostAcks + kMostMores + kOnce + sinks,
          options.window + kMostAcks + kMostMores + 1 + kOnce + sinks, options.messages ? kWrites : 0};
}

}  // namespace viaduct::sovia
