// Answers to what Wireshark asks of a program in its extcap folder: which interfaces there are, their link type, and
// their options. The capture itself is that of every live capture, into a named pipe.
#ifndef VIADUCT_KAGENT_TOOLS_VIADUMP_EXTCAP_H
#define VIADUCT_KAGENT_TOOLS_VIADUMP_EXTCAP_H

#include <string>
#include <string_view>
#include <vector>

namespace viaduct::dump {

// Names of the Ethernet interfaces of this network namespace.
std::vector<std::string> ethernet_interfaces();

std::string extcap_interfaces(const std::vector<std::string>& interfaces, std::string_view version);
std::string extcap_dlts();
std::string extcap_config();

// "viaduct-eth0" -> "eth0"; "" if it is none of ours.
std::string interface_of_extcap(std::string_view name);

}  // namespace viaduct::dump

#endif
