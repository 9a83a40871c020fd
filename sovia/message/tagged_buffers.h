// The tagged buffers of this end of a connection, which the peer puts to and gets from. Where a lane is up they are
// open to RDMA on it; other puts and gets come as frames of the stream (tag_frames.h).
#ifndef VIADUCT_SOVIA_MESSAGE_TAGGED_BUFFERS_H
#define VIADUCT_SOVIA_MESSAGE_TAGGED_BUFFERS_H

#include <cstddef>
#include <cstdint>

#include "sovia/message/frame.h"
#include "sovia/message/message_memory.h"
#include "sovia/message/tag_frames.h"
#include "sovia/message/tag_table.h"
#include "sovia/process/lock_order.h"
#include "sovia/socket/socket.h"

namespace viaduct::sovia {

class TaggedBuffers {
 public:
  explicit TaggedBuffers(Socket& socket) : socket_(socket) {}

  // Adds a buffer and fills in its tag. 0, or an errno. `access`: SOVIA_TAG_PUT, SOVIA_TAG_GET.
  int add(void* buffer, std::size_t bytes, unsigned access, TagBytes& tag);
  // False: no buffer has this key.
  bool withdraw(std::uint64_t key);
  void withdraw_all();
  // Forgets the buffers: they are the parent's.
  void after_fork_in_child();

  // Carries out a kPut or kGet. False: the frame is neither. `data`: the bytes for a kGet.
  bool serve(FrameKind kind, const std::byte* body, std::size_t bytes, Answer& answer, MessageMemory& data);

 private:
  int do_put(const Range& range, const std::byte* data, std::size_t bytes) VIADUCT_REQUIRES(lock_);
  int do_get(const GetRange& get, MessageMemory& data) VIADUCT_REQUIRES(lock_);
  bool open_to_peer(TaggedBuffer& buffer) VIADUCT_REQUIRES(lock_);
  void close_to_peer(TaggedBuffer& buffer);

  Socket& socket_;
  Lock lock_ SOVIA_LOCK_ORDER(sender, rx);
  TagTable table_ VIADUCT_GUARDED_BY(lock_);
};

}  // namespace viaduct::sovia

#endif
