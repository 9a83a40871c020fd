// Privileges that the agent must have, and the limits that it raises for itself.
#ifndef VIADUCT_KAGENT_AGENT_PROCESS_PRIVILEGES_H
#define VIADUCT_KAGENT_AGENT_PROCESS_PRIVILEGES_H

#include <string>

namespace viaduct {

// Says which capabilities are missing and what for; empty if none is. `only_pcap`: no port needs
// AF_XDP.
std::string missing_capabilities(bool only_pcap);

// Gives up for good what the agent does not need once its ports are open: capabilities (also for the
// programs that it starts, as far as they could get any), the right to gain some by exec(), and
// system calls. `dispatcher`: libxdp's dispatcher is in use, which can't be changed without
// CAP_SYS_ADMIN. Returns what is kept and what can't be given up, in words. To be called before
// there are other threads. Throws std::system_error.
std::string drop_privileges(bool only_pcap, bool dispatcher);

// Open files and locked memory, as far as allowed.
void raise_limits();

}  // namespace viaduct

#endif
