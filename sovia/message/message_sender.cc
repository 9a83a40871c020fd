#include "sovia/message/message_sender.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "sovia/lane/engine.h"
#include "sovia/lane/lane_pieces.h"
#include "sovia/message/rendezvous.h"
#include "sovia/process/clock.h"
#include "sovia/process/guarded_copy.h"
#include "sovia/process/libc.h"
#include "sovia/process/options.h"
#include "sovia/process/signals.h"
#include "sovia/process/threads.h"
#include "sovia/socket/redirected_receive.h"
#include "sovia/socket/socket_pieces.h"
#include "sovia/socket/waiting_call.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {
namespace {

// The most pending bytes: a peer that asks for more than it takes loses the connection. The limit is above this end's
// own pieces under way.
constexpr std::size_t kMostUnsent = 8 * 1024 * 1024;

}  // namespace

// ---------------------------------------------------------------------------- pending

void MessageSender::drop_pending() {
  pending_.clear();
  pending_at_ = 0;
}

// kDone: no byte is pending any more.
Attempt MessageSender::send_pending(int fd) {
  while (has_pending()) {
    const iovec piece{pending_.data() + pending_at_, pending_.size() - pending_at_};
    const ssize_t sent = socket_.send(fd, &piece, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN) return Attempt::kAgain;
    if (sent < 0) break;  // the next call gets the error
    pending_at_ += static_cast<std::size_t>(sent);
  }
  drop_pending();
  return Attempt::kDone;
}

// ---------------------------------------------------------------------------- sending

Attempt MessageSender::try_send(int fd, const iovec* pieces, std::size_t count, std::size_t bytes,
                                               int flags) {
  if (const int error = failure_.error(); error != 0) return failed(error, Attempt::kFailed);
  if (shut_after_pending_) return Attempt::kPipe;
  if (offering_ || send_pending(fd) == Attempt::kAgain) return Attempt::kAgain;
  std::byte head[kFrameBytes];
  Frame{FrameKind::kMessage, static_cast<std::uint32_t>(bytes), next_}.write(head);
  constexpr std::size_t kFew = 16;
  iovec few[kFew + 1];
  std::vector<iovec> many;
  if (count > kFew) many.resize(count + 1);
  iovec* const all = count > kFew ? many.data() : few;
  all[0] = {head, kFrameBytes};
  for (std::size_t i = 0; i < count; ++i) all[i + 1] = pieces[i];
  // The frame may make one piece more than a call may have; the message then goes in two parts.
  const bool fits = count < kMostPieces;
  const ssize_t sent =
      socket_.send(fd, all, fits ? count + 1 : count, (flags & MSG_MORE) | MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0) return errno == EAGAIN ? Attempt::kAgain : errno == EPIPE ? Attempt::kPipe : Attempt::kFailed;
  ++next_;
  if (static_cast<std::size_t>(sent) == kFrameBytes + bytes) return Attempt::kDone;
  if (pending_.append(all, count + 1, static_cast<std::size_t>(sent))) return Attempt::kDone;
  // The stream lacks a part of a message.
  drop_pending();
  failure_.fail(fd, EFAULT);
  return Attempt::kFailed;
}

ssize_t MessageSender::send(int fd, const iovec* pieces, std::size_t count, int flags) {
  const std::size_t bytes = count <= kMostPieces ? total(pieces, count) : 0;
  if (count > kMostPieces || bytes > kMostMessage) {
    errno = count > kMostPieces ? EINVAL : EMSGSIZE;
    return -1;
  }
  if (bytes >= options().rendezvous && count == 1 && bytes != 0 && socket_.modes.blocks(fd, flags) &&
      send_by_rendezvous(fd, pieces[0])) {
    return static_cast<ssize_t>(bytes);
  }
  WaitingCall waiting(socket_);
  bool left = false, others;
  for (;;) {
    Attempt attempt;
    {
      const LockGuard guard(lock_);
      attempt = try_send(fd, pieces, count, bytes, flags);
      left = has_pending();
      others = offering_;
    }
    if (attempt == Attempt::kDone) break;
    if (attempt == Attempt::kPipe) {
      // No lock is held: the handler may do with the socket as it likes.
      if ((flags & MSG_NOSIGNAL) == 0) raise(SIGPIPE);
      errno = EPIPE;
    }
    if (attempt != Attempt::kAgain) return -1;
    if (!socket_.modes.blocks(fd, flags)) return failed(EAGAIN);
    // While another thread's call waits for the peer's buffer, this one only tries again after a moment.
    if (others ? !waiting.await_moment(fd) : !waiting.await(fd, POLLOUT, SO_SNDTIMEO)) {
      if (others) errno = signals::held_back() ? EINTR : EAGAIN;
      return -1;
    }
  }
  const auto still_pending = [&] {
    const LockGuard guard(lock_);
    return send_pending(fd) == Attempt::kAgain;
  };
  // The message has been taken. A call that may wait still waits until all is sent, so that a program does not send
  // faster than its peer reads.
  while (left && still_pending()) {
    if (socket_.modes.blocks(fd, flags) && waiting.await(fd, POLLOUT, SO_SNDTIMEO)) continue;
    send_pending_in_background(fd);
    break;
  }
  return static_cast<ssize_t>(bytes);
}

