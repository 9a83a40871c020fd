// Lanes or the kernel, for each service that the process's connections belong to (route_choice.h). For the background
// thread alone.
#ifndef VIADUCT_SOVIA_BACKGROUND_ROUTE_TRIALS_H
#define VIADUCT_SOVIA_BACKGROUND_ROUTE_TRIALS_H

#include <cstdint>

#include "sovia/background/requests.h"
#include "sovia/process/reason.h"
#include "sovia/socket/lane_endpoint.h"

namespace viaduct::sovia::background {

// Decides on a connection that asks for a lane. kNone: one is to be opened; kTrial: it is to ask again later.
Reason admit(Task& task);
// A lane is open: leaves it where the service stays with the kernel.
void look_at_open_lane(LaneEndpoint& end, std::uint64_t now);
// The peer has left the lane as the kernel is faster: no other lane with that peer is opened for so long.
void peer_found_slower(const LaneEndpoint& end, std::uint32_t again_ms);
// Whether a trial is under way, or has chosen lanes.
bool trials_go_on();
// Whether the kernel was found faster for some service, and for that of a lane.
bool trials_chose_kernel();
bool trials_chose_kernel(const LaneEndpoint& end);
// Takes the next steps of all trials.
void look_at_trials();
// When to call look_at_trials() if nothing happens before.
std::uint64_t trials_due();
// In the child of a fork.
void forget_trials();

}  // namespace viaduct::sovia::background

#endif
