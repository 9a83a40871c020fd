// A put to a tagged buffer of the peer's, or a get from one: by RDMA where a lane is up and the peer has said where
// the buffer is open, else in pieces in the stream of messages, which the peer's library answers.
#ifndef VIADUCT_SOVIA_MESSAGE_TAG_TRANSFER_H
#define VIADUCT_SOVIA_MESSAGE_TAG_TRANSFER_H

#include <cstddef>
#include <cstdint>

#include "sovia/message/message_receiver.h"
#include "sovia/message/message_sender.h"
#include "sovia/message/peer_buffers.h"
#include "sovia/message/tag_frames.h"

namespace viaduct::sovia {

// The tools of a put or get: the parts of one MessageSocket.
struct TagPath {
  Socket& socket;
  MessageReceiver& receiver;
  MessageSender& sender;
  PeerBuffers& peer;
};

struct TagTransfer {
  bool gets;
  std::uint64_t key, first;
  std::byte* data;
  std::size_t bytes;
  std::size_t at = 0;  // bytes that are under way already
};

// Runs a put or get. -1 with errno. On return pieces in the stream may still be under way: await_tag_transfers() waits
// for them.
int run_tag_transfer(const TagPath& path, int fd, const TagBytes& tag, TagTransfer transfer);
// Waits until all transfers are done, at most timeout_ms (-1: for ever). -1 with errno: ETIMEDOUT, or that of the first
// transfer that failed.
int await_tag_transfers(const TagPath& path, int fd, int timeout_ms);

}  // namespace viaduct::sovia

#endif
