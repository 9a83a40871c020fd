// The free slots of a session: a stack whose links lie in the slots, and the slots never used yet.
// Any thread at any time; the tag in the top word keeps a thread that was interrupted between
// reading a link and swapping from taking an outdated one.
#ifndef VIADUCT_VIPL_SESSION_SLOT_POOL_H
#define VIADUCT_VIPL_SESSION_SLOT_POOL_H

#include <atomic>
#include <cstdint>

#include "kagent/contract/session_layout.h"

namespace viaduct::vipl {

class SlotPool {
 public:
  SlotPool(const layout::View& view, std::uint32_t slots) : view_(view), slots_(slots) {}

  // layout::kNoSlot when all are in use.
  std::uint32_t take() const {
    layout::Header& header = view_.header();
    std::uint64_t top = header.free_slots.load(std::memory_order_acquire);
    while (static_cast<std::uint32_t>(top) != 0) {
      const std::uint32_t slot = static_cast<std::uint32_t>(top) - 1;
      if (slot >= slots_) return layout::kNoSlot;
      const std::uint32_t next = link(slot).load(std::memory_order_relaxed);
      if (header.free_slots.compare_exchange_weak(top, with_next_tag(top, next),
                                                  std::memory_order_acquire)) {
        return slot;
      }
    }
    std::uint32_t fresh = header.fresh_slots.load(std::memory_order_relaxed);
    while (fresh < slots_) {
      if (header.fresh_slots.compare_exchange_weak(fresh, fresh + 1)) return fresh;
    }
    return layout::kNoSlot;
  }

  void give(std::uint32_t slot) const {
    layout::Header& header = view_.header();
    std::uint64_t top = header.free_slots.load(std::memory_order_relaxed);
    do {
      link(slot).store(static_cast<std::uint32_t>(top), std::memory_order_relaxed);
    } while (!header.free_slots.compare_exchange_weak(top, with_next_tag(top, slot + 1),
                                                      std::memory_order_release));
  }

 private:
  static std::uint64_t with_next_tag(std::uint64_t top, std::uint32_t low) {
    return ((top >> 32) + 1) << 32 | low;
  }
  std::atomic_ref<std::uint32_t> link(std::uint32_t slot) const {
    return std::atomic_ref<std::uint32_t>(view_.slot(slot).completion.length);
  }

  const layout::View& view_;
  std::uint32_t slots_;
};

}  // namespace viaduct::vipl

#endif
