// Memory in which the parts of a message are put together, or wait. It grows with the bytes that have come, not by the
// length that the peer announces.
#ifndef VIADUCT_SOVIA_MESSAGE_MESSAGE_MEMORY_H
#define VIADUCT_SOVIA_MESSAGE_MESSAGE_MEMORY_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "sovia/lane/lane_pieces.h"
#include "sovia/process/guarded_copy.h"

namespace viaduct::sovia {

class MessageMemory {
 public:
  MessageMemory() = default;
  MessageMemory(const MessageMemory&) = delete;
  MessageMemory(MessageMemory&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  ~MessageMemory() { std::free(memory_); }

  std::size_t size() const { return size_; }
  std::byte* data() { return memory_; }
  // Room for more bytes behind the present ones: at least one, at most `wanted`; nullptr: there is no memory.
  std::byte* room(std::size_t wanted, std::size_t& bytes) {
    if (capacity_ == size_) {
      const std::size_t capacity = size_ + std::min(wanted, std::max(size_, kLeast));
      auto* const memory = static_cast<std::byte*>(std::realloc(memory_, capacity));
      if (memory == nullptr) return nullptr;
      memory_ = memory;
      capacity_ = capacity;
    }
    bytes = std::min(wanted, capacity_ - size_);
    return memory_ + size_;
  }
  void filled(std::size_t bytes) { size_ += bytes; }
  // Adds the bytes of the program's pieces from `from` on, at most so many. False: there is no memory, or none of the
  // program's.
  bool append(const iovec* pieces, std::size_t count, std::size_t from, std::size_t most = SIZE_MAX) {
    bool all = true;
    over_pieces(pieces, count, from, [&](const std::byte* data, std::size_t here) {
      here = std::min(here, most);
      for (std::size_t done = 0, bytes = 0; done != here && all; done += bytes) {
        std::byte* const to = room(here - done, bytes);
        all = to != nullptr && copy_guarded(to, data + done, bytes);
        if (all) filled(bytes);
      }
      most -= here;
      return here;
    });
    return all;
  }
  void clear() {
    std::free(memory_);
    memory_ = nullptr;
    size_ = capacity_ = 0;
  }

 private:
  static constexpr std::size_t kLeast = 16 * 1024;
  std::byte* memory_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
};

}  // namespace viaduct::sovia

#endif
