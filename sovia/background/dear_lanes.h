// Lanes that are dearer than the kernel (lane_price.h): connections with small messages leave them for a while, and the
// peers are told. For the background thread alone, but for after_fork_in_child().
#ifndef VIADUCT_SOVIA_BACKGROUND_DEAR_LANES_H
#define VIADUCT_SOVIA_BACKGROUND_DEAR_LANES_H

#include <cstdint>

#include "sovia/background/requests.h"
#include "sovia/process/reason.h"
#include "sovia/socket/lane_endpoint.h"

namespace viaduct::sovia::background::dear_lanes {

// Whether a connection that asks may have a lane: kNone or kSlower.
Reason judge(const Task& task);
// A lane has been opened.
void opened(std::uint64_t now);
// A lane is open: leaves it if it is dear.
void look_at_open(LaneEndpoint& end, std::uint64_t now);
// The peer has left the lane as it is dear there: no other lane with that peer is opened for so long.
void peer_left(const LaneEndpoint& end, std::uint32_t again_ms);
// Whether any lanes are dear, or this one is.
bool any();
bool has(const LaneEndpoint& end);
// To be called each time that the thread is awake.
void look();
// When to look again, at the latest.
std::uint64_t due();
void after_fork_in_child();

}  // namespace viaduct::sovia::background::dear_lanes

#endif
