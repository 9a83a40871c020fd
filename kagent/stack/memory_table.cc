#include "kagent/stack/memory_table.h"

#include <cstring>

namespace viaduct {

using layout::CommandBody;
using state::Vi;
using state::kHandleBits;
using state::kNone;

namespace {

// For handles of regions and ptags.
constexpr std::uint32_t kHandleMask = (1u << kHandleBits) - 1;
constexpr std::uint32_t kMostAncestors = 64;  // programs that are asked whether they made a registration

constexpr std::uint32_t make_handle(std::uint32_t index, std::uint32_t generation) {
  return generation << kHandleBits | (index + 1);
}

}  // namespace

template <class Platform>
vip::Return MemoryTable<Platform>::create_ptag(std::uint32_t session, CommandBody& body) {
  const std::uint32_t i = ptags_.take();
  if (i == kNone) return vip::kErrorResource;
  state::Ptag& ptag = ptags_[i];
  ptag.session = session;
  ptag.generation = (ptag.generation + 1) & (~0u >> kHandleBits);
  ptag.users = 0;
  body.handle = make_handle(i, ptag.generation);
  return vip::kSuccess;
}

template <class Platform>
state::Ptag* MemoryTable<Platform>::find_ptag(std::uint32_t session, std::uint32_t handle) const {
  const std::uint32_t i = (handle & kHandleMask) - 1;
  if (i >= ptags_.fresh()) return nullptr;
  auto& ptag = const_cast<state::Ptag&>(ptags_[i]);
  const bool valid = ptag.session == session && make_handle(i, ptag.generation) == handle;
  return valid ? &ptag : nullptr;
}

template <class Platform>
vip::Return MemoryTable<Platform>::destroy_ptag(std::uint32_t session, const CommandBody& body) {
  state::Ptag* ptag = find_ptag(session, body.handle);
  if (ptag == nullptr) return vip::kInvalidParameter;
  if (ptag->users != 0) return vip::kErrorResource;
  ptag->session = kNone;
  ptags_.give(ptags_.index(*ptag));
  return vip::kSuccess;
}

template <class Platform>
void MemoryTable<Platform>::hold_ptag(std::uint32_t session, std::uint32_t handle, int change) {
  if (handle == 0) return;
  if (state::Ptag* ptag = find_ptag(session, handle)) {
    ptag->users += static_cast<std::uint32_t>(change);
  }
}

template <class Platform>
vip::Return MemoryTable<Platform>::register_memory(std::uint32_t program, CommandBody& body) {
  const std::uint32_t session = programs_[program].session;
  const layout::MemoryAttributes& memory = body.memory;
  if (memory.address == 0 || memory.length == 0 || memory.address + memory.length < memory.address) {
    return vip::kInvalidParameter;
  }
  if (memory.ptag != 0 && find_ptag(session, memory.ptag) == nullptr) return vip::kInvalidPtag;
  state::Session& owner = sessions_[session];
  if (memory.length > limits_.session_bytes - owner.registered_bytes) return vip::kErrorResource;
  if (!charge_region(session, memory.length)) return vip::kErrorResource;
  const std::uint32_t i = regions_.take();
  if (i == kNone) {
    discharge_region(session, memory.length);
    return vip::kErrorResource;
  }
  state::Region& region = regions_[i];
  region.generation = static_cast<std::uint16_t>((region.generation + 1) & (~0u >> kHandleBits));
  region.handle = make_handle(i, region.generation);
  region.program = program;
  region.forks = views_[session].header().forks.load(std::memory_order_relaxed);
  region.address = memory.address;
  region.length = memory.length;
  region.ptag = memory.ptag;
  region.enable_write = memory.enable_write != 0;
  region.enable_read = memory.enable_read != 0;
  hold_ptag(session, region.ptag, +1);
  ++owner.regions;
  owner.registered_bytes += region.length;
  body.handle = region.handle;
  return vip::kSuccess;
}

template <class Platform>
bool MemoryTable<Platform>::charge_region(std::uint32_t session, std::uint64_t bytes) {
  if (!environment_.charge(session, Quota::kRegions, 1)) return false;
  if (environment_.charge(session, Quota::kBytes, static_cast<std::int64_t>(bytes))) return true;
  environment_.charge(session, Quota::kRegions, -1);
  return false;
}

template <class Platform>
void MemoryTable<Platform>::discharge_region(std::uint32_t session, std::uint64_t bytes) {
  environment_.charge(session, Quota::kRegions, -1);
  environment_.charge(session, Quota::kBytes, -static_cast<std::int64_t>(bytes));
}

// Whether the program has a copy of what this region was when it was registered. Numbers wrap around
// after 2^32 forks of one session.
template <class Platform>
bool MemoryTable<Platform>::inherits(std::uint32_t program,
                                                  const state::Region& region) const {
  std::uint32_t forks = ~0u;
  for (std::uint32_t i = 0; i < kMostAncestors; ++i) {
    const state::Program& heir = programs_[program];
    if (heir.parent == kNone) return false;
    forks = heir.forks < forks ? heir.forks : forks;
    program = heir.parent;
    if (program == region.program) return region.forks < forks;
  }
  return false;
}

// Finds a region that the program has registered or inherited.
template <class Platform>
state::Region* MemoryTable<Platform>::find_region(std::uint32_t program, std::uint32_t handle) const {
  const std::uint32_t i = (handle & kHandleMask) - 1;
  if (i >= regions_.fresh()) return nullptr;
  auto& region = const_cast<state::Region&>(regions_[i]);
  if (region.handle != handle) [[unlikely]] return nullptr;
  if (region.program != program && !inherits(program, region)) [[unlikely]] return nullptr;
  return &region;
}

template <class Platform>
state::Region* MemoryTable<Platform>::own_region(std::uint32_t program,
                                                 const CommandBody& body) const {
  state::Region* const region = find_region(program, body.handle);
  const bool right =
      region != nullptr && region->program == program && region->address == body.memory.address;
  return right ? region : nullptr;
}

template <class Platform>
void MemoryTable<Platform>::free_region(state::Region& region) {
  const std::uint32_t session = programs_[region.program].session;
  hold_ptag(session, region.ptag, -1);
  state::Session& owner = sessions_[session];
  --owner.regions;
  owner.registered_bytes -= region.length;
  discharge_region(session, region.length);
  region.handle = 0;
  regions_.give(regions_.index(region));
}

template <class Platform>
vip::Return MemoryTable<Platform>::deregister_memory(std::uint32_t program, const CommandBody& body) {
  state::Region* region = own_region(program, body);
  if (region == nullptr) return vip::kInvalidParameter;
  free_region(*region);
  return vip::kSuccess;
}

template <class Platform>
vip::Return MemoryTable<Platform>::query_memory(std::uint32_t program, CommandBody& body) const {
  const state::Region* region = find_region(program, body.handle);
  if (region == nullptr || region->address != body.memory.address) return vip::kInvalidParameter;
  body.memory = {region->address,      region->length,      region->ptag,
                 region->enable_write, region->enable_read, 0};
  return vip::kSuccess;
}

template <class Platform>
vip::Return MemoryTable<Platform>::set_memory(std::uint32_t program, const CommandBody& body) {
  const std::uint32_t session = programs_[program].session;
  state::Region* region = own_region(program, body);
  if (region == nullptr) return vip::kInvalidParameter;
  const std::uint32_t ptag = body.memory.ptag;
  if (ptag != 0 && find_ptag(session, ptag) == nullptr) return vip::kInvalidPtag;
  hold_ptag(session, ptag, +1);
  hold_ptag(session, region->ptag, -1);
  region->ptag = ptag;
  region->enable_write = body.memory.enable_write != 0;
  region->enable_read = body.memory.enable_read != 0;
  return vip::kSuccess;
}

// Whether a descriptor of this VI may use [address, address + length) under a memory handle. The
// null tag on either side goes with every tag of the same session.
template <class Platform>
bool MemoryTable<Platform>::span_allowed(const Vi& vi, std::uint64_t address, std::uint32_t handle,
                                         std::uint64_t length) const {
  const state::Region* region = find_region(vi.program, handle);
  if (region == nullptr) return false;
  if (region->ptag != vi.ptag && region->ptag != 0 && vi.ptag != 0) [[unlikely]] return false;
  const std::uint64_t offset = address - region->address;
  return offset <= region->length && length <= region->length - offset;
}

// Whether the peer of this VI may write to, or read from, a region of ours.
template <class Platform>
bool MemoryTable<Platform>::rdma_allowed(const Vi& vi, std::uint64_t address, std::uint32_t handle,
                                         std::uint64_t length, bool write) const {
  const state::Region* region = find_region(vi.program, handle);
  if (region == nullptr) return false;
  const bool enabled = write ? vi.enable_write && region->enable_write
                             : vi.enable_read && region->enable_read;
  return enabled && span_allowed(vi, address, handle, length);
}

}  // namespace viaduct
