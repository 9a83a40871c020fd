// The right to process arrivals (engine.h).
#ifndef VIADUCT_SOVIA_LANE_TURN_H
#define VIADUCT_SOVIA_LANE_TURN_H

#include "sovia/process/lock.h"
#include "sovia/process/lock_order.h"

namespace viaduct::sovia::engine {

extern constinit Lock g_turn SOVIA_LOCK_ORDER(tx, turn);  // held by the thread that has it

}  // namespace viaduct::sovia::engine

#endif
