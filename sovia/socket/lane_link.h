// The lane of a socket, as the socket knows it: asked for, opened, and over.
#ifndef VIADUCT_SOVIA_SOCKET_LANE_LINK_H
#define VIADUCT_SOVIA_SOCKET_LANE_LINK_H

#include <atomic>
#include <cstdint>

#include "sovia/process/reason.h"
#include "sovia/socket/shown_socket.h"

namespace viaduct::sovia {

class LaneEndpoint;

struct LaneLink {
  enum class Stage : std::uint8_t { kNone, kAsked, kOpen };

  // Whether data of either direction may go over a lane now or soon.
  bool is_wanted() const { return wanted.load(std::memory_order_acquire); }

  // Read under either stream's lock, changed under both.
  LaneEndpoint* end = nullptr;
  std::atomic<Stage> stage{Stage::kNone};
  std::atomic<bool> wanted{true};
  std::atomic<bool> left_for_good{false};
  std::atomic<std::uint32_t> number{0};  // how many the connection has had
  ShownSocket shown;
};

}  // namespace viaduct::sovia

#endif
