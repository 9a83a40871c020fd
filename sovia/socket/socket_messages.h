// Sockets that keep the boundaries of messages, over the stream of bytes that the layers below carry, by
// whichever route: kernel, lane, or one after the other.
//
// Each call of the program is one message. A message is taken as a whole or not at all: what the stream has no
// room for is copied, and goes as soon as there is some. A receiver that finds a part of a message keeps it and
// leaves the message's last byte in the stream, so that the stream is readable as long as the message is not
// received.
#ifndef VIADUCT_SOVIA_SOCKET_SOCKET_MESSAGES_H
#define VIADUCT_SOVIA_SOCKET_SOCKET_MESSAGES_H

#include <sys/types.h>
#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sovia/message/frame.h"
#include "sovia/message/message_memory.h"
#include "sovia/message/read_ahead.h"
#include "sovia/socket/socket_tags.h"

namespace viaduct::sovia {

class SocketMessages : public SocketTags {
 public:
  // SOVIA_MESSAGES. -1 with errno EISCONN: data has gone over the connection.
  int set_messages(int fd, bool on);

  // As sendmsg and recvmsg without address and control data, for sockets that carry messages. `told` gets the
  // flags of the answer.
  ssize_t send_message(int fd, const iovec* pieces, std::size_t count, int flags);
  ssize_t receive_message(int fd, const iovec* pieces, std::size_t count, int flags, int& told);
  // Bytes of the next message, 0 if there is none, for FIONREAD.
  int next_message(int fd);

  // As those of the layers below.
  int shutdown(int fd, int how);
  void after_fork_in_child();

 protected:
  ~SocketMessages() = default;

  enum class Taken : std::uint8_t { kSome, kNone, kEnd, kFailed };
  // A call that reads ahead for frames that are not the program's: messages that come before them are kept, for
  // receives meanwhile and, after it, in front of the stream.
  class ReadingAhead {
   public:
    ReadingAhead(SocketMessages& socket, int fd);
    ~ReadingAhead();
    ReadingAhead(const ReadingAhead&) = delete;
    // Takes what is there: kNone if all of it, never kSome.
    Taken look();

   private:
    SocketMessages& socket_;
    const int fd_;
  };
  // Such a frame. False with errno: the stream takes nothing any more.
  bool give_control(int fd, FrameKind kind, std::uint32_t number, const iovec* body, std::size_t count);

 private:
  Taken take(int fd, const iovec* pieces, std::size_t count, std::size_t skip, int flags, std::size_t& bytes);
  Taken take_stream(int fd, const iovec* pieces, std::size_t count, std::size_t skip, int flags, std::size_t& bytes);
  Taken take_frame(int fd, bool peek);
  Taken read_ahead(int fd);
  Taken go_on_control(int fd);
  bool answer_control(int fd);
  bool put_back_all();
  void tell_news();
  Taken take_head(int fd);
  void take_next(bool placed);
  Taken take_body(int fd, std::size_t keep);
  Taken take_at_once(int fd, const iovec* pieces, std::size_t count, std::size_t& bytes);
  Taken take_message(int fd, const iovec* pieces, std::size_t count, int flags, int& told, std::size_t& bytes);
  bool hold(const iovec* pieces, std::size_t count, std::size_t bytes);
  Taken look_at_sink(OpenSink& sink, std::size_t room, int flags, int& told, std::size_t& bytes);
  void open_sink(OpenSink& sink, const iovec* pieces, std::size_t count, bool may_wait);
  void take_sink_back(OpenSink& sink);
  bool deliver(const iovec* pieces, std::size_t count, std::size_t bytes);
  Taken fail(int fd, int error);

  struct Giving;
  Attempt give_message(int fd, const iovec* pieces, std::size_t count, std::size_t bytes, int flags);
  Attempt give_rest(int fd);
  bool give_offer(int fd, std::uint32_t bytes);
  bool send_by_rendezvous(int fd, const iovec& message);
  bool keep_rest(const iovec* pieces, std::size_t count, std::size_t from);
  bool add_rest(const iovec* pieces, std::size_t count, std::size_t from);
  bool has_rest(int fd);
  void leave_rest(int fd);
  static void* give_in_thread(void* of);

  std::atomic<int> failed_{0};  // errno for all calls from now on

  // --- receiving
  Lock take_;
  std::byte head_[kFrameBytes];
  std::size_t head_bytes_ = 0;  // of head_; all: frame_ is the frame of the message that comes
  Frame frame_{};
  MessageMemory body_;          // of the message, what has been taken off the stream
  std::uint32_t next_in_ = 0;
  std::uint32_t offered_bytes_ = 0;
  bool offered_ = false;        // the next message, and its bytes have not come
  bool answered_ = false;       // ... and the peer knows where they are to go
  bool last_was_placed_ = false;  // it may come once more, if the lane has broken
  bool may_open_early_ = false;   // a sink for the next message, before it is offered: one for each that was placed
  const OpenSink* sink_ = nullptr;  // of the call that has one
  ReadAhead ahead_;                 // before what comes next
  unsigned readers_ahead_ = 0;
  struct {
    bool comes = false;  // a frame that is not the program's is next
    Frame frame{};
    MessageMemory body;  // of it, what has been taken off the stream
  } control_;
  std::atomic<bool> news_{false};   // for other threads that wait at the socket

  // --- sending
  Lock give_;
  MessageMemory rest_;          // of a message that the stream has a part of
  std::size_t rest_at_ = 0;
  bool rest_has_thread_ = false;
  bool shut_after_rest_ = false;
  std::uint32_t next_out_ = 0;
  bool offering_ = false;       // a call waits for the peer's sink, or writes there
};

}  // namespace viaduct::sovia

#endif
