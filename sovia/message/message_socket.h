// Messages on a socket's stream of bytes, by whichever route the bytes go: kernel, lane, or one after the other. And
// tagged buffers, whose puts and gets go between the messages where they can't go by RDMA.
//
// A plain socket has no MessageSocket. All functions may be called by several threads at once.
#ifndef VIADUCT_SOVIA_MESSAGE_MESSAGE_SOCKET_H
#define VIADUCT_SOVIA_MESSAGE_MESSAGE_SOCKET_H

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "sovia/message/message_failure.h"
#include "sovia/message/message_receiver.h"
#include "sovia/message/message_sender.h"
#include "sovia/message/peer_buffers.h"
#include "sovia/message/tag_frames.h"
#include "sovia/message/tagged_buffers.h"
#include "sovia/socket/message_layer.h"
#include "sovia/socket/socket.h"

namespace viaduct::sovia {

class MessageSocket final : public MessageLayer {
 public:
  // The socket's MessageSocket, which the first call makes and which lives as long as the socket. nullptr with errno
  // ENOMEM.
  static MessageSocket* of(Socket& socket);

  // Sets the option SOVIA_MESSAGES. -1 with errno EISCONN: data has gone over the connection.
  int turn(int fd, bool on);

  // As sendmsg and recvmsg without address and control data. `told` gets the flags of the answer.
  ssize_t send(int fd, const iovec* pieces, std::size_t count, int flags) {
    return sender_.send(fd, pieces, count, flags);
  }
  ssize_t receive(int fd, const iovec* pieces, std::size_t count, int flags, int& told) {
    return receiver_.receive(fd, pieces, count, flags, told);
  }
  // Bytes of the next message, 0 if there is none, for FIONREAD.
  int next_message(int fd) { return receiver_.next_message(fd); }

  // See sovia.h. 0, or -1 with errno.
  int tag(void* buffer, std::size_t bytes, unsigned access, TagBytes& tag);
  int untag(int fd, const TagBytes& tag);
  int put(int fd, const TagBytes& tag, std::uint64_t offset, const void* data, std::size_t bytes);
  int get(int fd, const TagBytes& tag, std::uint64_t offset, void* data, std::size_t bytes);
  int done(int fd, int timeout_ms);

  int before_shutdown(int how) override { return sender_.before_shutdown(how); }
  void before_release() override { tagged_.withdraw_all(); }
  void after_fork_in_child() override;

 private:
  explicit MessageSocket(Socket& socket)
      : socket_(socket), failure_(socket), tagged_(socket), peer_(socket), sender_(socket, failure_),
        receiver_(socket, failure_, sender_, tagged_, peer_) {}

  Socket& socket_;
  MessageFailure failure_;
  TaggedBuffers tagged_;
  PeerBuffers peer_;
  MessageSender sender_;
  MessageReceiver receiver_;
};

}  // namespace viaduct::sovia

#endif
