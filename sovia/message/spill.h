// Bytes that have been read ahead, in memory of their own.
#ifndef VIADUCT_SOVIA_MESSAGE_SPILL_H
#define VIADUCT_SOVIA_MESSAGE_SPILL_H

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace viaduct::sovia {

class Spill {
 public:
  Spill() = default;
  Spill(const Spill&) = delete;
  ~Spill() { std::free(memory_); }

  std::size_t size() const { return end_ - begin_; }
  const std::byte* data() const { return memory_ + begin_; }

  // False if there is no memory for them.
  bool append(const std::byte* from, std::size_t bytes) {
    if (capacity_ - end_ < bytes && !grow(bytes)) return false;
    std::memcpy(memory_ + end_, from, bytes);
    end_ += bytes;
    return true;
  }
  void drop(std::size_t bytes) {
    begin_ += bytes;
    if (begin_ != end_) return;
    std::free(memory_);
    memory_ = nullptr;
    begin_ = end_ = capacity_ = 0;
  }
  // Drops the bytes that were appended last.
  void drop_last(std::size_t bytes) {
    end_ -= bytes;
    drop(0);
  }

 private:
  bool grow(std::size_t bytes) {
    const std::size_t capacity = std::max(2 * capacity_, size() + bytes);
    auto* const memory = static_cast<std::byte*>(std::malloc(capacity));
    if (memory == nullptr) return false;
    if (size() != 0) std::memcpy(memory, data(), size());
    std::free(memory_);
    memory_ = memory;
    end_ -= begin_;
    begin_ = 0;
    capacity_ = capacity;
    return true;
  }

  std::byte* memory_ = nullptr;
  std::size_t begin_ = 0, end_ = 0, capacity_ = 0;
};

}  // namespace viaduct::sovia

#endif
