// Facts that the kernel tells about a network interface.
#ifndef VIADUCT_XDP_INTERFACE_H
#define VIADUCT_XDP_INTERFACE_H

#include <cstdint>
#include <string>
#include <vector>

#include "xdp/port.h"

namespace viaduct {

struct Interface {
  std::string name;
  int index;
  MacAddress address;
  std::uint32_t mtu;
  std::uint32_t receive_queues;
  bool up;
  bool hardware;  // a device is behind it; not so for veth, macvlan, bridge ...
};

// Throws PortError when there is no such interface or it is not an Ethernet.
Interface query_interface(const std::string& name);

// Whether the interface is up and has a link.
bool is_running(const std::string& name);

// Whether the interface is still there under its index, and has the address that it had.
bool is_unchanged(const Interface& interface);

// The IP addresses of an interface as text, IPv4 first; empty when it has none or does not exist.
std::vector<std::string> interface_addresses(const std::string& interface);

}  // namespace viaduct

#endif
