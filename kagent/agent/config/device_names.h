// The device names that VIPL programs pass to VipOpenNic. Different providers named their NICs
// differently and programs have those names built in, so every usual one is understood.
#ifndef VIADUCT_KAGENT_AGENT_CONFIG_DEVICE_NAMES_H
#define VIADUCT_KAGENT_AGENT_CONFIG_DEVICE_NAMES_H

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace viaduct {

// Which of the configured interfaces (in NIC order) a device name means; nothing when it names none
// of them. Programs probe "nic0", "nic1", ... until one fails, so a number without a NIC is unknown.
//
// An interface's own name, also behind "/dev/" and "/dev/via_", goes before the other forms. These
// are, for NIC k counted from 0:
//   /dev/via_eth<k>  nic<k>  VINIC<k>  /dev/clanvi<k>  \\.\VI<k+1>
//   VINIC     the first NIC
// The NIC whose interface is called kLoopbackDevice has no number. It is also called
//   /dev/via_lo  /etc/via_lo
inline constexpr std::string_view kLoopbackDevice = "via_lo";

std::optional<std::size_t> find_device(std::string_view device,
                                       std::span<const std::string> interfaces);

}  // namespace viaduct

#endif
