// The library's own notes of what is registered: whether it may read a program's data itself. The
// driver judges every descriptor by its own table; this one only keeps the library from following
// an address that a wrong descriptor gives.
//
// A table that forgets what does not fit: data of unknown regions is left for the driver to fetch.
// Threads that ask whether it covers something take no lock; those that change it do.
#ifndef VIADUCT_VIPL_SESSION_REGION_TABLE_H
#define VIADUCT_VIPL_SESSION_REGION_TABLE_H

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "vipl/process/lock.h"
#include "vipl/process/sys.h"

namespace viaduct::vipl {

class RegionTable {
 public:
  // False when there is no memory. Memory is taken as entries are used.
  bool create() {
    const Lock lock(lock_);
    entries_ = static_cast<Entry*>(sys::map(kBytes, -1));
    has_forgotten_ = false;
    return entries_ != nullptr;
  }
  void destroy() {
    if (entries_ != nullptr) sys::unmap(entries_, kBytes);
    entries_ = nullptr;
  }
  // To be called when no thread is in it: in a forked child one of the parent's may seem to hold the lock.
  void unlock() { lock_.store(0); }

  // handle is not 0.
  void insert(std::uint32_t handle, std::uint64_t address, std::uint64_t length) {
    const Lock lock(lock_);
    for (std::uint32_t i = 0; i < kProbes; ++i) {
      Entry& entry = at(handle, i);
      if (entry.handle.load(std::memory_order_relaxed) != 0) continue;
      entry.address.store(address, std::memory_order_relaxed);
      entry.length.store(length, std::memory_order_relaxed);
      entry.handle.store(handle, std::memory_order_release);
      return;
    }
    has_forgotten_ = true;
  }

  // Whether the table has never forgotten a region.
  bool complete() {
    const Lock lock(lock_);
    return !has_forgotten_;
  }

  // Removes the region with this handle and address and returns its length; 0 when it is not known.
  std::uint64_t remove(std::uint32_t handle, std::uint64_t address) {
    const Lock lock(lock_);
    for (std::uint32_t i = 0; i < kProbes; ++i) {
      Entry& entry = at(handle, i);
      if (entry.handle.load(std::memory_order_relaxed) != handle) continue;
      if (entry.address.load(std::memory_order_relaxed) != address) continue;
      entry.handle.store(0, std::memory_order_relaxed);
      return entry.length.load(std::memory_order_relaxed);
    }
    return 0;
  }

  // Whether [address, address + length) lies in the region with this handle, as far as is known.
  bool covers(std::uint32_t handle, std::uint64_t address, std::uint64_t length) const {
    for (std::uint32_t i = 0; i < kProbes; ++i) {
      const Entry& entry = at(handle, i);
      if (entry.handle.load(std::memory_order_acquire) != handle) continue;
      const std::uint64_t begin = entry.address.load(std::memory_order_relaxed);
      const std::uint64_t bytes = entry.length.load(std::memory_order_relaxed);
      return handle != 0 && address >= begin && length <= bytes &&
             address - begin <= bytes - length;
    }
    return false;
  }

 private:
  struct Entry {
    std::atomic<std::uint32_t> handle;  // 0: none
    std::atomic<std::uint64_t> address;
    std::atomic<std::uint64_t> length;
  };

  static constexpr std::uint32_t kEntries = 1u << 18;
  static constexpr std::uint32_t kProbes = 8;
  static constexpr std::size_t kBytes = kEntries * sizeof(Entry);

  // The driver's handles count up, so their low bits spread well.
  Entry& at(std::uint32_t handle, std::uint32_t probe) const {
    return entries_[(handle + probe) % kEntries];
  }

  Entry* entries_ = nullptr;
  LockWord lock_;
  bool has_forgotten_ VIADUCT_GUARDED_BY(lock_) = false;
};

}  // namespace viaduct::vipl

#endif
