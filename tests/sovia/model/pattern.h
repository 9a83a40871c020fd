// Pattern: the bytes of a stream, each of which its position determines.
#ifndef SOVIA_MODEL_PATTERN_H
#define SOVIA_MODEL_PATTERN_H

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

namespace model {

class Pattern {
 public:
  Pattern() : table_(2 * kPeriod) {
    std::mt19937_64 random(20261128);
    for (std::size_t i = 0; i < kPeriod; ++i) table_[i] = static_cast<char>(random());
    std::copy_n(table_.begin(), kPeriod, table_.begin() + kPeriod);
  }

  void fill(char* to, std::uint32_t stream, std::uint64_t at, std::size_t n) const {
    for (std::size_t piece; n > 0; to += piece, at += piece, n -= piece) {
      piece = std::min(n, kPeriod);
      std::memcpy(to, from(stream, at), piece);
    }
  }

  // Number of bytes from the first wrong one on.
  std::uint64_t wrong(const char* bytes, std::uint32_t stream, std::uint64_t at, std::size_t n) const {
    for (std::size_t piece; n > 0; bytes += piece, at += piece, n -= piece) {
      piece = std::min(n, kPeriod);
      const char* right = from(stream, at);
      if (std::memcmp(bytes, right, piece) == 0) continue;
      return n - static_cast<std::size_t>(std::mismatch(bytes, bytes + piece, right).first - bytes);
    }
    return 0;
  }

 private:
  static constexpr std::size_t kPeriod = 65521;  // a prime: no size of a buffer divides it
  const char* from(std::uint32_t stream, std::uint64_t at) const {
    return &table_[(at + std::uint64_t{stream} * 7919) % kPeriod];
  }
  std::vector<char> table_;
};

}  // namespace model

#endif
