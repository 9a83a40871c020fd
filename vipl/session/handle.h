// Handles as programs hold them: numbers in the clothes of pointers.
//
//    63      60 59        52 51           44 43                                   0
//   +----------+------------+---------------+--------------------------------------+
//   |   kind   | NIC number | its generation| object                               |
//   +----------+------------+---------------+--------------------------------------+
//   NIC:              object = 0
//   VI, CQ:           object = index (16 bits) << 28 | low 28 bits of its generation
//   tag, connection:  object = the driver's 32-bit handle
//
// Bit 63 is always set, so no address of a program is a handle, and no handle is NULL.
#ifndef VIADUCT_VIPL_SESSION_HANDLE_H
#define VIADUCT_VIPL_SESSION_HANDLE_H

#include <cstdint>

namespace viaduct::vipl {

static_assert(sizeof(void*) == 8, "handles need pointers of 64 bits");

enum class Kind : std::uint64_t { kNic = 9, kVi = 10, kCq = 11, kPtag = 12, kConnection = 13 };

inline constexpr std::uint32_t kGenerationMask = (1u << 28) - 1;

// The NIC's part: what a handle has in bits 44 to 59.
constexpr std::uint32_t nic_key(std::uint32_t number, std::uint32_t generation) {
  return (number & 0xff) << 8 | (generation & 0xff);
}
constexpr std::uint64_t indexed_object(std::uint32_t index, std::uint32_t generation) {
  return std::uint64_t{index & 0xffff} << 28 | (generation & kGenerationMask);
}

struct Handle {
  std::uint64_t bits;

  explicit Handle(const void* handle) : bits(reinterpret_cast<std::uintptr_t>(handle)) {}
  constexpr Handle(Kind kind, std::uint32_t key, std::uint64_t object)
      : bits(static_cast<std::uint64_t>(kind) << 60 | std::uint64_t{key} << 44 |
             (object & ((1ull << 44) - 1))) {}

  // Whether the handle is of this kind, and no bit is set that handles of the kind don't have.
  constexpr bool is(Kind kind) const {
    if (bits >> 60 != static_cast<std::uint64_t>(kind)) return false;
    if (kind == Kind::kVi || kind == Kind::kCq) return true;
    const std::uint64_t object = bits & ((1ull << 44) - 1);
    return kind == Kind::kNic ? object == 0 : object >> 32 == 0;
  }
  constexpr std::uint32_t nic() const { return bits >> 52 & 0xff; }
  constexpr std::uint32_t key() const { return bits >> 44 & 0xffff; }
  constexpr std::uint32_t index() const { return bits >> 28 & 0xffff; }
  constexpr std::uint32_t generation() const { return bits & kGenerationMask; }
  constexpr std::uint32_t driver_handle() const { return bits & 0xffffffff; }
  void* pointer() const { return reinterpret_cast<void*>(bits); }
};

}  // namespace viaduct::vipl

#endif
