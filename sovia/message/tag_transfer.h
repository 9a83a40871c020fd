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
  std::size_t at = 0;  // so many bytes are under way
};

// -1 with errno. A put has been done when await_tag_transfers() has said so.
int run_tag_transfer(const TagPath& path, int fd, const TagBytes& tag, TagTransfer transfer);
// Until all are done, for so many ms (-1: for ever). -1 with errno: ETIMEDOUT, or that of the first that failed.
int await_tag_transfers(const TagPath& path, int fd, int timeout_ms);

}  // namespace viaduct::sovia

#endif
