// The addresses of hosts' NICs, as far as they have been asked for.
#ifndef VIADUCT_VIPL_FABRIC_NAMES_H
#define VIADUCT_VIPL_FABRIC_NAMES_H

#include <netinet/in.h>

#include <mutex>
#include <unordered_map>

#include "vipl/fabric/provider.h"

namespace viaduct::fabric {

// Any thread may call all functions.
class Names {
 public:
  // The address of a host's NIC, of 6 bytes. Blocks, a second at most.
  bool resolve(VIP_NIC_HANDLE nic, in_addr address, VIP_UINT8* host);
  void forget(in_addr address);

 private:
  std::mutex mutex_;
  std::unordered_map<std::uint32_t, std::uint64_t> known_;
};

}  // namespace viaduct::fabric

#endif
