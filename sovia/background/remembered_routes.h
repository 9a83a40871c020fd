// The user's memory of routes (route_memory.h), for the services of this process. With SOVIA_REMEMBER=0 it is empty. For
// the background thread alone.
#ifndef VIADUCT_SOVIA_BACKGROUND_REMEMBERED_ROUTES_H
#define VIADUCT_SOVIA_BACKGROUND_REMEMBERED_ROUTES_H

#include <cstdint>

#include "sovia/background/route_memory.h"
#include "sovia/lane/flow.h"
#include "sovia/socket/peer_history.h"

namespace viaduct::sovia::background::remembered {

// A number for the service in all processes that run this program or script, in this network namespace, placed alike: for
// what it listens for, or the peer's host that it calls. Ports don't count, as many are new each time.
std::uint64_t service_number(Role role, bool local, const FlowEnd& at);

bool doubts_lanes(std::uint64_t service, std::uint64_t now);
RouteMemory::Finding recall(std::uint64_t service, unsigned load);
void keep(std::uint64_t service, unsigned load, const RouteMemory::Finding& finding);

}  // namespace viaduct::sovia::background::remembered

#endif
