// The receiving direction of a connection that keeps the boundaries of messages.
//
// A receiver that finds a part of a message keeps it and leaves the message's last byte in the stream, so that the
// stream is readable as long as the message is not received.
#ifndef VIADUCT_SOVIA_MESSAGE_MESSAGE_RECEIVER_H
#define VIADUCT_SOVIA_MESSAGE_MESSAGE_RECEIVER_H

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sovia/message/frame.h"
#include "sovia/message/message_failure.h"
#include "sovia/message/message_memory.h"
#include "sovia/message/message_sender.h"
#include "sovia/message/peer_buffers.h"
#include "sovia/message/read_ahead.h"
#include "sovia/message/rendezvous.h"
#include "sovia/message/tagged_buffers.h"
#include "sovia/process/lock_order.h"
#include "sovia/socket/socket.h"

namespace viaduct::sovia {

class MessageReceiver {
 public:
  // `sender`: the same connection's, for answers to the peer's puts to and gets from `tagged`.
  MessageReceiver(Socket& socket, MessageFailure& failure, MessageSender& sender, TaggedBuffers& tagged,
                  PeerBuffers& peer)
      : socket_(socket), failure_(failure), sender_(sender), tagged_(tagged), peer_(peer) {}

  // As recvmsg without address and control data. `told` gets the flags of the answer.
  ssize_t receive(int fd, const iovec* pieces, std::size_t count, int flags, int& told);
  // Bytes of the next message, 0 if there is none, for FIONREAD.
  int next_message(int fd);

  enum class Taken : std::uint8_t { kSome, kNone, kEnd, kFailed };
  // Lives while a call reads ahead for frames that are not for the program. Messages read on the way are kept; the
  // destructor puts them back in front of the stream.
  class ReadingAhead {
   public:
    ReadingAhead(MessageReceiver& receiver, int fd);
    ~ReadingAhead();
    ReadingAhead(const ReadingAhead&) = delete;
    // Takes all that has come. kNone: all has been taken; never kSome.
    Taken look();

   private:
    MessageReceiver& receiver_;
    const int fd_;
  };

  void after_fork_in_child();
  // Calls that take a message hold this lock. A caller that holds it knows that no message is being taken.
  Lock& lock() VIADUCT_RETURN_CAPABILITY(lock_) { return lock_; }
  // A part of a frame has been taken.
  bool is_inside_frame() const VIADUCT_REQUIRES(lock_) { return head_bytes_ != 0; }

 private:
  Taken take(int fd, const iovec* pieces, std::size_t count, std::size_t skip, int flags, std::size_t& bytes)
      VIADUCT_REQUIRES(lock_);
  Taken take_stream(int fd, const iovec* pieces, std::size_t count, std::size_t skip, int flags, std::size_t& bytes)
      VIADUCT_REQUIRES(lock_);
  using Take = decltype(&MessageReceiver::take);
  Taken fill(int fd, MessageMemory& to, std::size_t size, Take by) VIADUCT_REQUIRES(lock_);
  Taken take_frame(int fd, bool peek) VIADUCT_REQUIRES(lock_);
  bool peek_empty_message(int fd) VIADUCT_REQUIRES(lock_);
  Taken take_head(int fd) VIADUCT_REQUIRES(lock_);
  void take_next(bool placed) VIADUCT_REQUIRES(lock_);
  Taken take_body(int fd, std::size_t keep) VIADUCT_REQUIRES(lock_);
  Taken peek_last_byte(int fd) VIADUCT_REQUIRES(lock_);
  Taken take_at_once(int fd, const iovec* pieces, std::size_t count, std::size_t& bytes) VIADUCT_REQUIRES(lock_);
  Taken take_message(int fd, const iovec* pieces, std::size_t count, int flags, int& told, std::size_t& bytes)
      VIADUCT_REQUIRES(lock_);
  Taken take_or_open(int fd, const iovec* pieces, std::size_t count, int flags, int& told, std::size_t& bytes,
                     OpenSink& sink, bool& others);
  bool deliver(const iovec* pieces, std::size_t count, std::size_t bytes) VIADUCT_REQUIRES(lock_);
  Taken look_at_sink(OpenSink& sink, std::size_t room, int flags, int& told, std::size_t& bytes)
      VIADUCT_REQUIRES(lock_);
  void open_sink(OpenSink& sink, const iovec* pieces, std::size_t count, bool may_wait) VIADUCT_REQUIRES(lock_);
  void take_sink_back(OpenSink& sink);
  Taken fail(int fd, int error);

  // message_control.cc
  Taken take_control(int fd) VIADUCT_REQUIRES(lock_);
  bool answer_control(int fd) VIADUCT_REQUIRES(lock_);
  Taken read_ahead(int fd) VIADUCT_REQUIRES(lock_);
  bool put_back_all() VIADUCT_REQUIRES(lock_);
  void tell_news();

  Socket& socket_;
  MessageFailure& failure_;
  MessageSender& sender_;
  TaggedBuffers& tagged_;
  PeerBuffers& peer_;

  Lock lock_ SOVIA_LOCK_ORDER(sets, receiver);
  std::byte head_[kFrameBytes] VIADUCT_GUARDED_BY(lock_);
  std::size_t head_bytes_ VIADUCT_GUARDED_BY(lock_) = 0;  // of head_; when complete, frame_ is the next message's frame
  Frame frame_ VIADUCT_GUARDED_BY(lock_){};
  MessageMemory body_ VIADUCT_GUARDED_BY(lock_);          // the bytes of the message that were taken off the stream
  std::uint32_t next_ VIADUCT_GUARDED_BY(lock_) = 0;
  std::uint32_t offered_bytes_ VIADUCT_GUARDED_BY(lock_) = 0;
  bool offered_ VIADUCT_GUARDED_BY(lock_) = false;        // the next message, and its bytes have not come
  bool answered_ VIADUCT_GUARDED_BY(lock_) = false;       // the peer has been told of a sink, or that there is none
  bool last_was_placed_ VIADUCT_GUARDED_BY(lock_) = false;  // that message may come again if the lane has broken
  bool any_was_placed_ VIADUCT_GUARDED_BY(lock_) = false;   // so offers of such messages may come late
  // May open a sink before the offer; set by each placed message.
  bool may_open_early_ VIADUCT_GUARDED_BY(lock_) = false;
  const OpenSink* sink_ VIADUCT_GUARDED_BY(lock_) = nullptr;  // the open one, of whichever call
  ReadAhead ahead_ VIADUCT_GUARDED_BY(lock_);                 // to be read before the stream
  unsigned readers_ahead_ VIADUCT_GUARDED_BY(lock_) = 0;
  struct {
    bool comes = false;  // a frame that is not the program's is next
    Frame frame{};
    MessageMemory body;  // the bytes of it that were taken off the stream
  } control_ VIADUCT_GUARDED_BY(lock_);
  std::atomic<bool> news_{false};   // for other threads that wait at the socket
};

}  // namespace viaduct::sovia

#endif
