// The registered memory of a link: what the peer writes to, and the descriptors of its VI.
#ifndef VIADUCT_VIPL_FABRIC_LINK_MEMORY_H
#define VIADUCT_VIPL_FABRIC_LINK_MEMORY_H

#include "vipl/fabric/provider.h"
#include "vipl/fabric/request.h"
#include "vipl/fabric/wire.h"

namespace viaduct::fabric {

inline constexpr std::uint32_t kOwnSends = 64;  // descriptors of a link besides the program's

// A descriptor with room for its segments, and for data that is sent from the slot itself.
struct alignas(64) SendSlot {
  VIP_DESCRIPTOR descriptor;
  VIP_DESCRIPTOR_SEGMENT more[4];
  unsigned char bytes[320];
};
struct alignas(64) ReceiveSlot {
  VIP_DESCRIPTOR descriptor;
  VIP_DESCRIPTOR_SEGMENT more[4];
};
struct Slots {
  SendSlot sends[kMostQueueSize + kOwnSends];
  ReceiveSlot receives[kMostQueueSize];
  ReceiveSlot greeting;
  Greeting greeting_bytes;
};

class LinkMemory {
 public:
  explicit LinkMemory(VIP_NIC_HANDLE nic) : nic_(nic) {}
  ~LinkMemory();
  LinkMemory(const LinkMemory&) = delete;
  LinkMemory& operator=(const LinkMemory&) = delete;

  // False if there is no room.
  bool set_up();

  Slots& slots() { return *slots_; }
  VIP_MEM_HANDLE handle() const { return slots_memory_; }
  Shared& shared() { return *shared_; }
  VIP_MEM_HANDLE shared_handle() const { return shared_memory_; }

 private:
  const VIP_NIC_HANDLE nic_;
  Slots* slots_ = nullptr;
  Shared* shared_ = nullptr;
  VIP_MEM_HANDLE slots_memory_ = 0;
  VIP_MEM_HANDLE shared_memory_ = 0;
};

}  // namespace viaduct::fabric

#endif
