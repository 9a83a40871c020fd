// A NIC with the completion queue of all its VIs, and the memory that they use.
#ifndef VIADUCT_VIPL_LANEVI_LINK_NIC_H
#define VIADUCT_VIPL_LANEVI_LINK_NIC_H

#include <vipl_ext.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "vipl/lanevi/message.h"

namespace viaduct::lanevi {

using MacAddress = std::array<std::uint8_t, 6>;

std::string text_of(const MacAddress& address);

// An address of VIA with room for a discriminator.
class NetAddress {
 public:
  NetAddress() { get()->HostAddressLen = 6; }
  NetAddress(const MacAddress& host, const std::string& discriminator);

  VIP_NET_ADDRESS* get() { return reinterpret_cast<VIP_NET_ADDRESS*>(room_.data()); }
  MacAddress host();

 private:
  alignas(VIP_NET_ADDRESS) std::array<std::uint8_t, 64> room_{};
};

// A descriptor and the buffer of its one message.
struct Slot {
  VIP_DESCRIPTOR descriptor;
  VIP_MEM_HANDLE memory;
  std::uint8_t unused[60];
  std::uint8_t data[kMessageBytes];

  // Fills in the descriptor for VipPostRecv or VipPostSend.
  void prepare(std::uint32_t bytes, bool immediate);
  static Slot* of(VIP_DESCRIPTOR* descriptor) { return reinterpret_cast<Slot*>(descriptor); }
};
static_assert(offsetof(Slot, descriptor) == 0 && offsetof(Slot, data) == 128);
static_assert(sizeof(Slot) % VIP_DESCRIPTOR_ALIGNMENT == 0);

// Registered memory for some slots. Slots that were never used take no memory.
class SlotBlock {
 public:
  SlotBlock(VIP_NIC_HANDLE nic, std::size_t count);
  ~SlotBlock();
  SlotBlock(SlotBlock&& other) noexcept;
  SlotBlock(const SlotBlock&) = delete;
  SlotBlock& operator=(const SlotBlock&) = delete;

  Slot* at(std::size_t i) const { return slots_ + i; }
  std::size_t count() const { return count_; }

 private:
  Slot* slots_;
  std::size_t count_;
};

class LinkNic {
 public:
  // Throws Failure.
  explicit LinkNic(VIP_NIC_HANDLE opened);
  ~LinkNic() { close(); }
  LinkNic(const LinkNic&) = delete;
  LinkNic& operator=(const LinkNic&) = delete;

  VIP_NIC_HANDLE handle() const { return handle_; }
  VIP_CQ_HANDLE queue() const { return queue_; }
  const MacAddress& address() const { return address_; }
  void close();

 private:
  VIP_NIC_HANDLE handle_;
  VIP_CQ_HANDLE queue_ = nullptr;
  MacAddress address_{};
};

}  // namespace viaduct::lanevi

#endif
