#include "sovia/socket/socket_messages.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "sovia/lane/engine.h"
#include "sovia/lane/lane_pieces.h"
#include "sovia/lane/tcp_route.h"
#include "sovia/process/clock.h"
#include "sovia/process/guarded_copy.h"
#include "sovia/process/options.h"
#include "sovia/process/signals.h"
#include "sovia/socket/socket_pieces.h"

namespace viaduct::sovia {

int SocketMessages::set_messages(int fd, bool on) {
  std::uint64_t written = 0, unsent = 0, read = 0;
  const std::scoped_lock both(take_, give_);
  const bool known = bytes_written(fd, written, unsent) && bytes_read(fd, read);
  if (on != carries_messages() && (!known || written != 0 || read != 0 || head_bytes_ != 0)) {
    errno = EISCONN;
    return -1;
  }
  carries_messages_.store(on, std::memory_order_relaxed);
  return 0;
}

void SocketMessages::after_fork_in_child() {
  SocketSend::after_fork_in_child();
  new (&take_) Lock;
  new (&give_) Lock;
  // The rest of a message is the parent's to send.
  if (rest_has_thread_) forget_waiting();
  rest_has_thread_ = false;
  rest_.clear();
  rest_at_ = 0;
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
  if (head_bytes_ == kFrameBytes) return Taken::kSome;
  std::size_t bytes = 0;
  if (peek) {
    std::byte head[kFrameBytes];
    std::copy_n(head_, head_bytes_, head);
    const iovec piece{head + head_bytes_, kFrameBytes - head_bytes_};
    const bool all = take(fd, &piece, 1, 0, MSG_PEEK, bytes) == Taken::kSome && bytes == piece.iov_len;
    if (all && frame_.read(head) && frame_.length == 0) return Taken::kSome;
  }
  while (head_bytes_ < kFrameBytes) {
    const iovec piece{head_ + head_bytes_, kFrameBytes - head_bytes_};
    const Taken taken = take(fd, &piece, 1, 0, 0, bytes);
    if (taken == Taken::kEnd && head_bytes_ != 0) return fail(fd, ECONNRESET);
    if (taken != Taken::kSome) return taken;
    head_bytes_ += bytes;
  }
  if (!frame_.read(head_) || frame_.kind != FrameKind::kMessage || frame_.number != next_in_) {
    return fail(fd, EPROTO);
  }
  return Taken::kSome;
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
  ++next_in_;
  return Taken::kSome;
}

ssize_t SocketMessages::receive_message(int fd, const iovec* pieces, std::size_t count, int flags, int& told) {
  if (count > kMostPieces) {
    errno = EINVAL;
    return -1;
  }
  told = 0;
  Waiting waiting;
  RedirectedReceive nothing_direct;
  for (;;) {
    progress();
    std::size_t bytes = 0;
    Taken taken;
    {
      const std::scoped_lock guard(take_);
      taken = take_message(fd, pieces, count, flags, told, bytes);
    }
    if (taken == Taken::kSome) return static_cast<ssize_t>(bytes);
    if (taken == Taken::kEnd) return 0;
    if (taken == Taken::kFailed) return -1;
    told = 0;
    if (!blocks(fd, flags)) {
      errno = EAGAIN;
      return -1;
    }
    if (!await(fd, POLLIN, SO_RCVTIMEO, waiting, nothing_direct)) return -1;
  }
}

int SocketMessages::next_message(int fd) {
  progress();
  const std::scoped_lock guard(take_);
  return failed_.load() == 0 && take_frame(fd, true) == Taken::kSome ? static_cast<int>(frame_.length) : 0;
}

// ---------------------------------------------------------------------------- sending

// The rest of a message of which the stream has `from` bytes. Without it the stream would be of no use.
bool SocketMessages::keep_rest(const iovec* pieces, std::size_t count, std::size_t from) {
  bool all = true;
  over_pieces(pieces, count, from, [&](const std::byte* data, std::size_t bytes) {
    for (std::size_t done = 0, room; done != bytes && all; done += room) {
      std::byte* const to = rest_.room(bytes - done, room);
      all = to != nullptr && copy_guarded(to, data + done, room);
      if (all) rest_.filled(room);
    }
    return bytes;
  });
  rest_at_ = 0;
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
  if (give_rest(fd) == Attempt::kAgain) return Attempt::kAgain;
  std::byte head[kFrameBytes];
  Frame{FrameKind::kMessage, static_cast<std::uint32_t>(bytes), next_out_}.write(head);
  constexpr std::size_t kFew = 16;
  iovec few[kFew + 1];
  std::vector<iovec> many;
  if (count > kFew) many.resize(count + 1);
  iovec* const all = count > kFew ? many.data() : few;
  all[0] = {head, kFrameBytes};
  std::copy_n(pieces, count, all + 1);
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

ssize_t SocketMessages::send_message(int fd, const iovec* pieces, std::size_t count, int flags) {
  const std::size_t bytes = count <= kMostPieces ? total(pieces, count) : 0;
  if (count > kMostPieces || bytes > kMostMessage) {
    errno = count > kMostPieces ? EINVAL : EMSGSIZE;
    return -1;
  }
  Waiting waiting;
  RedirectedReceive nothing_direct;
  bool left = false;
  for (;;) {
    Attempt attempt;
    {
      const std::scoped_lock guard(give_);
      attempt = give_message(fd, pieces, count, bytes, flags);
      left = rest_at_ != rest_.size();
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
    if (!await(fd, POLLOUT, SO_SNDTIMEO, waiting, nothing_direct)) return -1;
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
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  rest_has_thread_ = pthread_create(&thread, &attributes, give_in_thread, giving.get()) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
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
