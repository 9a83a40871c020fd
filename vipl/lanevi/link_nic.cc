#include "vipl/lanevi/link_nic.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstring>
#include <new>

#include "vipl/lanevi/failure.h"

namespace viaduct::lanevi {
namespace {

constexpr VIP_ULONG kQueueEntries = 1024;  // at first: no completion is lost, however many there are

}  // namespace

std::string text_of(const MacAddress& a) {
  char out[18];
  std::snprintf(out, sizeof out, "%02x:%02x:%02x:%02x:%02x:%02x", a[0], a[1], a[2], a[3], a[4],
                a[5]);
  return out;
}

NetAddress::NetAddress(const MacAddress& host, const std::string& discriminator) : NetAddress() {
  std::memcpy(get()->HostAddress, host.data(), host.size());
  get()->DiscriminatorLen = static_cast<VIP_UINT16>(discriminator.size());
  std::memcpy(get()->HostAddress + host.size(), discriminator.data(), discriminator.size());
}

MacAddress NetAddress::host() {
  MacAddress out;
  std::memcpy(out.data(), get()->HostAddress, out.size());
  return out;
}

void Slot::prepare(std::uint32_t bytes, bool immediate) {
  std::memset(&descriptor, 0, sizeof descriptor);
  descriptor.CS.Control =
      static_cast<VIP_UINT16>(VIP_CONTROL_OP_SENDRECV | (immediate ? VIP_CONTROL_IMMEDIATE : 0));
  descriptor.CS.Length = bytes;
  descriptor.CS.SegCount = 1;
  descriptor.DS[0].Local.Data.Address = data;
  descriptor.DS[0].Local.Handle = memory;
  descriptor.DS[0].Local.Length = bytes;
}

SlotBlock::SlotBlock(VIP_NIC_HANDLE nic, std::size_t count) : slots_(nullptr), count_(count) {
  void* const room = mmap(nullptr, count * sizeof(Slot), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) fail("memory for messages");
  slots_ = static_cast<Slot*>(room);
  VIP_MEM_HANDLE memory = 0;
  const VIP_RETURN result = VipRegisterMem(nic, room, count * sizeof(Slot), nullptr, &memory);
  if (result != VIP_SUCCESS) {
    munmap(room, count * sizeof(Slot));
    check(result, "VipRegisterMem");
  }
  for (std::size_t i = 0; i < count; ++i) slots_[i].memory = memory;
}

SlotBlock::SlotBlock(SlotBlock&& other) noexcept : slots_(other.slots_), count_(other.count_) {
  other.slots_ = nullptr;
}

SlotBlock::~SlotBlock() {
  if (slots_ != nullptr) munmap(slots_, count_ * sizeof(Slot));
}

LinkNic::LinkNic(VIP_NIC_HANDLE opened) : handle_(opened) {
  try {
    VIP_NIC_ATTRIBUTES attributes;
    check(VipQueryNic(handle_, &attributes), "VipQueryNic");
    if (attributes.MaxTransferSize < kMessageBytes) {
      throw Failure("max_transfer in viad.conf must be " + std::to_string(kMessageBytes) +
                    " at least");
    }
    std::memcpy(address_.data(), attributes.LocalNicAddress, address_.size());
    check(VipCreateCQ(handle_, kQueueEntries, &queue_), "VipCreateCQ");
  } catch (...) {
    close();
    throw;
  }
}

void LinkNic::close() {
  if (handle_ != nullptr) VipCloseNic(handle_);
  handle_ = nullptr;
}

}  // namespace viaduct::lanevi
