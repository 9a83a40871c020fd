#include "sovia/lane/lane_remote.h"

#include <algorithm>

namespace viaduct::sovia {

template <class Post>
std::uint32_t LaneRemote::post_chunks(std::uint32_t bytes, Post&& post) {
  std::uint32_t done = 0;
  while (done < bytes && !sender_.broken() && ring_.has_write_place()) {
    const std::uint32_t here = std::min(bytes - done, kChunkBytes);
    if (!ring_.post_write([&](std::uint32_t place) { return post(place, done, here); })) {
      sender_.fail();
      break;
    }
    done += here;
  }
  return done;
}

std::uint32_t LaneRemote::write(const std::byte* data, std::uint32_t bytes, std::uint32_t memory,
                                       std::uint64_t to, std::uint32_t to_memory) {
  return post_chunks(bytes, [&](std::uint32_t place, std::uint32_t at, std::uint32_t here) {
    return memory_->post_write(place, data + at, here, memory, to + at, to_memory);
  });
}

std::uint32_t LaneRemote::read(std::byte* data, std::uint32_t bytes, std::uint32_t memory, std::uint64_t from,
                                      std::uint32_t from_memory) {
  return post_chunks(bytes, [&](std::uint32_t place, std::uint32_t at, std::uint32_t here) {
    return memory_->post_read(place, data + at, here, memory, from + at, from_memory);
  });
}

}  // namespace viaduct::sovia
