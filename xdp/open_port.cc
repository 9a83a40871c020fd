#include "xdp/open_port.h"

#include "config.h"

#include <bit>
#include <vector>

#include "xdp/bpf/tcx_attachment.h"
#include "xdp/xsk/af_xdp_port.h"
#include "xdp/interface.h"
#include "xdp/interface_lock.h"
#ifdef HAVE_PCAP
#include "xdp/pcap_port.h"
#endif
#include "xdp/port_error.h"

namespace viaduct {
namespace {

// Native mode pays with the driver of real hardware. On an interface without hardware it gains nothing, and what the
// program passes on to granted ports and the kernel is slower (on veth by a fifth).
std::vector<PortKind> ways_for(PortKind wanted, bool hardware) {
  if (wanted == PortKind::kPcap) return {};
  if (wanted != PortKind::kAuto) return {wanted};
  if (hardware) return {PortKind::kXdpNative, PortKind::kTcx, PortKind::kXdpGeneric};
  return {PortKind::kTcx, PortKind::kXdpGeneric, PortKind::kXdpNative};
}

}  // namespace

std::unique_ptr<Port> open_port(const PortOptions& options) {
  if (!std::has_single_bit(options.frames) || !std::has_single_bit(options.ring) ||
      options.frames < 4 * options.ring / 2 || options.frames > 1u << 20) {
    throw PortError("frames and ring must be powers of two, frames at least twice ring");
  }
  const Interface interface = query_interface(options.interface);
  if (!interface.up) {
    throw InterfaceDown(interface.name + " is down (ip link set " + interface.name + " up)");
  }
  auto lock = std::make_shared<InterfaceLock>(interface.index, interface.name.c_str());
  remove_steering_child(interface.index);
  const bool automatic = options.kind == PortKind::kAuto;
  for (const PortKind way : ways_for(options.kind, interface.hardware)) {
    try {
      return std::make_unique<AfXdpPort>(options, interface, lock, way);
    } catch (const PortError& error) {
      if (!automatic) throw;
      options.note(error.what());
    }
  }
#ifdef HAVE_PCAP
  return std::make_unique<PcapPort>(options, interface, lock);
#else
  throw PortError(interface.name + ": this build has no libpcap port");
#endif
}

}  // namespace viaduct
