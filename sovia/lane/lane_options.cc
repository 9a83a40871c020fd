#include "sovia/lane/lane_options.h"

#include <algorithm>
#include <cstring>

#include "sovia/lane/packet.h"

namespace viaduct::sovia {
namespace {

// Packets that an end sends at most once: WAKEUP, TRUST, FIN, FINACK, LEAVE.
constexpr std::uint32_t kOnce = 5;

// The peer posts receives for ACK packets beside the window. Most ends have few on their way, and say so in their Hello.
constexpr std::uint32_t kFewAcks = 4;

// GROW packets: an end sends the next one when all credits of the last have been used.
constexpr std::uint32_t kGrows = 1;

// SINK, PLACED and REVOKED packets of one end that may be on their way: two sinks of which the first is void, a packet
// that takes the second back, and the answers to the peer's sinks.
constexpr std::uint32_t kMostSinks = 8;
constexpr std::uint32_t kWrites = 16;

}  // namespace

LaneOptions within_limits(LaneOptions options) {
  options.window = std::clamp(options.window, 1u, kMostWindow);
  const std::uint32_t least = (options.window + kMostAcks - 1) / kMostAcks;
  options.ack_threshold = std::clamp(options.ack_threshold, least, options.window);
  if (options.first_window == 0 || options.strict_window) options.first_window = options.window;
  options.first_window = std::min(options.first_window, options.window);
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
  const std::uint32_t first_acks = options.first_window == options.window ? kMostAcks : kFewAcks;
  return {options.window + std::max(options.ack_threshold, 8u), kMostAcks + kOnce + kGrows + sinks,
          receives_for(options, options.window, kMostAcks), options.messages ? kWrites : 0,
          receives_for(options, options.first_window, first_acks)};
}

std::uint32_t receives_for(const LaneOptions& options, std::uint32_t window, std::uint32_t acks) {
  return window + acks + kOnce + kGrows + (options.messages ? kMostSinks : 0);
}

// Each ACK holds as many credits as the threshold, of a window. While the window grows there are no others.
std::uint32_t most_acks(const LaneOptions& options) {
  return std::min(kMostAcks, (options.window + options.ack_threshold - 1) / options.ack_threshold + 2);
}

}  // namespace viaduct::sovia
