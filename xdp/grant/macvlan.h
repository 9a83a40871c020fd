// Macvlan children of an interface.
#ifndef VIADUCT_XDP_GRANT_MACVLAN_H
#define VIADUCT_XDP_GRANT_MACVLAN_H

#include <string>
#include <vector>

#include "xdp/interface.h"

namespace viaduct {

// Makes a child with nothing of the kernel's own protocols on it, up and in private mode: what it
// sends goes down to `lower`, to other children too. Returns its index. Throws PortError.
int create_child(const Interface& lower, const std::string& name, const std::string& alias,
                 const MacAddress& address);

// An address that no device has by chance: unicast, locally administered. Throws PortError.
MacAddress random_address(const Interface& lower);

// Deletes an interface; says nothing if it is gone already.
void delete_child(int ifindex);

// The children of `lower` whose names begin so, that have the alias, and that are up and private.
struct Child {
  std::string name;
  int ifindex;
  MacAddress address;
};
std::vector<Child> finished_children(int lower, const std::string& prefix,
                                     const std::string& alias);

// Deletes all children of `lower` whose names begin so and that have the alias, or were never finished:
// down, private, and without one; but not those with the indices `keep`. Returns how many.
unsigned delete_children(int lower, const std::string& prefix, const std::string& alias,
                         const std::vector<int>& keep = {});

}  // namespace viaduct

#endif
