#include "vipl/fabric/regions.h"

#include <algorithm>

namespace viaduct::fabric {
namespace {

constexpr std::size_t kKept = 512;  // unused regions
// Local regions are made larger than asked for, so that they serve the neighbours too.
constexpr std::uintptr_t kGrain = 64 * 1024;
// Where addresses of programs end.
constexpr std::uintptr_t kLastAddress = 0x7ffffffff000;

}  // namespace

Regions::~Regions() {
  for (const auto& [begin, region] : regions_) {
    VipDeregisterMem(nic_, reinterpret_cast<void*>(region->begin), region->handle);
  }
}

Region* Regions::find(std::uintptr_t begin, std::uintptr_t end, bool remote_read,
                      bool remote_write) {
  // No region that begins before `first` reaches this far.
  const std::uintptr_t first = end > longest_ ? end - longest_ : 0;
  for (auto at = regions_.upper_bound(begin); at != regions_.begin();) {
    --at;
    if (at->first < first) break;
    Region& region = *at->second;
    if (region.covers(begin, end) && region.remote_read == remote_read &&
        region.remote_write == remote_write) {
      return &region;
    }
  }
  return nullptr;
}

Region* Regions::make(std::uintptr_t begin, std::uintptr_t end, bool remote_read,
                      bool remote_write) {
  VIP_MEM_ATTRIBUTES attributes{nullptr, remote_write, remote_read};
  VIP_MEM_HANDLE handle;
  if (VipRegisterMem(nic_, reinterpret_cast<void*>(begin), end - begin, &attributes, &handle) !=
      VIP_SUCCESS) {
    return nullptr;
  }
  auto region = std::make_unique<Region>(
      Region{begin, end, remote_read, remote_write, handle, 0});
  Region* made = region.get();
  regions_.emplace(begin, std::move(region));
  longest_ = std::max(longest_, end - begin);
  return made;
}

Region* Regions::acquire(const void* address, std::size_t length, bool remote_read,
                         bool remote_write) {
  auto begin = reinterpret_cast<std::uintptr_t>(address);
  std::uintptr_t end = begin + std::max<std::size_t>(length, 1);
  if (begin == 0 || end < begin) return nullptr;
  const std::lock_guard lock(mutex_);
  Region* region = keeps_regions() ? find(begin, end, remote_read, remote_write) : nullptr;
  if (region == nullptr) {
    if (keeps_regions() && !remote_read && !remote_write && end < kLastAddress - kGrain) {
      begin = std::max(begin / kGrain * kGrain, std::uintptr_t{4096});
      end = (end + kGrain - 1) / kGrain * kGrain;
    }
    region = make(begin, end, remote_read, remote_write);
    if (region == nullptr && !unused_.empty()) {
      while (!unused_.empty()) drop(*unused_.back());
      region = make(begin, end, remote_read, remote_write);
    }
    if (region == nullptr) return nullptr;
  } else if (region->users == 0) {
    unused_.remove(region);
  }
  ++region->users;
  return region;
}

void Regions::release(Region& region) {
  const std::lock_guard lock(mutex_);
  if (--region.users != 0) return;
  unused_.push_front(&region);
  trim();
}

VIP_MEM_HANDLE Regions::local(const void* address, std::size_t length) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  const std::uintptr_t end = begin + length;
  {
    const std::lock_guard lock(mutex_);
    if (const Region* region = find(begin, end, false, false)) return region->handle;
  }
  Region* region = acquire(address, length, false, false);
  if (region == nullptr) return 0;
  // The region stays in use: descriptors that name it may be posted for as long as the domain lives.
  return region->handle;
}

void Regions::trim() {
  const std::size_t most = keeps_regions() ? kKept : 0;
  while (unused_.size() > most) drop(*unused_.back());
}

void Regions::drop(Region& region) {
  unused_.remove(&region);
  VipDeregisterMem(nic_, reinterpret_cast<void*>(region.begin), region.handle);
  for (auto [at, end] = regions_.equal_range(region.begin); at != end; ++at) {
    if (at->second.get() == &region) {
      regions_.erase(at);
      return;
    }
  }
}

}  // namespace viaduct::fabric
