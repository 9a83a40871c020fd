#include "kagent/contract/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#define VIADUCT_CRC_X86 1
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#define VIADUCT_CRC_ARM 1
#endif

namespace viaduct {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // reflected

constexpr std::uint32_t times_x(std::uint32_t v) {
  return v >> 1 ^ ((v & 1) != 0 ? kPolynomial : 0);
}

// Eight bytes at once: table n is for a byte that n more bytes follow.
using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables out{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t v = byte;
    for (int bit = 0; bit < 8; ++bit) v = times_x(v);
    out[0][byte] = v;
  }
  for (std::size_t n = 1; n < 8; ++n) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = out[n - 1][byte];
      out[n][byte] = before >> 8 ^ out[0][before & 0xff];
    }
  }
  return out;
}

constexpr Tables kTables = make_tables();

using Function = std::uint32_t (*)(const void*, std::size_t);

std::uint64_t load_little(const std::uint8_t* p) {
  std::uint64_t v;
  std::memcpy(&v, p, sizeof v);
  return std::endian::native == std::endian::little ? v : __builtin_bswap64(v);
}

#ifdef VIADUCT_CRC_X86

// A remainder is reflected: the highest bit is x^0, the lowest x^31.
constexpr std::uint32_t power_of_x(unsigned n) {
  std::uint32_t v = 0x80000000;
  for (; n > 0; --n) v = times_x(v);
  return v;
}

#define VIADUCT_WORDS [[gnu::target("sse4.2,pclmul")]]
#define VIADUCT_VECTORS [[gnu::target("avx512f,avx512vl,avx512dq,vpclmulqdq,sse4.2,pclmul")]]

VIADUCT_WORDS inline std::uint32_t tail(std::uint64_t crc, const std::uint8_t* p,
                                        std::size_t bytes) {
  for (; bytes >= 8; bytes -= 8, p += 8) crc = _mm_crc32_u64(crc, load_little(p));
  auto out = static_cast<std::uint32_t>(crc);
  for (; bytes > 0; --bytes, ++p) out = _mm_crc32_u8(out, *p);
  return ~out;
}

// Three streams side by side hide the latency of the instruction. To join them, the checksum of one
// is multiplied by x^(bits that follow it): kShift[n] is x^(64 n - 33), of which the carry-less
// product and the checksum of a word, each by its nature, make up for 33.
constexpr std::size_t kMaxWords = 64;  // of one stream
using Shifts = std::array<std::uint32_t, 2 * kMaxWords + 1>;

constexpr Shifts make_shifts() {
  Shifts out{};
  out[1] = power_of_x(31);
  for (std::size_t n = 2; n < out.size(); ++n) {
    std::uint32_t v = out[n - 1];
    for (int bit = 0; bit < 64; ++bit) v = times_x(v);
    out[n] = v;
  }
  return out;
}

constexpr Shifts kShift = make_shifts();

VIADUCT_WORDS inline std::uint64_t shifted(std::uint64_t crc, std::size_t words) {
  const __m128i product =
      _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<long long>(crc)),
                           _mm_cvtsi32_si128(static_cast<int>(kShift[words])), 0);
  return static_cast<std::uint64_t>(_mm_cvtsi128_si64(product));
}

VIADUCT_WORDS std::uint32_t by_words(const void* data, std::size_t bytes) {
  const auto* p = static_cast<const std::uint8_t*>(data);
  std::uint64_t a = 0xffffffff;
  while (bytes >= 3 * 8 * 4) {
    const std::size_t words = bytes / 24 < kMaxWords ? bytes / 24 : kMaxWords;
    const std::uint8_t* const q = p + 8 * words;
    const std::uint8_t* const r = q + 8 * words;
    std::uint64_t b = 0, c = 0;
    const std::size_t last = 8 * words - 8;
    for (std::size_t at = 0; at < last; at += 8) {
      a = _mm_crc32_u64(a, load_little(p + at));
      b = _mm_crc32_u64(b, load_little(q + at));
      c = _mm_crc32_u64(c, load_little(r + at));
    }
    a = _mm_crc32_u64(a, load_little(p + last));
    b = _mm_crc32_u64(b, load_little(q + last));
    a = _mm_crc32_u64(c, load_little(r + last) ^ shifted(a, 2 * words) ^ shifted(b, words));
    p = r + 8 * words;
    bytes -= 24 * words;
  }
  return tail(a, p, bytes);
}

// A fold moves 128 bits `bits` further by multiplying their halves by these numbers.
struct Fold {
  std::uint64_t low, high;
};

constexpr Fold fold_by(unsigned bits) {
  return {std::uint64_t{power_of_x(bits + 63)} << 32, std::uint64_t{power_of_x(bits - 1)} << 32};
}

constexpr Fold kBy2048 = fold_by(2048), kBy1024 = fold_by(1024), kBy512 = fold_by(512);
constexpr Fold kBy384 = fold_by(384), kBy256 = fold_by(256), kBy128 = fold_by(128);

