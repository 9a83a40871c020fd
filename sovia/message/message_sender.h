// The sending direction of a connection that keeps the boundaries of messages.
//
// Each call of the program is one message. A message is taken as a whole or not at all: the part that the stream has no
// room for is copied (it is pending), and is sent before anything else as soon as there is room.
#ifndef VIADUCT_SOVIA_MESSAGE_MESSAGE_SENDER_H
#define VIADUCT_SOVIA_MESSAGE_MESSAGE_SENDER_H

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "sovia/message/frame.h"
#include "sovia/message/message_failure.h"
#include "sovia/message/message_memory.h"
#include "sovia/process/lock_order.h"
#include "sovia/socket/socket.h"

namespace viaduct::sovia {

class MessageSender {
 public:
  MessageSender(Socket& socket, MessageFailure& failure) : socket_(socket), failure_(failure) {}

  // As sendmsg without address and control data.
  ssize_t send(int fd, const iovec* pieces, std::size_t count, int flags);
  // Sends a frame that programs don't see. False with errno: the stream takes nothing any more.
  bool send_control(int fd, FrameKind kind, std::uint32_t number, const iovec* body, std::size_t count);

  // As the functions of MessageLayer.
  int before_shutdown(int how);
  void after_fork_in_child();

  // Calls that send hold this lock. A caller that holds it knows that no message is being sent.
  Lock& lock() VIADUCT_RETURN_CAPABILITY(lock_) { return lock_; }

 private:
  struct Background;

  Attempt try_send(int fd, const iovec* pieces, std::size_t count, std::size_t bytes, int flags)
      VIADUCT_REQUIRES(lock_);
  bool send_by_rendezvous(int fd, const iovec& message);
  bool send_offer(int fd, std::uint32_t number, std::uint32_t bytes);
  Attempt send_pending(int fd) VIADUCT_REQUIRES(lock_);
  bool has_pending() const VIADUCT_REQUIRES(lock_) { return pending_at_ != pending_.size(); }
  void drop_pending() VIADUCT_REQUIRES(lock_);
  void send_pending_in_background(int fd);
  static void* run_in_background(void* of);

  Socket& socket_;
  MessageFailure& failure_;
  Lock lock_ SOVIA_LOCK_ORDER(receiver, sender);
  MessageMemory pending_ VIADUCT_GUARDED_BY(lock_);  // the rest of a message, from pending_at_ on
  std::size_t pending_at_ VIADUCT_GUARDED_BY(lock_) = 0;
  bool pending_has_thread_ VIADUCT_GUARDED_BY(lock_) = false;
  bool shut_after_pending_ VIADUCT_GUARDED_BY(lock_) = false;
  std::uint32_t next_ VIADUCT_GUARDED_BY(lock_) = 0;
  bool offering_ VIADUCT_GUARDED_BY(lock_) = false;  // a call waits for the peer's sink, or writes there
};

}  // namespace viaduct::sovia

#endif
