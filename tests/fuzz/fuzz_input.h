// Shared by fuzz targets that take a list of steps: reading the steps, and ending the process when a check fails.
#ifndef VIADUCT_TESTS_FUZZ_FUZZ_INPUT_H
#define VIADUCT_TESTS_FUZZ_FUZZ_INPUT_H

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "tests/sim/sim_port.h"

namespace viaduct::fuzz {

// A network of small hosts: most of an input's time would else go into making their buffers.
inline SimOptions small_network() {
  SimOptions out;
  out.receive_frames = out.receive_queue = out.transmit_frames = 128;
  out.lendable = 64;
  return out;
}

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

// Bytes behind the end are zeros.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(data, size) {}

  bool empty() const { return rest_.empty(); }
  std::uint8_t byte() {
    if (rest_.empty()) return 0;
    const std::uint8_t out = rest_.front();
    rest_ = rest_.subspan(1);
    return out;
  }
  std::uint16_t number() {
    const unsigned low = byte();
    return static_cast<std::uint16_t>(low | byte() << 8);
  }
  std::uint32_t word() {
    const std::uint32_t low = number();
    return low | std::uint32_t{number()} << 16;
  }
  // Up to `most` bytes.
  std::span<const std::uint8_t> bytes(std::size_t most) {
    const auto out = rest_.first(std::min(most, rest_.size()));
    rest_ = rest_.subspan(out.size());
    return out;
  }

 private:
  std::span<const std::uint8_t> rest_;
};

}  // namespace viaduct::fuzz

#endif
