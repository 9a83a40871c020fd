// The registrations of a domain. Registering asks the agent, unless the program has a port of its own,
// so regions are kept when their last user has gone, and serve the next one that needs what they
// cover. VIA pins nothing and means addresses, not pages: a region that is kept never goes stale. As
// with other providers' caches, peers that know a key may use it until its region is given up.
#ifndef VIADUCT_VIPL_FABRIC_REGIONS_H
#define VIADUCT_VIPL_FABRIC_REGIONS_H

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>

#include "vipl/fabric/provider.h"

namespace viaduct::fabric {

struct Region {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool remote_read = false;
  bool remote_write = false;
  VIP_MEM_HANDLE handle = 0;
  unsigned users = 0;

  bool covers(std::uintptr_t from, std::uintptr_t to) const { return begin <= from && to <= end; }
  bool local() const { return !remote_read && !remote_write; }
};

class Regions {
 public:
  explicit Regions(VIP_NIC_HANDLE nic) : nic_(nic) {}
  ~Regions();
  Regions(const Regions&) = delete;
  Regions& operator=(const Regions&) = delete;

  // A region that covers the bytes, with these rights and no others. nullptr if there is no room.
  Region* acquire(const void* address, std::size_t length, bool remote_read, bool remote_write);
  void release(Region& region);

  // The handle of some region that covers the bytes, for use by this process alone; one is made, and
  // kept, if there is none. 0 if that can't be.
  VIP_MEM_HANDLE local(const void* address, std::size_t length);

 private:
  using Key = std::uintptr_t;
  Region* find(std::uintptr_t begin, std::uintptr_t end, bool remote_read, bool remote_write);
  Region* make(std::uintptr_t begin, std::uintptr_t end, bool remote_read, bool remote_write);
  void drop(Region& region);
  void trim();

  const VIP_NIC_HANDLE nic_;
  std::mutex mutex_;
  std::multimap<Key, std::unique_ptr<Region>> regions_;  // by begin
  std::list<Region*> unused_;                            // the one that was used last in front
  std::size_t longest_ = 0;
};

}  // namespace viaduct::fabric

#endif
