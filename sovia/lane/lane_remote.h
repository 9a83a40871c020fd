// Memory that the peer has opened to a lane: this end writes to it and reads from it, by RDMA, from and to memory of
// the program's, which must stay until that has completed.
#ifndef VIADUCT_SOVIA_LANE_LANE_REMOTE_H
#define VIADUCT_SOVIA_LANE_LANE_REMOTE_H

#include <cstddef>
#include <cstdint>

#include "sovia/lane/lane_sending.h"

namespace viaduct::sovia {

class LaneRemote : public LaneSending {
 public:
  using LaneSending::LaneSending;

  bool carries_messages() const { return options_.messages; }
  // The peer's program may have asked for messages when its lane was there already.
  bool has_remote() const {
    return options_.messages && peer_carries_messages_ && !broken_ && greeted() && wire_.writes();
  }
  bool reads_remote() const { return has_remote() && wire_.reads(); }
  // Begins with as much as there are places for. Bytes.
  std::uint32_t write_remote(const std::byte* data, std::uint32_t bytes, std::uint32_t memory, std::uint64_t to,
                             std::uint32_t to_memory);
  std::uint32_t read_remote(std::byte* data, std::uint32_t bytes, std::uint32_t memory, std::uint64_t from,
                            std::uint32_t from_memory);
  // The number of remote operations begun so far, and whether all up to `begun` have completed.
  std::uint64_t remote_begun() const { return writes_posted_; }
  bool remote_has_completed(std::uint64_t begun);

 protected:
  ~LaneRemote() = default;

 private:
  template <class Post>
  std::uint32_t post_chunks(std::uint32_t bytes, Post&& post);
};

}  // namespace viaduct::sovia

#endif