bool MessageSender::send_control(int fd, FrameKind kind, std::uint32_t number, const iovec* body, std::size_t count) {
  std::byte head[kFrameBytes];
  Frame{kind, static_cast<std::uint32_t>(total(body, count)), number}.write(head);
  constexpr std::size_t kMostBody = 3;
  iovec all[kMostBody + 1] = {{head, kFrameBytes}};
  std::copy_n(body, count, all + 1);
  {
    const LockGuard guard(lock_);
    if (const int error = failure_.error(); error != 0 || shut_after_pending_) {
      errno = error != 0 ? error : EPIPE;
      return false;
    }
    ssize_t sent = 0;
    if (send_pending(fd) == Attempt::kDone) sent = socket_.send(fd, all, count + 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) return false;
    if (pending_.size() - pending_at_ > kMostUnsent ||
        !pending_.append(all, count + 1, static_cast<std::size_t>(std::max<ssize_t>(sent, 0)))) {
      drop_pending();
      failure_.fail(fd, ENOBUFS);
      return false;
    }
    if (!has_pending()) return true;
  }
  send_pending_in_background(fd);
  return true;
}

// ---------------------------------------------------------------------------- straight to the peer's buffer

// Sends the offer of a message that is to be written to the peer's buffer. The part that the stream does not take is
// pending.
bool MessageSender::send_offer(int fd, std::uint32_t number, std::uint32_t bytes) {
  std::byte head[kFrameBytes];
  Frame{FrameKind::kOffer, bytes, number}.write(head);
  const iovec piece{head, kFrameBytes};
  const LockGuard guard(lock_);
  // The answer to a put or get may have become pending meanwhile.
  if (send_pending(fd) == Attempt::kAgain) return false;
  const ssize_t sent = socket_.send(fd, &piece, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0) return false;
  return pending_.append(&piece, 1, static_cast<std::size_t>(sent)) && pending_.size() == 0;
}

// False: the message has not been sent, and has to go in the stream.
bool MessageSender::send_by_rendezvous(int fd, const iovec& message) {
  // A peer that opens no sink in this time gets the message in the stream: it may be sending such a message itself.
  constexpr std::uint64_t kSinkNs = 5'000'000;
  std::uint32_t number;  // no other call's meanwhile
  {
    const LockGuard guard(lock_);
    number = next_;
    if (failure_.error() != 0 || shut_after_pending_ || offering_ || send_pending(fd) == Attempt::kAgain) return false;
    offering_ = true;
  }
  bool placed = false;
  {
    RendezvousSend send(socket_);
    if (send.begin(message, number)) {
      progress();
      bool there = send.has_target();
      if (!there && send_offer(fd, number, static_cast<std::uint32_t>(message.iov_len))) {
        send.push_offer();
        there = send.await_target(now_ns() + kSinkNs);
      }
      placed = there && send.write();
    }
  }
  const LockGuard guard(lock_);
  offering_ = false;
  if (placed) ++next_;
  return placed;
}

// ---------------------------------------------------------------------------- what a call leaves behind

struct MessageSender::Background {
  Background(MessageSender& of, int fd)
      : reference(of.socket_.reference()), sender(of), fd(fd), waiting(of.socket_) {
    waiting.set_deadline(kNever);
    waiting.begin();
  }
  const SocketRef reference;  // given back last
  MessageSender& sender;
  const int fd;
  WaitingCall waiting;  // keeps a descriptor for it when the program closes its own
};

void* MessageSender::run_in_background(void* of) {
  const signals::Inside inside;
  const std::unique_ptr<Background> call(static_cast<Background*>(of));
  MessageSender& sender = call->sender;
  for (;;) {
    {
      const LockGuard guard(sender.lock_);
      if (sender.send_pending(call->fd) != Attempt::kAgain) {
        sender.pending_has_thread_ = false;
        if (sender.shut_after_pending_) sender.socket_.shut_stream(sender.socket_.current(call->fd), SHUT_WR);
        return nullptr;
      }
    }
    call->waiting.await(call->fd, POLLOUT, SO_SNDTIMEO);
  }
}

void MessageSender::send_pending_in_background(int fd) {
  const LockGuard guard(lock_);
  if (pending_has_thread_ || !has_pending()) return;
  std::unique_ptr<Background> call(new (std::nothrow) Background(*this, fd));
  if (call == nullptr) return;  // the next call sends the rest
  pending_has_thread_ = start_thread(run_in_background, call.get());
  if (pending_has_thread_) call.release();
}

int MessageSender::before_shutdown(int how) {
  const LockGuard guard(lock_);
  if (how == SHUT_RD || !pending_has_thread_) return how;
  shut_after_pending_ = true;
  return how == SHUT_WR ? MessageLayer::kNothing : SHUT_RD;
}

// There are no other threads.
void MessageSender::after_fork_in_child() VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
  new (&lock_) Lock;
  // The parent sends the pending message.
  if (pending_has_thread_) socket_.waiters.calls.fetch_sub(1);
  pending_has_thread_ = false;
  drop_pending();
  offering_ = false;
}

}  // namespace viaduct::sovia
