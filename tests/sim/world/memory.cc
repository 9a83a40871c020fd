#include "tests/sim/world/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "tests/sim/world/failure.h"

namespace viaduct::sim {
namespace {

constexpr std::size_t kArena = std::size_t{1} << 28;  // of address space; little of it is touched
constexpr std::uint64_t kBase = 0x200000000000;
constexpr std::size_t kGuard = 64;
constexpr int kGuardByte = 0xa5;
constexpr int kUnset = 0xcc;

// Arenas are kept from seed to seed: their pages are expensive.
std::byte* arena(unsigned number) {
  static std::map<unsigned, std::byte*> arenas;
  std::byte*& base = arenas[number];
  if (base == nullptr) {
    void* const wanted = reinterpret_cast<void*>(kBase + number * kArena);
    void* const got =
        mmap(wanted, kArena, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == MAP_FAILED) fail("no memory for program %u", number);
    base = static_cast<std::byte*>(got);
  }
  return base;
}

}  // namespace

Memory::Memory(unsigned number) : number_(number), base_(arena(number)) {
  std::memset(base_, kGuardByte, kGuard);
  used_ = kGuard;
}

bool Memory::is_in_arena(unsigned number, const void* address) {
  const std::uint64_t base = kBase + number * kArena;
  return reinterpret_cast<std::uint64_t>(address) - base < kArena;
}

Memory::~Memory() { check_guards(); }

Buffer& Memory::allocate(std::uint32_t size, bool clear) {
  const std::size_t whole = (std::size_t{size} + kGuard + 63) / 64 * 64;
  if (used_ + whole > kArena) fail("a program's memory is too small");
  std::byte* const data = base_ + used_;
  if (clear) std::memset(data, kUnset, size);
  std::memset(data + size, kGuardByte, whole - size);
  used_ += whole;
  Buffer buffer{};
  buffer.data = data;
  buffer.size = size;
  return buffers_.emplace_back(buffer);
}

const Buffer* Memory::find(std::uint64_t address, std::uint64_t length) const {
  auto it = std::upper_bound(buffers_.begin(), buffers_.end(), address,
                             [](std::uint64_t at, const Buffer& buffer) {
                               return at < reinterpret_cast<std::uint64_t>(buffer.data);
                             });
  if (it == buffers_.begin()) return nullptr;
  --it;
  const std::uint64_t offset = address - reinterpret_cast<std::uint64_t>(it->data);
  return offset <= it->size && length <= it->size - offset ? &*it : nullptr;
}

bool Memory::may_read(std::uint64_t address, std::uint64_t length) const {
  const Buffer* const buffer = find(address, length);
  if (buffer == nullptr) return false;
  const std::uint64_t end = address - reinterpret_cast<std::uint64_t>(buffer->data) + length;
  return (buffer->remote_read && end <= buffer->region) ||
         (buffer->is_busy() && !buffer->incoming && end <= buffer->posted);
}

bool Memory::may_write(std::uint64_t address, std::uint64_t length) const {
  const Buffer* const buffer = find(address, length);
  if (buffer == nullptr) return false;
  const std::uint64_t end = address - reinterpret_cast<std::uint64_t>(buffer->data) + length;
  return (buffer->remote_write && end <= buffer->region) ||
         (buffer->is_busy() && buffer->incoming && end <= buffer->posted);
}

void Memory::check_guards() const {
  const auto whole = [](const std::byte* at, std::size_t bytes) {
    for (; bytes != 0; ++at, --bytes) {
      if (*at != std::byte{kGuardByte}) return false;
    }
    return true;
  };
  if (!whole(base_, kGuard)) fail("program %u: bytes in front of its memory were written", number_);
  for (const Buffer& buffer : buffers_) {
    const std::size_t rest = (std::size_t{buffer.size} + kGuard + 63) / 64 * 64 - buffer.size;
    if (!whole(buffer.data + buffer.size, rest)) {
      fail("program %u: bytes behind a buffer of %u were written", number_, buffer.size);
    }
  }
}

}  // namespace viaduct::sim
