// A queue of bounded length, in memory that is allocated once.
#ifndef VIADUCT_SOVIA_LANE_RING_H
#define VIADUCT_SOVIA_LANE_RING_H

#include <cstddef>
#include <vector>

namespace viaduct::sovia {

template <class T>
class Ring {
 public:
  explicit Ring(std::size_t capacity) : items_(capacity) {}

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) {
    const std::size_t at = first_ + i;
    return items_[at < items_.size() ? at : at - items_.size()];
  }
  T& front() { return items_[first_]; }
  // There must be room.
  void push_back(const T& item) {
    ++size_;
    (*this)[size_ - 1] = item;
  }
  void pop_front() {
    if (++first_ == items_.size()) first_ = 0;
    --size_;
  }

 private:
  std::vector<T> items_;
  std::size_t first_ = 0, size_ = 0;
};

}  // namespace viaduct::sovia

#endif
