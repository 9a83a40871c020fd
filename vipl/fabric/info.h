// fi_getinfo: what there is, and whether it is what the program asks for.
#ifndef VIADUCT_VIPL_FABRIC_INFO_H
#define VIADUCT_VIPL_FABRIC_INFO_H

#include <netinet/in.h>

#include "vipl/fabric/provider.h"

namespace viaduct::fabric {

class SharedNic;

int get_info(std::uint32_t version, const char* node, const char* service, std::uint64_t flags,
             const fi_info* hints, fi_info** info);

// The host's address on the NIC's interface; nothing changes if it has none.
void own_address(const SharedNic& nic, in_addr& address);

// Puts a copy into a fi_info, which frees it.
void set_address(void*& to, std::size_t& length, const sockaddr_in& address);

// Copies as much as there is room for, and says how much that is: for fi_getname and its kin.
int copy_address(const sockaddr_in& address, void* to, std::size_t* length);

}  // namespace viaduct::fabric

#endif
