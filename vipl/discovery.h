// Autodiscovery: which hosts are on the link.
#ifndef VIADUCT_VIPL_DISCOVERY_H
#define VIADUCT_VIPL_DISCOVERY_H

#include "vipl/session.h"

namespace viaduct::vipl {

// What a session keeps of it; zeroed memory is an empty one.
struct Discovery {
  // A VIP_NET_ADDRESS with room for the host address.
  struct Address {
    alignas(VIP_NET_ADDRESS) unsigned char bytes[16];
  };
  VIP_NET_ADDRESS* pointers[layout::kMaxDiscovered];
  Address addresses[layout::kMaxDiscovered];
};

// Asks the link and fills the list in, whose addresses are the session's. Blocks for a moment.
VIP_RETURN discover(Session& session, VIP_AUTODISCOVERY_LIST& list);

}  // namespace viaduct::vipl

#endif
