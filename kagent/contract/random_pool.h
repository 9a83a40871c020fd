// Random numbers from the system, drawn by the dozen; each is given out once and forgotten.
#ifndef VIADUCT_KAGENT_CONTRACT_RANDOM_POOL_H
#define VIADUCT_KAGENT_CONTRACT_RANDOM_POOL_H

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace viaduct {

class RandomPool {
 public:
  // fill(memory, bytes): as getrandom().
  template <class Fill>
  std::uint64_t draw(Fill&& fill) {
    if (left_ == 0) {
      // Requests of up to 256 bytes are not cut short.
      static_assert(sizeof numbers_ <= 256);
      while (fill(numbers_.data(), sizeof numbers_) != static_cast<long>(sizeof numbers_)) {
        if (errno != EINTR) __builtin_trap();  // no kernel that has AF_XDP
      }
      left_ = numbers_.size();
    }
    return std::exchange(numbers_[--left_], 0);
  }

 private:
  std::array<std::uint64_t, 32> numbers_{};
  std::size_t left_ = 0;
};

}  // namespace viaduct

#endif
