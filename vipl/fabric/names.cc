#include "vipl/fabric/names.h"

#include <arpa/inet.h>

#include <cstring>

namespace viaduct::fabric {

bool Names::resolve(VIP_NIC_HANDLE nic, in_addr address, VIP_UINT8* host) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = known_.find(address.s_addr); known != known_.end()) {
      std::memcpy(host, &known->second, 6);
      return true;
    }
  }
  char name[INET_ADDRSTRLEN];
  inet_ntop(AF_INET, &address, name, sizeof name);
  alignas(VIP_NET_ADDRESS) unsigned char room[64] = {};
  auto* answer = reinterpret_cast<VIP_NET_ADDRESS*>(room);
  if (VipNSGetHostByName(nic, name, answer, 0) != VIP_SUCCESS || answer->HostAddressLen != 6) {
    return false;
  }
  std::memcpy(host, answer->HostAddress, 6);
  std::uint64_t kept = 0;
  std::memcpy(&kept, host, 6);
  const std::lock_guard lock(mutex_);
  known_[address.s_addr] = kept;
  return true;
}

void Names::forget(in_addr address) {
  const std::lock_guard lock(mutex_);
  known_.erase(address.s_addr);
}

}  // namespace viaduct::fabric
