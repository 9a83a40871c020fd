#include "sovia/message/tag_table.h"

#include <errno.h>
#include <sys/random.h>

#include <new>

namespace viaduct::sovia {

std::uint64_t TagTable::add(const TaggedBuffer& buffer) {
  std::uint64_t key = 0;
  while (key == 0 || buffers_.contains(key)) {
    if (getrandom(&key, sizeof key, 0) != sizeof key) return 0;
  }
  try {
    buffers_.emplace(key, buffer);
  } catch (const std::bad_alloc&) {
    return 0;
  }
  return key;
}

TaggedBuffer* TagTable::find(std::uint64_t key) {
  const auto found = buffers_.find(key);
  return found == buffers_.end() ? nullptr : &found->second;
}

int TagTable::check(std::uint64_t key, unsigned access, const TagRange& piece, const TagRange& whole) {
  const TaggedBuffer* const buffer = find(key);
  if (buffer == nullptr || (buffer->access & access) != access) return EACCES;
  return whole.is_inside(buffer->bytes) && piece.is_inside(whole) ? 0 : ERANGE;
}

}  // namespace viaduct::sovia