VIADUCT_VECTORS inline __m512i lanes(Fold first, Fold second, Fold third, Fold fourth) {
  const auto s = [](std::uint64_t v) { return static_cast<long long>(v); };
  return _mm512_set_epi64(s(fourth.high), s(fourth.low), s(third.high), s(third.low),
                          s(second.high), s(second.low), s(first.high), s(first.low));
}

VIADUCT_VECTORS inline __m512i folded(__m512i v, __m512i by, __m512i onto) {
  constexpr int kXorOfThree = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(v, by, 0x00),
                                   _mm512_clmulepi64_epi128(v, by, 0x11), onto, kXorOfThree);
}

VIADUCT_VECTORS std::uint32_t by_vectors(const void* data, std::size_t bytes) {
  constexpr std::size_t kVector = 64, kRound = 4 * kVector;
  if (bytes < kRound) return by_words(data, bytes);
  const auto* p = static_cast<const std::uint8_t*>(data);
  __m512i a = _mm512_xor_si512(_mm512_loadu_si512(p),
                               _mm512_zextsi128_si512(_mm_cvtsi32_si128(-1)));
  __m512i b = _mm512_loadu_si512(p + kVector);
  __m512i c = _mm512_loadu_si512(p + 2 * kVector);
  __m512i d = _mm512_loadu_si512(p + 3 * kVector);
  p += kRound, bytes -= kRound;
  const __m512i by_round = lanes(kBy2048, kBy2048, kBy2048, kBy2048);
  for (; bytes >= kRound; bytes -= kRound, p += kRound) {
    a = folded(a, by_round, _mm512_loadu_si512(p));
    b = folded(b, by_round, _mm512_loadu_si512(p + kVector));
    c = folded(c, by_round, _mm512_loadu_si512(p + 2 * kVector));
    d = folded(d, by_round, _mm512_loadu_si512(p + 3 * kVector));
  }
  const __m512i by_two = lanes(kBy1024, kBy1024, kBy1024, kBy1024);
  const __m512i by_one = lanes(kBy512, kBy512, kBy512, kBy512);
  c = folded(a, by_two, c);
  d = folded(b, by_two, d);
  d = folded(c, by_one, d);
  for (; bytes >= kVector; bytes -= kVector, p += kVector) {
    d = folded(d, by_one, _mm512_loadu_si512(p));
  }
  // Folds the first three lanes onto the last one.
  const __m512i ahead = folded(d, lanes(kBy384, kBy256, kBy128, Fold{}), _mm512_setzero_si512());
  __m128i last =
      _mm_xor_si128(_mm512_extracti64x2_epi64(d, 3), _mm512_extracti64x2_epi64(ahead, 0));
  last = _mm_xor_si128(last, _mm_xor_si128(_mm512_extracti64x2_epi64(ahead, 1),
                                           _mm512_extracti64x2_epi64(ahead, 2)));
  const auto low = static_cast<std::uint64_t>(_mm_cvtsi128_si64(last));
  const auto high = static_cast<std::uint64_t>(_mm_extract_epi64(last, 1));
  return tail(_mm_crc32_u64(_mm_crc32_u64(0, low), high), p, bytes);
}

Function best() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("pclmul")) {
    return crc32c_by_table;
  }
  const bool vectors =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("vpclmulqdq");
  return vectors ? by_vectors : by_words;
}

#elif defined(VIADUCT_CRC_ARM)

std::uint32_t by_words(const void* data, std::size_t bytes) {
  const auto* p = static_cast<const std::uint8_t*>(data);
  std::uint32_t crc = 0xffffffff;
  for (; bytes >= 8; bytes -= 8, p += 8) crc = __crc32cd(crc, load_little(p));
  for (; bytes > 0; --bytes, ++p) crc = __crc32cb(crc, *p);
  return ~crc;
}

Function best() { return by_words; }

#else

Function best() { return crc32c_by_table; }

#endif

const Function kBest = best();

}  // namespace

bool crc32c_is_fast() { return kBest != crc32c_by_table; }

std::uint32_t crc32c(const void* data, std::size_t bytes) { return kBest(data, bytes); }

std::uint32_t crc32c_by_table(const void* data, std::size_t bytes) {
  const auto* p = static_cast<const std::uint8_t*>(data);
  std::uint32_t crc = 0xffffffff;
  for (; bytes >= 8; bytes -= 8, p += 8) {
    const std::uint64_t word = load_little(p) ^ crc;
    crc = 0;
    for (std::size_t n = 0; n < 8; ++n) crc ^= kTables[7 - n][word >> (8 * n) & 0xff];
  }
  for (; bytes > 0; --bytes, ++p) crc = crc >> 8 ^ kTables[0][(crc ^ *p) & 0xff];
  return ~crc;
}

}  // namespace viaduct
