// A slice of a stack's segment used as an array with a free list.
#ifndef VIADUCT_KAGENT_STACK_POOL_H
#define VIADUCT_KAGENT_STACK_POOL_H

#include <cstdint>

#include "kagent/stack/state.h"

namespace viaduct {

template <class T>
class Pool {
 public:
  void attach(T* items, state::PoolHead* head, std::uint32_t capacity) {
    items_ = items, head_ = head, capacity_ = capacity;
  }
  void reset() { *head_ = {state::kNone, 0, 0}; }

  T& operator[](std::uint32_t i) { return items_[i]; }
  const T& operator[](std::uint32_t i) const { return items_[i]; }
  std::uint32_t capacity() const { return capacity_; }
  std::uint32_t used() const { return head_->used; }
  std::uint32_t index(const T& item) const { return static_cast<std::uint32_t>(&item - items_); }
  // Items that were ever in use lie below this.
  std::uint32_t fresh() const { return head_->fresh; }

  // kNone when all are in use.
  std::uint32_t take() {
    std::uint32_t i = head_->free;
    if (i != state::kNone) {
      head_->free = items_[i].next_free;
    } else if (head_->fresh < capacity_) {
      i = head_->fresh++;
    } else {
      return state::kNone;
    }
    ++head_->used;
    return i;
  }
  void give(std::uint32_t i) {
    items_[i].next_free = head_->free;
    head_->free = i;
    --head_->used;
  }

 private:
  T* items_ = nullptr;
  state::PoolHead* head_ = nullptr;
  std::uint32_t capacity_ = 0;
};

}  // namespace viaduct

#endif
