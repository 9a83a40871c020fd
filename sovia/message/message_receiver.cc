#include "sovia/message/message_receiver.h"

#include <errno.h>
#include <poll.h>

#include <algorithm>
#include <new>

#include "sovia/lane/engine.h"
#include "sovia/lane/lane_pieces.h"
#include "sovia/process/clock.h"
#include "sovia/process/counters.h"
#include "sovia/process/guarded_copy.h"
#include "sovia/process/libc.h"
#include "sovia/process/options.h"
#include "sovia/process/signals.h"
#include "sovia/socket/lane_life.h"
#include "sovia/socket/redirected_receive.h"
#include "sovia/socket/socket_pieces.h"
#include "sovia/socket/waiting_call.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {
namespace {

// Numbers of messages wrap around.
bool is_before(std::uint32_t number, std::uint32_t next) { return static_cast<std::int32_t>(number - next) < 0; }

}  // namespace

MessageReceiver::Taken MessageReceiver::fail(int fd, int error) {
  failure_.fail(fd, error);
  return Taken::kFailed;
}

// There are no other threads.
void MessageReceiver::after_fork_in_child() VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
  new (&lock_) Lock;
  sink_ = nullptr;
  readers_ahead_ = 0;
}

// ---------------------------------------------------------------------------- off the stream

MessageReceiver::Taken MessageReceiver::take(int fd, const iovec* pieces, std::size_t count, std::size_t skip,
                                           int flags, std::size_t& bytes) {
  if (!ahead_.empty()) {
    if (ahead_.read(pieces, count, skip, (flags & MSG_PEEK) != 0, bytes)) return Taken::kSome;
    return failed(EFAULT, Taken::kFailed);
  }
  if (control_.comes) {
    if (const Taken taken = take_control(fd); taken != Taken::kSome) return taken;
  }
  return take_stream(fd, pieces, count, skip, flags, bytes);
}

MessageReceiver::Taken MessageReceiver::take_stream(int fd, const iovec* pieces, std::size_t count, std::size_t skip,
                                                  int flags, std::size_t& bytes) {
  ssize_t got = 0;
  const Attempt attempt = socket_.try_receive(fd, pieces, count, skip, flags, got);
  if (attempt == Attempt::kAgain) return Taken::kNone;
  if (attempt != Attempt::kDone) return Taken::kFailed;
  if (got == 0) return Taken::kEnd;
  if ((flags & MSG_PEEK) == 0) note_kernel_bytes(socket_, fd, Direction::kReceiving, got);
  bytes = static_cast<std::size_t>(got);
  return Taken::kSome;
}

// Whether the next message has no bytes; then frame_ is its frame, which is still in the stream.
bool MessageReceiver::peek_empty_message(int fd) {
  std::byte head[kFrameBytes];
  std::copy_n(head_, head_bytes_, head);
  const iovec piece{head + head_bytes_, kFrameBytes - head_bytes_};
  std::size_t bytes = 0;
  if (take(fd, &piece, 1, 0, MSG_PEEK, bytes) != Taken::kSome || bytes != piece.iov_len) return false;
  Frame next;
  if (!next.read(head) || next.kind != FrameKind::kMessage || next.number != next_ || next.length != 0) return false;
  frame_ = next;
  return true;
}

// With `peek` the frame of a message without bytes stays in the stream, which would otherwise not be readable.
MessageReceiver::Taken MessageReceiver::take_frame(int fd, bool peek) {
  if (peek && head_bytes_ != kFrameBytes && peek_empty_message(fd)) return Taken::kSome;
  for (;;) {
    if (head_bytes_ < kFrameBytes) {
      if (const Taken taken = take_head(fd); taken != Taken::kSome) return taken;
    }
    if (!frame_.is_for_program()) {
      head_bytes_ = 0;
      control_.comes = true;
      control_.frame = frame_;
      if (const Taken taken = take_control(fd); taken != Taken::kSome) return taken;
      continue;
    }
    if (frame_.kind == FrameKind::kOffer && any_was_placed_ && is_before(frame_.number, next_)) {
      // The message has been placed: a PLACED packet needs no credit, so it may overtake offers that wait for one.
    } else if (frame_.kind == FrameKind::kMessage && last_was_placed_ && frame_.number == next_ - 1) {
      if (const Taken taken = take_body(fd, 0); taken != Taken::kSome) return taken;
      body_.clear();
    } else if (sink_ != nullptr && frame_.number == next_ + 1) {
      return Taken::kNone;  // the message before is in the sink
    } else if (frame_.number != next_) {
      return fail(fd, EPROTO);
    } else if (frame_.kind == FrameKind::kMessage) {
      return Taken::kSome;
    } else {
      offered_ = true;
      offered_bytes_ = frame_.length;
    }
    head_bytes_ = 0;
  }
}

