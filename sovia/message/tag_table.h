// The buffers of this end that the peer of a connection may put to or get from.
#ifndef VIADUCT_SOVIA_MESSAGE_TAG_TABLE_H
#define VIADUCT_SOVIA_MESSAGE_TAG_TABLE_H

#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace viaduct::sovia {

struct TaggedBuffer {
  std::byte* at = nullptr;
  std::uint64_t bytes = 0;
  unsigned access = 0;  // SOVIA_TAG_PUT, SOVIA_TAG_GET
  // The connection's lane on which the buffer is open to RDMA, and the handle there; 0: it is not.
  std::uint32_t lane = 0, memory = 0;
};

// The bytes of the buffer that a put or get is about.
struct TagRange {
  std::uint64_t at, bytes;
  bool is_inside(std::uint64_t whole) const { return at <= whole && bytes <= whole - at; }
  bool is_inside(const TagRange& other) const {
    return at >= other.at && TagRange{at - other.at, bytes}.is_inside(other.bytes);
  }
};

class TagTable {
 public:
  // Adds a buffer under a random key, which it returns; 0: there is no memory, or no randomness.
  std::uint64_t add(const TaggedBuffer& buffer);
  TaggedBuffer* find(std::uint64_t key);
  void remove(std::uint64_t key) { buffers_.erase(key); }
  void clear() { buffers_.clear(); }
  // 0, or the errno for a peer that asks for this access.
  int check(std::uint64_t key, unsigned access, const TagRange& piece, const TagRange& whole);
  template <class Visit>
  void for_each(Visit&& visit) {
    for (auto& [key, buffer] : buffers_) visit(buffer);
  }

 private:
  std::unordered_map<std::uint64_t, TaggedBuffer> buffers_;
};

}  // namespace viaduct::sovia

#endif
