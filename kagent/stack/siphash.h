// SipHash-2-4: a hash with a secret key, of which no number of hashes tells anything.
#ifndef VIADUCT_KAGENT_STACK_SIPHASH_H
#define VIADUCT_KAGENT_STACK_SIPHASH_H

#include <bit>
#include <cstdint>
#include <span>

namespace viaduct {

// The hash of 8 * words - 1 bytes: the highest byte of the last word is not looked at.
inline std::uint64_t siphash(const std::uint64_t (&key)[2], std::span<const std::uint64_t> words) {
  std::uint64_t a = key[0] ^ 0x736f6d6570736575, b = key[1] ^ 0x646f72616e646f6d;
  std::uint64_t c = key[0] ^ 0x6c7967656e657261, d = key[1] ^ 0x7465646279746573;
  const auto rounds = [&](int n) {
    for (; n > 0; --n) {
      a += b, b = std::rotl(b, 13) ^ a, a = std::rotl(a, 32);
      c += d, d = std::rotl(d, 16) ^ c;
      a += d, d = std::rotl(d, 21) ^ a;
      c += b, b = std::rotl(b, 17) ^ c, c = std::rotl(c, 32);
    }
  };
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::uint64_t word = words[i];
    if (i + 1 == words.size()) {
      word = (word & ~0ull >> 8) | static_cast<std::uint64_t>(8 * words.size() - 1) << 56;
    }
    d ^= word;
    rounds(2);
    a ^= word;
  }
  c ^= 0xff;
  rounds(4);
  return a ^ b ^ c ^ d;
}

}  // namespace viaduct

#endif