MessageReceiver::Taken MessageReceiver::take_head(int fd) {
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

// Takes bytes until `to` has so many; by take(), or by take_stream().
MessageReceiver::Taken MessageReceiver::fill(int fd, MessageMemory& to, std::size_t size, Take by) {
  while (to.size() < size) {
    std::size_t room, bytes = 0;
    std::byte* const at = to.room(size - to.size(), room);
    if (at == nullptr) return failed(ENOMEM, Taken::kFailed);
    const iovec piece{at, room};
    const Taken taken = (this->*by)(fd, &piece, 1, 0, 0, bytes);
    if (taken == Taken::kEnd) return fail(fd, ECONNRESET);
    if (taken != Taken::kSome) return taken;
    to.filled(bytes);
  }
  return Taken::kSome;
}

// Takes the message to body_, except its last `keep` bytes.
MessageReceiver::Taken MessageReceiver::take_body(int fd, std::size_t keep) {
  return fill(fd, body_, frame_.length - keep, &MessageReceiver::take);
}

// Copies the message's last byte to body_. It stays in the stream too, so that the socket is readable.
MessageReceiver::Taken MessageReceiver::peek_last_byte(int fd) {
  std::size_t one, got = 0;
  const iovec piece{body_.room(1, one), 1};
  if (piece.iov_base == nullptr) return fail(fd, ENOMEM);
  const Taken taken = take(fd, &piece, 1, 0, MSG_PEEK, got);
  return taken == Taken::kEnd ? fail(fd, ECONNRESET) : taken;
}

// Takes the message straight into the program's memory, which is no longer than the message. If the rest has not come,
// the part is kept: the call may end, or a signal handler may jump out of it.
MessageReceiver::Taken MessageReceiver::take_at_once(int fd, const iovec* pieces, std::size_t count,
                                                   std::size_t& bytes) {
  for (std::size_t at = 0, more = 0; at != frame_.length; at += more) {
    const Taken taken = take(fd, pieces, count, at, 0, more);
    if (taken == Taken::kSome) continue;
    const int error = errno;
    if (taken == Taken::kEnd) return fail(fd, ECONNRESET);
    if (!body_.append(pieces, count, 0, at)) return fail(fd, EFAULT);
    errno = error;
    return taken;
  }
  bytes = frame_.length;
  return Taken::kSome;
}

bool MessageReceiver::deliver(const iovec* pieces, std::size_t count, std::size_t bytes) {
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

MessageReceiver::Taken MessageReceiver::take_message(int fd, const iovec* pieces, std::size_t count, int flags,
                                                   int& told, std::size_t& bytes) {
  const bool peek = (flags & MSG_PEEK) != 0;
  if (const int error = failure_.error(); error != 0) return failed(error, Taken::kFailed);
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
      if (const Taken taken = peek_last_byte(fd); taken != Taken::kSome) return taken;
    }
    if (!deliver(pieces, count, here)) return failed(EFAULT, Taken::kFailed);
    if (peek) return Taken::kSome;
  }
  body_.clear();
  head_bytes_ = 0;
  take_next(false);
  return Taken::kSome;
}

void MessageReceiver::take_next(bool placed) {
  ++next_;
  last_was_placed_ = may_open_early_ = placed;
  any_was_placed_ = any_was_placed_ || placed;
  offered_ = answered_ = false;
}

// ---------------------------------------------------------------------------- straight to the program's buffer

