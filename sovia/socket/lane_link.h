// The lane of a socket, as the socket knows it: a state machine (lane_link.cc).
#ifndef VIADUCT_SOVIA_SOCKET_LANE_LINK_H
#define VIADUCT_SOVIA_SOCKET_LANE_LINK_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "sovia/process/reason.h"
#include "sovia/socket/shown_socket.h"
#include "sovia/socket/stream_locks.h"

namespace viaduct::sovia {

class LaneEndpoint;

enum class LaneStage : std::uint8_t { kNone, kAsked, kOpen };
inline constexpr std::size_t kLaneStages = 3;

enum class LaneEvent : std::uint8_t {
  kAsked,    // a call has found the connection worth a lane
  kRefused,  // no lane can be had now, or the request was taken back
  kOpened,   // the lane has come
  kOver,     // both directions have ended, and all data has been read
  kForked,   // this process is the child: the lane is the parent's
};
inline constexpr std::size_t kLaneEvents = 5;

// The stage after an event; none: the event can't happen in that stage.
std::optional<LaneStage> next_stage(LaneStage stage, LaneEvent event);

struct LaneLink {
  // Whether data of either direction may go over a lane now or soon.
  bool is_wanted() const { return wanted.load(std::memory_order_acquire); }
  // There is no lane, and none is on its way.
  bool is_idle() const { return stage.load() == LaneStage::kNone; }
  // Applies an event. False: it can't happen in this stage, which stays.
  bool on(LaneEvent event) VIADUCT_REQUIRES(either_stream);

  LaneEndpoint* end VIADUCT_GUARDED_BY(either_stream) = nullptr;
  std::atomic<LaneStage> stage{LaneStage::kNone};
  std::atomic<bool> wanted{true};
  std::atomic<bool> left_for_good{false};
  std::atomic<std::uint32_t> number{0};  // of lanes that the connection has had
  ShownSocket shown;
};

}  // namespace viaduct::sovia

#endif
