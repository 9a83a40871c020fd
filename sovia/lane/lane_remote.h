// Memory that the peer has opened to a lane: this end writes to and reads from that memory by RDMA. Its own side is
// memory of the program's, which must stay until the operation has completed.
#ifndef VIADUCT_SOVIA_LANE_LANE_REMOTE_H
#define VIADUCT_SOVIA_LANE_LANE_REMOTE_H

#include <cstddef>
#include <cstdint>

#include "sovia/lane/control_sender.h"
#include "sovia/lane/lane_greeting.h"
#include "sovia/lane/remote_memory.h"

namespace viaduct::sovia {

class LaneRemote {
 public:
  // `memory`: the remote memory of the lane's VI; nullptr: the VI has none.
  LaneRemote(RemoteMemory* memory, const LaneOptions& options, LaneSendRing& ring, ControlSender& sender,
             const LaneGreeting& greeting)
      : memory_(memory), options_(options), ring_(ring), sender_(sender), greeting_(greeting) {}

  bool carries_messages() const { return options_.messages; }
  // Both ends have to carry messages: the peer's program may have asked for messages too late for its lane.
  bool is_open() const {
    return options_.messages && memory_ != nullptr && greeting_.peer_carries_messages() && !sender_.broken() &&
           greeting_.greeted();
  }
  bool reads() const { return is_open() && memory_->reads(); }
  // Begin a write or read of as many bytes as there are places for, and return how many.
  std::uint32_t write(const std::byte* data, std::uint32_t bytes, std::uint32_t memory, std::uint64_t to,
                             std::uint32_t to_memory);
  std::uint32_t read(std::byte* data, std::uint32_t bytes, std::uint32_t memory, std::uint64_t from,
                            std::uint32_t from_memory);
  // The number of remote operations begun so far, and whether all up to `begun` have completed.
  std::uint64_t begun() const { return ring_.writes_posted(); }
  bool has_completed(std::uint64_t begun) { return ring_.writes_completed(begun); }

 private:
  template <class Post>
  std::uint32_t post_chunks(std::uint32_t bytes, Post&& post);

  RemoteMemory* const memory_;
  const LaneOptions& options_;
  LaneSendRing& ring_;
  ControlSender& sender_;
  const LaneGreeting& greeting_;
};

}  // namespace viaduct::sovia

#endif
