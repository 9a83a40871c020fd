// Regions of the program's own memory that are registered with the NIC, kept for the next send from
// the same place (the paper's registration cache).
//
// A region means an address range of the process, not pages: Viaduct pins nothing, and a send reads the memory mapped
// at the address when it is sent. So a region that outlives free() or munmap() is harmless, and the library need not
// watch the program's malloc().
#ifndef VIADUCT_SOVIA_LANE_REGISTRATIONS_H
#define VIADUCT_SOVIA_LANE_REGISTRATIONS_H

#include <vipl/vipl.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "xdp/mutex.h"

namespace viaduct::sovia {

class Registrations {
 public:
  // `keeps`: regions without users stay registered.
  explicit Registrations(bool keeps) : keeps_(keeps) {}

  // A registered region that covers the memory, held until give_back(); 0: none can be had.
  VIP_MEM_HANDLE take(VIP_NIC_HANDLE nic, VIP_PROTECTION_HANDLE ptag, const void* data,
                      std::size_t bytes);
  void give_back(VIP_NIC_HANDLE nic, VIP_MEM_HANDLE handle);

 private:
  struct Region {
    std::uintptr_t from = 0, to = 0;
    VIP_MEM_HANDLE handle = 0;
    std::uint32_t users = 0;
    std::uint64_t used_at = 0;
  };
  void drop(VIP_NIC_HANDLE nic, Region& region) VIADUCT_REQUIRES(lock_);

  const bool keeps_;
  Mutex lock_;
  std::array<Region, 64> regions_ VIADUCT_GUARDED_BY(lock_);
  std::uint64_t clock_ VIADUCT_GUARDED_BY(lock_) = 0;
};

// Whether the memory can be read; sending from unreadable memory would cost the lane.
bool readable(const void* data, std::size_t bytes);

}  // namespace viaduct::sovia

#endif
