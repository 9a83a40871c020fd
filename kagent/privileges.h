// What the agent must be allowed to do, and the limits that it raises for itself.
#ifndef VIADUCT_KAGENT_PRIVILEGES_H
#define VIADUCT_KAGENT_PRIVILEGES_H

#include <string>

namespace viaduct {

// Says which capabilities are missing and what for; empty if none is. `only_pcap`: no port needs
// AF_XDP.
std::string missing_capabilities(bool only_pcap);

// Open files and locked memory, as far as allowed.
void raise_limits();

}  // namespace viaduct

#endif
