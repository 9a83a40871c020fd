#include "sovia/lane/registrations.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

#include "sovia/process/counters.h"
#include "sovia/process/units.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {

VIP_MEM_HANDLE Registrations::take(VIP_NIC_HANDLE nic, VIP_PROTECTION_HANDLE ptag,
                                   const void* data, std::size_t bytes) {
  const auto from = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t to = from + bytes;
  const LockGuard guard(lock_);
  Region* oldest = nullptr;
  for (Region& region : regions_) {
    if (keeps_ && region.handle != 0 && region.from <= from && to <= region.to) {
      ++region.users;
      region.used_at = ++clock_;
      counters::add(Counter::kRegistrationHits);
      return region.handle;
    }
    const bool better = oldest == nullptr || region.used_at < oldest->used_at;
    if (region.users == 0 && better) oldest = &region;
  }
  if (oldest == nullptr) return 0;
  if (oldest->handle != 0) drop(nic, *oldest);
  // The region gets whole pages, as the next send often comes from memory beside this one.
  Region made{from / kPage * kPage, (to + kPage - 1) / kPage * kPage, 0, 1, ++clock_};
  VIP_MEM_ATTRIBUTES attributes{};
  attributes.Ptag = ptag;
  if (VipRegisterMem(nic, reinterpret_cast<void*>(made.from), made.to - made.from, &attributes,
                     &made.handle) != VIP_SUCCESS) {
    return 0;
  }
  counters::add(Counter::kRegistrations);
  *oldest = made;
  return made.handle;
}

void Registrations::give_back(VIP_NIC_HANDLE nic, VIP_MEM_HANDLE handle) {
  const LockGuard guard(lock_);
  for (Region& region : regions_) {
    if (region.handle != handle || region.users == 0) continue;
    if (--region.users == 0 && !keeps_) drop(nic, region);
  }
}

void Registrations::drop(VIP_NIC_HANDLE nic, Region& region) {
  VipDeregisterMem(nic, reinterpret_cast<void*>(region.from), region.handle);
  counters::add(Counter::kRegistrationsDropped);
  region = {};
}

// Tries a byte of each page by a system call, which fails for memory that can't be read.
bool readable(const void* data, std::size_t bytes) {
  constexpr std::size_t kAtOnce = 64;
  const auto* at = static_cast<const std::byte*>(data);
  const std::byte* const end = at + bytes;
  while (at < end) {
    std::byte seen[kAtOnce];
    iovec here[kAtOnce], there[kAtOnce];
    std::size_t n = 0;
    for (; n < kAtOnce && at < end; ++n) {
      here[n] = {&seen[n], 1};
      there[n] = {const_cast<std::byte*>(at), 1};
      const auto address = reinterpret_cast<std::uintptr_t>(at);
      at += std::min<std::uintptr_t>(kPage - address % kPage, static_cast<std::size_t>(end - at));
    }
    if (process_vm_readv(getpid(), here, n, there, n, 0) != static_cast<ssize_t>(n)) return false;
  }
  return true;
}

}  // namespace viaduct::sovia
