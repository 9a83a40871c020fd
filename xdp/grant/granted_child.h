// How the macvlan children of granted ports are called.
#ifndef VIADUCT_XDP_GRANT_GRANTED_CHILD_H
#define VIADUCT_XDP_GRANT_GRANTED_CHILD_H

#include <cstdint>
#include <string>

#include "xdp/interface.h"

namespace viaduct {

// "vdg<index of the lower interface>.<number of the port>".
inline std::string child_prefix(int lower) { return "vdg" + std::to_string(lower) + "."; }
inline std::string child_name(const Interface& lower, std::uint32_t number) {
  return child_prefix(lower.index) + std::to_string(number);
}

inline constexpr char kChildAlias[] = "viaduct granted port";

}  // namespace viaduct

#endif
