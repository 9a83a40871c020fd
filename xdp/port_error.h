// Errors of ports, in words for people.
#ifndef VIADUCT_XDP_PORT_ERROR_H
#define VIADUCT_XDP_PORT_ERROR_H

#include <stdexcept>

namespace viaduct {

// A message that names the interface, what failed, why, and what the user can do about it.
struct PortError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The interface is there, and down.
struct InterfaceDown : PortError {
  using PortError::PortError;
};

// The kernel or the driver takes no frames of several chunks: without these it may work.
struct PartsRefused : PortError {
  using PortError::PortError;
};

}  // namespace viaduct

#endif
