// Opening a port on a real interface.
#ifndef VIADUCT_XDP_OPEN_PORT_H
#define VIADUCT_XDP_OPEN_PORT_H

#include <memory>

#include "xdp/port.h"
#include "xdp/port_options.h"

namespace viaduct {

// kAuto tries the AF_XDP port (native, then generic; on an interface without hardware the other way
// round), then libpcap. Throws PortError: no such interface, interface down, no privilege, interface
// already taken by another agent.
std::unique_ptr<Port> open_port(const PortOptions& options);

}  // namespace viaduct

#endif
