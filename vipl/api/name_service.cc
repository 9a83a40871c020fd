// The name service: names go to the driver as they are.
#include <cstring>

#include "vipl/session/command.h"
#include "vipl/session/session_guard.h"

using namespace viaduct::vipl;
using viaduct::layout::Op;

namespace {

std::uint8_t* host_bytes(VIP_NET_ADDRESS& address) {
  return reinterpret_cast<std::uint8_t*>(&address) + offsetof(VIP_NET_ADDRESS, HostAddress);
}

}  // namespace

VIP_RETURN VipNSInit(VIP_NIC_HANDLE NicHandle, VIP_PVOID) {
  const SessionGuard inside(NicHandle, Kind::kNic);
  return inside ? VIP_SUCCESS : VIP_INVALID_PARAMETER;
}

VIP_RETURN VipNSShutdown(VIP_NIC_HANDLE NicHandle) {
  const SessionGuard inside(NicHandle, Kind::kNic);
  return inside ? VIP_SUCCESS : VIP_INVALID_PARAMETER;
}

VIP_RETURN VipNSGetHostByName(VIP_NIC_HANDLE NicHandle, VIP_CHAR* Name, VIP_NET_ADDRESS* Address,
                              VIP_ULONG NameIndex) {
  const SessionGuard inside(NicHandle, Kind::kNic);
  if (!inside || Name == nullptr || Address == nullptr) return VIP_INVALID_PARAMETER;
  Command command(inside.session(), Op::kHostByName);
  // No host has a name that does not fit, or so many addresses.
  if (std::memchr(Name, '\0', sizeof command->name) == nullptr) return VIP_ERROR_NAMESERVICE;
  if (NameIndex > 0xffffffff) return VIP_ERROR_NAMESERVICE;
  std::strcpy(command->name, Name);
  command->entries = static_cast<std::uint32_t>(NameIndex);
  const VIP_RETURN result = command.run();
  if (result != VIP_SUCCESS) return result;
  Address->HostAddressLen = viaduct::layout::kHostBytes;
  std::memcpy(host_bytes(*Address), command->remote.host, viaduct::layout::kHostBytes);
  return VIP_SUCCESS;
}

VIP_RETURN VipNSGetHostByAddr(VIP_NIC_HANDLE NicHandle, VIP_NET_ADDRESS* Address, VIP_CHAR* Name,
                              VIP_ULONG* NameLen) {
  const SessionGuard inside(NicHandle, Kind::kNic);
  if (!inside || Address == nullptr || Name == nullptr || NameLen == nullptr ||
      Address->HostAddressLen != viaduct::layout::kHostBytes) {
    return VIP_INVALID_PARAMETER;
  }
  Command command(inside.session(), Op::kHostByAddress);
  std::memcpy(command->remote.host, host_bytes(*Address), viaduct::layout::kHostBytes);
  const VIP_RETURN result = command.run();
  if (result != VIP_SUCCESS) return result;
  command->name[sizeof command->name - 1] = '\0';
  const std::size_t length = std::strlen(command->name);
  const VIP_ULONG room = *NameLen;
  *NameLen = length;
  if (room <= length) return VIP_ERROR_RESOURCE;
  std::memcpy(Name, command->name, length + 1);
  return VIP_SUCCESS;
}
