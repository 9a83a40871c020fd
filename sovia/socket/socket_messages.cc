#include "sovia/socket/socket_messages.h"

#include <errno.h>
#include <poll.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "sovia/lane/engine.h"
#include "sovia/lane/lane_pieces.h"
#include "sovia/lane/tcp_route.h"
#include "sovia/lane/waiting.h"
#include "sovia/process/clock.h"
#include "sovia/process/counters.h"
#include "sovia/process/guarded_copy.h"
#include "sovia/process/libc.h"
#include "sovia/process/options.h"
#include "sovia/process/signals.h"
#include "sovia/process/threads.h"
#include "sovia/socket/socket_pieces.h"

namespace viaduct::sovia {

namespace {

// The kernel counts for connections alone; without one, nothing has gone.
bool has_peer(int fd) {
  const KeepErrno keep;
  Flow flow;
  return flow_of(fd, flow) || errno != ENOTCONN;
}

}  // namespace

int SocketMessages::set_messages(int fd, bool on) {
  std::uint64_t written = 0, unsent = 0, read = 0;
  const std::scoped_lock both(take_, give_);
  const bool known = !has_peer(fd) || (bytes_written(fd, opener(), written, unsent) && bytes_read(fd, read));
  if (on != carries_messages() && (!known || written != 0 || read != 0 || head_bytes_ != 0)) {
    errno = EISCONN;
    return -1;
  }
  carry_messages(on);
  return 0;
}

void SocketMessages::after_fork_in_child() {
  SocketTags::after_fork_in_child();
  new (&take_) Lock;
  new (&give_) Lock;
  // The rest of a message is the parent's to send.
  if (rest_has_thread_) forget_waiting();
  rest_has_thread_ = false;
  rest_.clear();
  rest_at_ = 0;
  offering_ = false;
  sink_ = nullptr;
  readers_ahead_ = 0;
}

// What comes is no message, or not all of one: nobody knows where the next one begins.
SocketMessages::Taken SocketMessages::fail(int fd, int error) {
  SOVIA_LOG("%d: the connection's messages end: %s", fd,
            error == EPROTO ? "the peer does not send messages" : "a part of one is missing");
  failed_.store(error);
  SocketSend::shutdown(fd, SHUT_RDWR);
  errno = error;
  return Taken::kFailed;
}

// ---------------------------------------------------------------------------- receiving

SocketMessages::Taken SocketMessages::take(int fd, const iovec* pieces, std::size_t count, std::size_t skip,
                                           int flags, std::size_t& bytes) {
  if (!ahead_.empty()) {
    if (ahead_.read(pieces, count, skip, (flags & MSG_PEEK) != 0, bytes)) return Taken::kSome;
    errno = EFAULT;
    return Taken::kFailed;
  }
  if (control_.comes) {
    if (const Taken taken = go_on_control(fd); taken != Taken::kSome) return taken;
  }
  return take_stream(fd, pieces, count, skip, flags, bytes);
}

SocketMessages::Taken SocketMessages::take_stream(int fd, const iovec* pieces, std::size_t count, std::size_t skip,
                                                  int flags, std::size_t& bytes) {
  ssize_t got = 0;
  const Attempt attempt = try_receive(fd, pieces, count, skip, flags, got);
  if (attempt == Attempt::kAgain) return Taken::kNone;
  if (attempt != Attempt::kDone) return Taken::kFailed;
  if (got == 0) return Taken::kEnd;
  if ((flags & MSG_PEEK) == 0) note_kernel_bytes(fd, got);
  bytes = static_cast<std::size_t>(got);
  return Taken::kSome;
}

// peek: the frame of a message without bytes stays in the stream, which would not be readable without it.
SocketMessages::Taken SocketMessages::take_frame(int fd, bool peek) {
  std::size_t bytes = 0;
  if (peek && head_bytes_ != kFrameBytes) {
    std::byte head[kFrameBytes];
    std::copy_n(head_, head_bytes_, head);
    const iovec piece{head + head_bytes_, kFrameBytes - head_bytes_};
    const bool all = take(fd, &piece, 1, 0, MSG_PEEK, bytes) == Taken::kSome && bytes == piece.iov_len;
    Frame next;
    if (all && next.read(head) && next.kind == FrameKind::kMessage && next.number == next_in_ && next.length == 0) {
      frame_ = next;
      return Taken::kSome;
    }
  }
  for (;;) {
    if (head_bytes_ < kFrameBytes) {
      if (const Taken taken = take_head(fd); taken != Taken::kSome) return taken;
    }
    if (!frame_.is_for_program()) {
      head_bytes_ = 0;
      control_.comes = true;
      control_.frame = frame_;
      if (const Taken taken = go_on_control(fd); taken != Taken::kSome) return taken;
      continue;
    }
    const bool again = last_was_placed_ && frame_.number == next_in_ - 1;
    if (again && frame_.kind == FrameKind::kMessage) {
      if (const Taken taken = take_body(fd, 0); taken != Taken::kSome) return taken;
      body_.clear();
    } else if (!again && sink_ != nullptr && frame_.number == next_in_ + 1) {
      return Taken::kNone;  // the one before has been placed
    } else if (!again && frame_.number != next_in_) {
      return fail(fd, EPROTO);
    } else if (frame_.kind == FrameKind::kMessage) {
      return Taken::kSome;
    } else if (!again) {
      offered_ = true;
      offered_bytes_ = frame_.length;
    }
    head_bytes_ = 0;
  }
}

SocketMessages::Taken SocketMessages::take_head(int fd) {
  std::size_t bytes = 0;
  while (head_bytes_ < kFrameBytes) {
    const iovec piece{head_ + head_bytes_, kFrameBytes - head_bytes_};
    const Taken taken = take(fd, &piece, 1, 0, 0, bytes);
    if (taken == Taken::kEnd && (head_bytes_ != 0 || offered_)) return fail(fd, ECONNRESET);
    if (taken != Taken::kSome) return taken;
    head_bytes_ += bytes;
  }
  return frame_.read(head_) ? Taken::kSome : fail(fd, EPROTO);
}

// Takes the message to body_, but for `keep` bytes of it.
SocketMessages::Taken SocketMessages::take_body(int fd, std::size_t keep) {
  while (body_.size() + keep < frame_.length) {
    std::size_t room;
    std::byte* const to = body_.room(frame_.length - keep - body_.size(), room);
    if (to == nullptr) {
      errno = ENOMEM;
      return Taken::kFailed;
    }
    const iovec piece{to, room};
    std::size_t bytes = 0;
    const Taken taken = take(fd, &piece, 1, 0, 0, bytes);
    if (taken == Taken::kEnd) return fail(fd, ECONNRESET);
    if (taken != Taken::kSome) return taken;
    body_.filled(bytes);
  }
  return Taken::kSome;
}

// Straight to the program's memory, which is no longer than the message. What has come of a message that has
// not come as a whole is kept: the call may end, and a handler may leave it.
SocketMessages::Taken SocketMessages::take_at_once(int fd, const iovec* pieces, std::size_t count,
                                                   std::size_t& bytes) {
  for (std::size_t at = 0, more = 0; at != frame_.length; at += more) {
    const Taken taken = take(fd, pieces, count, at, 0, more);
    if (taken == Taken::kSome) continue;
    const int error = errno;
    if (taken == Taken::kEnd) return fail(fd, ECONNRESET);
    if (!hold(pieces, count, at)) return fail(fd, EFAULT);
    errno = error;
    return taken;
  }
  bytes = frame_.length;
  return Taken::kSome;
}

bool SocketMessages::hold(const iovec* pieces, std::size_t count, std::size_t bytes) {
  std::size_t left = bytes;
  bool all = true;
  over_pieces(pieces, count, 0, [&](const std::byte* from, std::size_t here) {
    here = std::min(here, left);
    for (std::size_t done = 0, room; done != here && all; done += room) {
      std::byte* const to = body_.room(here - done, room);
      all = to != nullptr && copy_guarded(to, from + done, room);
      if (all) body_.filled(room);
    }
    left -= here;
    return here;
  });
  return all;
}

bool SocketMessages::deliver(const iovec* pieces, std::size_t count, std::size_t bytes) {
  const std::byte* from = body_.data();
  std::size_t left = bytes;
  bool all = true;
  over_pieces(pieces, count, 0, [&](std::byte* to, std::size_t here) {
    here = std::min(here, left);
    all = all && copy_guarded(to, from, here);
    from += here;
    left -= here;
    return here;
  });
  return all;
}

SocketMessages::Taken SocketMessages::take_message(int fd, const iovec* pieces, std::size_t count, int flags,
                                                   int& told, std::size_t& bytes) {
  const bool peek = (flags & MSG_PEEK) != 0;
  if (const int error = failed_.load(); error != 0) {
    errno = error;
    return Taken::kFailed;
  }
  if (const Taken taken = take_frame(fd, peek); taken != Taken::kSome) return taken;
  const std::size_t length = frame_.length;
  const std::size_t room = total(pieces, count);
  const std::size_t here = std::min(room, length);
  if (length > room) told |= MSG_TRUNC;
  bytes = (flags & MSG_TRUNC) != 0 ? length : here;
  if (length == 0 && peek) return Taken::kSome;
  if (!peek && body_.size() == 0 && length == here && (count == 1 || room == length)) {
    const iovec whole{count != 0 ? pieces[0].iov_base : nullptr, length};
    const bool one = count == 1;
    const Taken taken = take_at_once(fd, one ? &whole : pieces, one ? 1 : count, bytes);
    if (taken != Taken::kSome) return taken;
  } else {
    if (const Taken taken = take_body(fd, peek ? 1 : 0); taken != Taken::kSome) return taken;
    if (peek) {
      // The last byte stays where it is, so that there is something to read.
      std::size_t one, got = 0;
      const iovec piece{body_.room(1, one), 1};
      if (piece.iov_base == nullptr) return fail(fd, ENOMEM);
      const Taken taken = take(fd, &piece, 1, 0, MSG_PEEK, got);
      if (taken == Taken::kEnd) return fail(fd, ECONNRESET);
      if (taken != Taken::kSome) return taken;
    }
    if (!deliver(pieces, count, here)) {
      errno = EFAULT;
      return Taken::kFailed;
    }
    if (peek) return Taken::kSome;
  }
  body_.clear();
  head_bytes_ = 0;
  take_next(false);
  return Taken::kSome;
}

void SocketMessages::take_next(bool placed) {
  ++next_in_;
  last_was_placed_ = may_open_early_ = placed;
  offered_ = answered_ = false;
}

// ---------------------------------------------------------------------------- straight to the program's buffer

// kNone: it waits, or is void and closed.
SocketMessages::Taken SocketMessages::look_at_sink(OpenSink& sink, std::size_t room, int flags, int& told,
                                                   std::size_t& bytes) {
  std::uint32_t length = 0;
  const OpenSink::State state = sink.look(length);
  if (state == OpenSink::State::kWaits) return Taken::kNone;
  sink_ = nullptr;
  sink.close();
  if (state == OpenSink::State::kVoid) return Taken::kNone;
  const std::size_t here = std::min<std::size_t>(length, room);
  if (length > room) told |= MSG_TRUNC;
  bytes = (flags & MSG_TRUNC) != 0 ? length : here;
  counters::add(Counter::kBytesReceivedLane, here);
  take_next(true);
  return Taken::kSome;
}

// Nothing is there to be read. The peer is told where the next message is to go, if it has asked, or is likely to.
void SocketMessages::open_sink(OpenSink& sink, const iovec* pieces, std::size_t count, bool may_wait) {
  if (head_bytes_ != 0 || body_.size() != 0 || sink.is_open()) return;
  const bool may = may_wait && count == 1;
  if (offered_ && !answered_) {
    answered_ = true;
    if (may && sink.open(*this, next_in_, pieces[0])) {
      sink_ = &sink;
    } else {
      refuse_sink(next_in_);
    }
  } else if (!offered_ && may_open_early_ && may && pieces[0].iov_len >= options().rendezvous) {
    may_open_early_ = false;
    if (sink.open(*this, next_in_, pieces[0])) sink_ = &sink;
  }
}

// The call is to end. Afterwards the sink is closed, or the message is in the buffer.
void SocketMessages::take_sink_back(OpenSink& sink) {
  constexpr std::uint64_t kAnswerNs = 1'000'000'000;
  sink.revoke();
  const std::uint64_t deadline = now_ns() + kAnswerNs;
  if (await_sink(sink, deadline, Signals::kWait) != Woken::kReady) sink.give_up();
}

ssize_t SocketMessages::receive_message(int fd, const iovec* pieces, std::size_t count, int flags, int& told) {
  if (count > kMostPieces) {
    errno = EINVAL;
    return -1;
  }
  Waiting waiting;
  RedirectedReceive nothing_direct;
  OpenSink sink;
  const std::size_t room = total(pieces, count);
  for (;;) {
    progress();
    std::size_t bytes = 0;
    Taken taken = Taken::kNone;
    bool others;
    told = 0;
    {
      const std::scoped_lock guard(take_);
      others = sink_ != nullptr && sink_ != &sink;
      if (sink.is_open()) taken = look_at_sink(sink, room, flags, told, bytes);
      if (taken == Taken::kNone && !others) {
        taken = take_message(fd, pieces, count, flags, told, bytes);
        if (taken != Taken::kNone && sink.is_open()) {
          sink_ = nullptr;
          sink.close();
        } else if (taken == Taken::kNone) {
          open_sink(sink, pieces, count, (flags & MSG_PEEK) == 0 && blocks(fd, flags));
        }
      }
    }
    tell_news();
    if (taken == Taken::kSome) return static_cast<ssize_t>(bytes);
    if (taken == Taken::kEnd) return 0;
    if (taken == Taken::kFailed) return -1;
    if (!blocks(fd, flags)) {
      engine::after_look_in_vain();
      errno = EAGAIN;
      return -1;
    }
    if (sink.is_open()) {
      if (waiting.counted == nullptr) begin_waiting(waiting);
      if (waiting.deadline == 0) waiting.deadline = look_up_deadline(fd, SO_RCVTIMEO, waiting.has_deadline);
      if (await_sink(sink, waiting.deadline, Signals::kInterrupt) == Woken::kReady) continue;
      take_sink_back(sink);
      const std::scoped_lock guard(take_);
      if (look_at_sink(sink, room, flags, told, bytes) == Taken::kSome) return static_cast<ssize_t>(bytes);
    }
    // Another thread's call has its buffer open.
    if (others ? !await_moment(fd, waiting) : !await(fd, POLLIN, SO_RCVTIMEO, waiting, nothing_direct)) {
      if (others) errno = signals::held_back() ? EINTR : EAGAIN;
      return -1;
    }
  }
}

int SocketMessages::next_message(int fd) {
  progress();
  int bytes;
  {
    const std::scoped_lock guard(take_);
    bytes = failed_.load() == 0 && take_frame(fd, true) == Taken::kSome ? static_cast<int>(frame_.length) : 0;
  }
  tell_news();
  return bytes;
}

// ---------------------------------------------------------------------------- sending

// The rest of a message of which the stream has `from` bytes. Without it the stream would be of no use.
bool SocketMessages::keep_rest(const iovec* pieces, std::size_t count, std::size_t from) {
  rest_at_ = 0;
  return add_rest(pieces, count, from);
}

bool SocketMessages::add_rest(const iovec* pieces, std::size_t count, std::size_t from) {
  bool all = true;
  over_pieces(pieces, count, from, [&](const std::byte* data, std::size_t bytes) {
    for (std::size_t done = 0, room = 0; done != bytes && all; done += room) {
      std::byte* const to = rest_.room(bytes - done, room);
      all = to != nullptr && copy_guarded(to, data + done, room);
      if (all) rest_.filled(room);
    }
    return bytes;
  });
  return all;
}

// kDone: there is none any more.
SocketMessages::Attempt SocketMessages::give_rest(int fd) {
  while (rest_at_ != rest_.size()) {
    const iovec piece{rest_.data() + rest_at_, rest_.size() - rest_at_};
    const ssize_t sent = send(fd, &piece, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN) return Attempt::kAgain;
    if (sent < 0) break;  // the next call hears of it
    rest_at_ += static_cast<std::size_t>(sent);
  }
  rest_.clear();
  rest_at_ = 0;
  return Attempt::kDone;
}

bool SocketMessages::has_rest(int fd) {
  const std::scoped_lock guard(give_);
  return give_rest(fd) == Attempt::kAgain;
}

SocketMessages::Attempt SocketMessages::give_message(int fd, const iovec* pieces, std::size_t count,
                                                     std::size_t bytes, int flags) {
  if (const int error = failed_.load(); error != 0) {
    errno = error;
    return Attempt::kFailed;
  }
  if (shut_after_rest_) return Attempt::kPipe;
  if (offering_ || give_rest(fd) == Attempt::kAgain) return Attempt::kAgain;
  std::byte head[kFrameBytes];
  Frame{FrameKind::kMessage, static_cast<std::uint32_t>(bytes), next_out_}.write(head);
  constexpr std::size_t kFew = 16;
  iovec few[kFew + 1];
  std::vector<iovec> many;
  if (count > kFew) many.resize(count + 1);
  iovec* const all = count > kFew ? many.data() : few;
  all[0] = {head, kFrameBytes};
  for (std::size_t i = 0; i < count; ++i) all[i + 1] = pieces[i];
  // One piece more than a call may have: it goes in two parts.
  const bool fits = count < kMostPieces;
  const ssize_t sent = send(fd, all, fits ? count + 1 : count,
                            (flags & MSG_MORE) | MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0) return errno == EAGAIN ? Attempt::kAgain : errno == EPIPE ? Attempt::kPipe : Attempt::kFailed;
  ++next_out_;
  if (static_cast<std::size_t>(sent) == kFrameBytes + bytes) return Attempt::kDone;
  if (keep_rest(all, count + 1, static_cast<std::size_t>(sent))) return Attempt::kDone;
  rest_.clear();
  fail(fd, EFAULT);
  return Attempt::kFailed;
}

// Of a message that is to be placed. What of the frame does not fit is the rest that goes before the message.
bool SocketMessages::give_offer(int fd, std::uint32_t bytes) {
  std::byte head[kFrameBytes];
  Frame{FrameKind::kOffer, bytes, next_out_}.write(head);
  const iovec piece{head, kFrameBytes};
  const std::scoped_lock guard(give_);
  // The answer to a put or get may have come between.
  if (give_rest(fd) == Attempt::kAgain) return false;
  const ssize_t sent = send(fd, &piece, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0) return false;
  return keep_rest(&piece, 1, static_cast<std::size_t>(sent)) && rest_.size() == 0;
}

// A message for the peer's buffer. False: it has not been sent, and is to go in the stream.
bool SocketMessages::send_by_rendezvous(int fd, const iovec& message) {
  // A peer that is not about to receive gets it in the stream: it may be sending such a message itself.
  constexpr std::uint64_t kSinkNs = 5'000'000;
  {
    const std::scoped_lock guard(give_);
    if (failed_.load() != 0 || shut_after_rest_ || offering_ || give_rest(fd) == Attempt::kAgain) return false;
    offering_ = true;
  }
  bool placed = false;
  {
    Placing placing(*this);
    if (placing.begin(message, next_out_)) {
      progress();
      const bool there = placing.has_target() ||
                         (give_offer(fd, static_cast<std::uint32_t>(message.iov_len)) &&
                          placing.await_target(now_ns() + kSinkNs));
      placed = there && placing.write();
    }
  }
  const std::scoped_lock guard(give_);
  offering_ = false;
  if (placed) ++next_out_;
  return placed;
}

ssize_t SocketMessages::send_message(int fd, const iovec* pieces, std::size_t count, int flags) {
  const std::size_t bytes = count <= kMostPieces ? total(pieces, count) : 0;
  if (count > kMostPieces || bytes > kMostMessage) {
    errno = count > kMostPieces ? EINVAL : EMSGSIZE;
    return -1;
  }
  if (bytes >= options().rendezvous && count == 1 && bytes != 0 && blocks(fd, flags) &&
      send_by_rendezvous(fd, pieces[0])) {
    return static_cast<ssize_t>(bytes);
  }
  Waiting waiting;
  RedirectedReceive nothing_direct;
  bool left = false, others;
  for (;;) {
    Attempt attempt;
    {
      const std::scoped_lock guard(give_);
      attempt = give_message(fd, pieces, count, bytes, flags);
      left = rest_at_ != rest_.size();
      others = offering_;
    }
    if (attempt == Attempt::kDone) break;
    if (attempt == Attempt::kPipe) {
      // No lock is held: the handler may do with the socket as it likes.
      if ((flags & MSG_NOSIGNAL) == 0) raise(SIGPIPE);
      errno = EPIPE;
    }
    if (attempt != Attempt::kAgain) return -1;
    if (!blocks(fd, flags)) {
      errno = EAGAIN;
      return -1;
    }
    // Another thread's call waits for the peer's buffer.
    if (others ? !await_moment(fd, waiting) : !await(fd, POLLOUT, SO_SNDTIMEO, waiting, nothing_direct)) {
      if (others) errno = signals::held_back() ? EINTR : EAGAIN;
      return -1;
    }
  }
  // It is taken. A call that may wait does, so that a program does not send faster than its peer reads.
  while (left && has_rest(fd)) {
    if (blocks(fd, flags) && await(fd, POLLOUT, SO_SNDTIMEO, waiting, nothing_direct)) continue;
    leave_rest(fd);
    break;
  }
  return static_cast<ssize_t>(bytes);
}

// ---------------------------------------------------------------------------- what a call has left behind

struct SocketMessages::Giving {
  Giving(SocketMessages& of, int fd) : socket(of.reference()), messages(of), fd(fd) {
    waiting.deadline = kNever;
    of.begin_waiting(waiting);
  }
  const SocketRef socket;
  SocketMessages& messages;
  const int fd;
  Waiting waiting;  // so that closing the descriptor leaves it one
};

void* SocketMessages::give_in_thread(void* of) {
  const signals::Inside inside;
  const std::unique_ptr<Giving> giving(static_cast<Giving*>(of));
  SocketMessages& socket = giving->messages;
  RedirectedReceive nothing_direct;
  for (;;) {
    {
      const std::scoped_lock guard(socket.give_);
      if (socket.give_rest(giving->fd) != Attempt::kAgain) {
        socket.rest_has_thread_ = false;
        if (socket.shut_after_rest_) socket.SocketSend::shutdown(socket.current(giving->fd), SHUT_WR);
        return nullptr;
      }
    }
    socket.await(giving->fd, POLLOUT, SO_SNDTIMEO, giving->waiting, nothing_direct);
  }
}

// A call ends before the stream has all of its message.
void SocketMessages::leave_rest(int fd) {
  const std::scoped_lock guard(give_);
  if (rest_has_thread_ || rest_at_ == rest_.size()) return;
  std::unique_ptr<Giving> giving(new (std::nothrow) Giving(*this, fd));
  if (giving == nullptr) return;  // the next call goes on with it
  rest_has_thread_ = start_thread(give_in_thread, giving.get());
  if (rest_has_thread_) giving.release();
}

int SocketMessages::shutdown(int fd, int how) {
  {
    const std::scoped_lock guard(give_);
    if (how != SHUT_RD && rest_has_thread_) {
      shut_after_rest_ = true;
      if (how == SHUT_WR) return 0;
      how = SHUT_RD;
    }
  }
  return SocketSend::shutdown(fd, how);
}

}  // namespace viaduct::sovia
