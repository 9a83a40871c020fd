#include "sovia/lane/vi_remote_memory.h"

namespace viaduct::sovia {

bool ViRemoteMemory::post(std::uint32_t place, VIP_UINT16 operation, std::byte* data, std::uint32_t bytes,
                          std::uint32_t memory, std::uint64_t at, std::uint32_t at_memory) {
  VIP_DESCRIPTOR& d = writes_[place].descriptor;
  d.CS.Control = operation;
  d.CS.SegCount = 2;
  d.CS.Length = bytes;
  d.CS.Reserved = 0;
  d.DS[0].Remote.Data.AddressBits = at;
  d.DS[0].Remote.Handle = at_memory;
  d.DS[0].Remote.Reserved = 0;
  d.DS[1].Local.Data.Address = data;
  d.DS[1].Local.Handle = memory;
  d.DS[1].Local.Length = bytes;
  return VipPostSend(vi_, &d, memory_) == VIP_SUCCESS;
}

std::uint32_t ViRemoteMemory::open_memory(std::byte* at, std::size_t bytes, Access access) {
  const auto wanted = static_cast<unsigned>(access);
  VIP_MEM_ATTRIBUTES attributes{};
  attributes.Ptag = ptag_;
  attributes.EnableRdmaWrite = (wanted & static_cast<unsigned>(Access::kWrite)) != 0 ? VIP_TRUE : VIP_FALSE;
  attributes.EnableRdmaRead = (wanted & static_cast<unsigned>(Access::kRead)) != 0 ? VIP_TRUE : VIP_FALSE;
  VIP_MEM_HANDLE memory = 0;
  if (VipRegisterMem(nic_.handle(), at, bytes, &attributes, &memory) != VIP_SUCCESS) return 0;
  const LockGuard guard(lock_);
  opened_.push_back({at, memory});
  return memory;
}

void ViRemoteMemory::close_memory(std::byte* at, std::uint32_t memory) {
  {
    const LockGuard guard(lock_);
    if (std::erase_if(opened_, [&](const Opened& one) { return one.memory == memory; }) == 0) return;
  }
  VipDeregisterMem(nic_.handle(), at, memory);
}

void ViRemoteMemory::close_memories() {
  const LockGuard guard(lock_);
  for (const Opened& one : opened_) VipDeregisterMem(nic_.handle(), one.at, one.memory);
  opened_.clear();
}

}  // namespace viaduct::sovia