// kNone: the sink still waits, or it is void and has been closed.
MessageReceiver::Taken MessageReceiver::look_at_sink(OpenSink& sink, std::size_t room, int flags, int& told,
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

// Opens a sink for the next message, as nothing is there to be read: if the peer has offered the message, or is likely
// to.
void MessageReceiver::open_sink(OpenSink& sink, const iovec* pieces, std::size_t count, bool may_wait) {
  if (head_bytes_ != 0 || body_.size() != 0 || sink.is_open()) return;
  const bool may = may_wait && count == 1;
  if (offered_ && !answered_) {
    answered_ = true;
    if (may && sink.open(next_, pieces[0])) {
      sink_ = &sink;
    } else {
      refuse_sink(socket_, next_);
    }
  } else if (!offered_ && may_open_early_ && may && pieces[0].iov_len >= options().rendezvous) {
    may_open_early_ = false;
    if (sink.open(next_, pieces[0])) sink_ = &sink;
  }
}

// Takes the sink back, as the call is to end. Afterwards it is void, or the message is in the buffer.
void MessageReceiver::take_sink_back(OpenSink& sink) {
  constexpr std::uint64_t kAnswerNs = 1'000'000'000;
  sink.revoke();
  const std::uint64_t deadline = now_ns() + kAnswerNs;
  if (sink.await(deadline, Signals::kWait) != Woken::kReady) sink.give_up();
}

// Takes a message, or (kNone) opens a sink if that is of use. `others`: another thread's call has a sink open.
MessageReceiver::Taken MessageReceiver::take_or_open(int fd, const iovec* pieces, std::size_t count, int flags,
                                                     int& told, std::size_t& bytes, OpenSink& sink, bool& others) {
  const LockGuard guard(lock_);
  others = sink_ != nullptr && sink_ != &sink;
  Taken taken = Taken::kNone;
  if (sink.is_open()) taken = look_at_sink(sink, total(pieces, count), flags, told, bytes);
  if (taken != Taken::kNone || others) return taken;
  taken = take_message(fd, pieces, count, flags, told, bytes);
  if (taken == Taken::kNone) {
    open_sink(sink, pieces, count, (flags & MSG_PEEK) == 0 && socket_.modes.blocks(fd, flags));
  } else if (sink.is_open()) {
    sink_ = nullptr;
    sink.close();
  }
  return taken;
}

ssize_t MessageReceiver::receive(int fd, const iovec* pieces, std::size_t count, int flags, int& told) {
  if (count > kMostPieces) return failed(EINVAL);
  WaitingCall waiting(socket_);
  OpenSink sink(socket_);
  for (;;) {
    progress();
    std::size_t bytes = 0;
    bool others;
    told = 0;
    const Taken taken = take_or_open(fd, pieces, count, flags, told, bytes, sink, others);
    tell_news();
    if (taken == Taken::kSome) return static_cast<ssize_t>(bytes);
    if (taken == Taken::kEnd) return 0;
    if (taken == Taken::kFailed) return -1;
    if (!socket_.modes.blocks(fd, flags)) {
      engine::after_look_in_vain();
      return failed(EAGAIN);
    }
    if (sink.is_open()) {
      waiting.begin();
      if (sink.await(waiting.deadline(fd, SO_RCVTIMEO), Signals::kInterrupt) == Woken::kReady) continue;
      take_sink_back(sink);
      const LockGuard guard(lock_);
      const std::size_t room = total(pieces, count);
      if (look_at_sink(sink, room, flags, told, bytes) == Taken::kSome) return static_cast<ssize_t>(bytes);
    }
    // While another thread's call has its buffer open, this one only looks again after a moment.
    if (others ? !waiting.await_moment(fd) : !waiting.await(fd, POLLIN, SO_RCVTIMEO)) {
      if (others) errno = signals::held_back() ? EINTR : EAGAIN;
      return -1;
    }
  }
}

int MessageReceiver::next_message(int fd) {
  progress();
  int bytes;
  {
    const LockGuard guard(lock_);
    bytes = failure_.error() == 0 && take_frame(fd, true) == Taken::kSome ? static_cast<int>(frame_.length) : 0;
  }
  tell_news();
  return bytes;
}

}  // namespace viaduct::sovia
