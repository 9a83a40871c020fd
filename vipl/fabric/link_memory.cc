#include "vipl/fabric/link_memory.h"

#include <sys/mman.h>

namespace viaduct::fabric {
namespace {

// Maps whole pages, which take memory only when they are used.
void* map(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

bool LinkMemory::set_up() {
  slots_ = static_cast<Slots*>(map(sizeof(Slots)));
  shared_ = static_cast<Shared*>(map(sizeof(Shared)));
  if (slots_ == nullptr || shared_ == nullptr) return false;
  VIP_MEM_ATTRIBUTES attributes{nullptr, VIP_FALSE, VIP_FALSE};
  if (VipRegisterMem(nic_, slots_, sizeof *slots_, &attributes, &slots_memory_) != VIP_SUCCESS) {
    return false;
  }
  attributes.EnableRdmaWrite = VIP_TRUE;
  return VipRegisterMem(nic_, shared_, sizeof *shared_, &attributes, &shared_memory_) ==
         VIP_SUCCESS;
}

LinkMemory::~LinkMemory() {
  if (slots_memory_ != 0) VipDeregisterMem(nic_, slots_, slots_memory_);
  if (shared_memory_ != 0) VipDeregisterMem(nic_, shared_, shared_memory_);
  if (slots_ != nullptr) munmap(slots_, sizeof *slots_);
  if (shared_ != nullptr) munmap(shared_, sizeof *shared_);
}

}  // namespace viaduct::fabric
