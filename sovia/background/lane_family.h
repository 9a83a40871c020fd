// Processes of a family, from one exec to the next, know of their lanes together (lane_price.h), in memory that a fork
// shares. Any thread may call these functions.
#ifndef VIADUCT_SOVIA_BACKGROUND_LANE_FAMILY_H
#define VIADUCT_SOVIA_BACKGROUND_LANE_FAMILY_H

#include "sovia/background/lane_price.h"

namespace viaduct::sovia::background::lane_family {

// To be called before the first fork.
LanePrice::Family& family();
// In a process that a fork has made: whether the process, which has no NIC, may open one.
bool child_may_begin();

}  // namespace viaduct::sovia::background::lane_family

#endif
