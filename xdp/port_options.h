// Options of a port on a real interface.
#ifndef VIADUCT_XDP_PORT_OPTIONS_H
#define VIADUCT_XDP_PORT_OPTIONS_H

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "xdp/ether_type.h"

namespace viaduct {

// `port = ...` of viad.conf.
enum class PortKind { kAuto, kTcx, kXdpNative, kXdpGeneric, kPcap };

struct PortOptions {
  std::string interface;
  PortKind kind = PortKind::kAuto;
  std::uint16_t ether_type = VIADUCT_ETHER_TYPE;
  std::uint32_t frames = 8192;        // buffers in all, half of them for receiving; a power of two
  std::uint32_t ring = 2048;          // entries of each ring; a power of two
  // One line for people on what was tried and why it was given up ("native mode refused: ...").
  std::function<void(std::string_view)> note = [](std::string_view) {};
};

}  // namespace viaduct

#endif
