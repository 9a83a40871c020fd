// The remains of an earlier agent's granted ports on an interface.
//
// A port needs no agent to go on: the child is the kernel's, its XDP program stays as long as the
// child, and the filter's program and tables stay as long as the interface. In the tables, which
// cannot be written without privilege, the next agent finds whose each port is.
#ifndef VIADUCT_XDP_GRANT_GRANT_REMAINS_H
#define VIADUCT_XDP_GRANT_GRANT_REMAINS_H

#include <cstdint>
#include <optional>
#include <vector>

#include "xdp/descriptor.h"
#include "xdp/grant/filter_entry.h"
#include "xdp/interface.h"

namespace viaduct {

struct GrantRemains {
  struct Port {
    FilterEntry entry;
    int ifindex;
    std::uint16_t ether_type;
    FilterHolder holder;
    Descriptor program;  // on the child
  };

  Descriptor filter;                       // the program on the interface ...
  Descriptor grants, counts;               // ... and its tables
  bool classic = false;                    // attached by clsact
  std::vector<Port> ports;                 // whole, and in use by a process that holds the socket
  std::optional<FilterEntry> relay_child;  // the entry of the agent's own child, which is gone
  unsigned removed = 0;                    // children
};

// Finds ports that can be gone on with, for which a GrantFilter must then be made. All else is removed; if there are
// no such ports, the filter too. The caller must hold the interface's lock; without CAP_SYS_ADMIN nothing is found.
GrantRemains take_remains(const Interface& lower, std::uint16_t ether_type);

// Deletes everything that an earlier agent has left: children, then the filter. Returns how many
// children there were.
unsigned remove_remains(const Interface& lower);

}  // namespace viaduct

#endif
