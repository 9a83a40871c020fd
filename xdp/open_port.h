// Opening a port on a real interface, and what can be asked of an interface.
#ifndef VIADUCT_XDP_OPEN_PORT_H
#define VIADUCT_XDP_OPEN_PORT_H

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "xdp/port.h"

namespace viaduct {

// `port = ...` of viad.conf.
enum class PortKind { kAuto, kXdpNative, kXdpGeneric, kPcap };

struct PortOptions {
  std::string interface;
  PortKind kind = PortKind::kAuto;
  std::uint16_t ether_type = 0x88b5;
  std::uint32_t frames = 8192;        // buffers in all, half of them for receiving; a power of two
  std::uint32_t ring = 2048;          // entries of each ring; a power of two
  // One line for people on what was tried and why it was given up ("native mode refused: ...").
  std::function<void(std::string_view)> note = [](std::string_view) {};
};

// A message that names the interface, what failed, why, and what the user can do about it.
struct PortError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Kernel or driver know no frames of several chunks: without these it may work.
struct PartsRefused : PortError {
  using PortError::PortError;
};

// kAuto tries the AF_XDP port (native, then generic; on an interface without hardware the other way
// round), then libpcap. Throws PortError: no such
// interface, interface down, no privilege, interface already taken by another agent.
std::unique_ptr<Port> open_port(const PortOptions& options);

// The IP addresses of an interface as text, IPv4 first; empty when it has none or does not exist.
std::vector<std::string> interface_addresses(const std::string& interface);

}  // namespace viaduct

#endif
