// Lanes whose VIs come from the VI cache (vi_cache.h) or go there.
//
// For the background thread alone.
#ifndef VIADUCT_SOVIA_BACKGROUND_CACHED_LANES_H
#define VIADUCT_SOVIA_BACKGROUND_CACHED_LANES_H

#include <cstdint>

#include "sovia/background/requests.h"
#include "sovia/background/vi_cache.h"
#include "sovia/socket/lane_endpoint.h"

namespace viaduct::sovia::background {

// Takes a VI from the VI cache for the task's connection; nullptr: a new one has to be made.
CachedVi* take_from_cache(const Task& task, const Way& way);
// Makes a lane on a cached VI, and passes on the packets that have come for the connection. nullptr: no memory; the VI
// is gone.
LaneEndpoint* end_on_cached(Task& task, CachedVi& vi);
// Whether the task has to wait, as the peer may take a VI from the VI cache for its connection.
bool awaits_offer(const Task& task);
// Finds the connections for which peers have taken cached VIs.
void match_offers();
// Whether to go on making a lane whose connection has ended before. If the peer has had lanes, its VI will be of use to
// the next connection, and the peer is likely to go on, too.
bool goes_to_cache(LaneEndpoint& end, std::uint64_t now);
// Whether a finished lane still waits for the end of the peer's direction. Only when both have ended in order can its
// VI serve another connection; the peer's ends as soon as its program has seen the end of this one.
bool awaits_end(LaneEndpoint& end, std::uint64_t now) VIADUCT_REQUIRES(end.lane.lock());

}  // namespace viaduct::sovia::background

#endif
