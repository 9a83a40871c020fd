// Autodiscovery: which hosts are on the link.
#ifndef VIADUCT_VIPL_API_DISCOVERY_H
#define VIADUCT_VIPL_API_DISCOVERY_H

#include "vipl/api/api.h"

namespace viaduct::vipl {

struct Session;

// Asks the link and fills in the list, whose addresses belong to the session. Blocks for a moment.
VIP_RETURN discover(Session& session, VIP_AUTODISCOVERY_LIST& list);

}  // namespace viaduct::vipl

#endif
