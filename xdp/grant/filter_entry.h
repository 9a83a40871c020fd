// An egress filter's entry for one granted port.
#ifndef VIADUCT_XDP_GRANT_FILTER_ENTRY_H
#define VIADUCT_XDP_GRANT_FILTER_ENTRY_H

#include <sys/types.h>

#include <cstdint>

#include "xdp/port.h"

namespace viaduct {

struct FilterEntry {
  std::uint32_t number;
  std::uint32_t mark;
  MacAddress address;
};

// The user whose port it is and, by their numbers, the files in memory that came with the port.
struct FilterHolder {
  uid_t user;
  std::uint64_t device, granted_segment, umem;
};

}  // namespace viaduct

#endif
