#include "sovia/lane/lane_remote.h"

#include <algorithm>

namespace viaduct::sovia {

template <class Post>
std::uint32_t LaneRemote::post_chunks(std::uint32_t bytes, Post&& post) {
  std::uint32_t done = 0;
  while (done < bytes && !broken_) {
    if (writes_posted_ - writes_done_ == places_.writes) reap();
    if (writes_posted_ - writes_done_ == places_.writes) break;
    const std::uint32_t here = std::min(bytes - done, kChunkBytes);
    if (!post(static_cast<std::uint32_t>(writes_posted_ % places_.writes), done, here)) {
      fail();
      break;
    }
    ++writes_posted_;
    order_.push_back(Posted::kWrite);
    done += here;
  }
  return done;
}

std::uint32_t LaneRemote::write_remote(const std::byte* data, std::uint32_t bytes, std::uint32_t memory,
                                       std::uint64_t to, std::uint32_t to_memory) {
  return post_chunks(bytes, [&](std::uint32_t place, std::uint32_t at, std::uint32_t here) {
    return wire_.post_write(place, data + at, here, memory, to + at, to_memory);
  });
}

std::uint32_t LaneRemote::read_remote(std::byte* data, std::uint32_t bytes, std::uint32_t memory, std::uint64_t from,
                                      std::uint32_t from_memory) {
  return post_chunks(bytes, [&](std::uint32_t place, std::uint32_t at, std::uint32_t here) {
    return wire_.post_read(place, data + at, here, memory, from + at, from_memory);
  });
}

bool LaneRemote::remote_has_completed(std::uint64_t begun) {
  if (writes_done_ < begun) reap();
  return writes_done_ >= begun;
}

}  // namespace viaduct::sovia
