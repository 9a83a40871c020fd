// Lanes whose VIs come from the VI cache (vi_cache.h) or go there.
//
// For the background thread alone.
#ifndef VIADUCT_SOVIA_BACKGROUND_CACHED_LANES_H
#define VIADUCT_SOVIA_BACKGROUND_CACHED_LANES_H

#include <cstdint>

#include "sovia/background/vi_cache.h"
#include "sovia/socket/background_requests.h"
#include "sovia/socket/lane_endpoint.h"

namespace viaduct::sovia::background {

// A VI for the task's connection; nullptr: one has to be made.
CachedVi* take_from_cache(const Task& task, const Way& way);
// A lane on it, with the packets that have come for this connection. nullptr: no memory; the VI is gone.
LaneEndpoint* end_on_cached(Task& task, CachedVi& vi);
// Whether the peer is to take a VI from the VI cache for it, which need be waited for.
bool awaits_offer(const Task& task);
// Offers of cached VIs: finds the connections that they are for.
void match_offers();
// The connection ended before its lane was there. If the peer has lanes, the VI will be of use to the next
// connection, and the peer is likely to think so, too.
bool goes_to_cache(LaneEndpoint& end, std::uint64_t now);
// Both directions have to end in order before the VI can be another connection's: the peer's does as soon as its
// program has seen the end of this one. With the lane locked.
bool awaits_end(LaneEndpoint& end, std::uint64_t now);

}  // namespace viaduct::sovia::background

#endif
