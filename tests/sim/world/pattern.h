// The answers that are known: the right byte at each place of a message.
#ifndef VIADUCT_TESTS_SIM_WORLD_PATTERN_H
#define VIADUCT_TESTS_SIM_WORLD_PATTERN_H

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace viaduct::sim {

constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t z = a * 0x9e3779b97f4a7c15ull + b + 0x632be59bd9b4e019ull;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}

// The bytes of message `number` of a stream.
class Pattern {
 public:
  Pattern(std::uint64_t stream, std::uint64_t number) : base_(mix(stream, number)) {}

  void fill(std::byte* to, std::size_t bytes, std::uint64_t from = 0) const {
    each(bytes, from, [to](std::size_t at, std::uint64_t word, std::size_t n) {
      std::memcpy(to + at, &word, n);
      return true;
    });
  }
  // How many bytes are right before the first wrong one.
  std::size_t right(const std::byte* data, std::size_t bytes, std::uint64_t from = 0) const {
    std::size_t good = bytes;
    each(bytes, from, [&](std::size_t at, std::uint64_t word, std::size_t n) {
      if (std::memcmp(data + at, &word, n) == 0) return true;
      const auto* const right = reinterpret_cast<const std::byte*>(&word);
      good = at;
      while (data[good] == right[good - at]) ++good;
      return false;
    });
    return good;
  }

 private:
  // Words of the pattern from place `from` on: place, word (its bytes in memory order), bytes of
  // it.
  template <class Visit>
  void each(std::size_t bytes, std::uint64_t from, Visit&& visit) const {
    for (std::size_t at = 0; at < bytes;) {
      const std::uint64_t place = from + at;
      std::uint64_t word = (base_ + place / 8) * 0x9e3779b97f4a7c15ull;
      word ^= word >> 32;
      const std::size_t skip = place % 8;
      word >>= skip * 8;
      std::size_t n = 8 - skip;
      if (n > bytes - at) n = bytes - at;
      if (!visit(at, word, n)) return;
      at += n;
    }
  }

  std::uint64_t base_;
};

}  // namespace viaduct::sim

#endif
