#include "sovia/datagram/datagram_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/time.h>

#include <algorithm>

#include "sovia/datagram/datagram_requests.h"
#include "sovia/lane/engine.h"
#include "sovia/lane/waiting.h"
#include "sovia/process/clock.h"
#include "sovia/process/guarded_copy.h"
#include "sovia/process/libc.h"
#include "sovia/process/signals.h"

namespace viaduct::sovia::datagram {
namespace {

constexpr int kPlainSends = MSG_DONTWAIT | MSG_NOSIGNAL | MSG_CONFIRM;
constexpr int kKernelReceives = MSG_ERRQUEUE;
constexpr std::size_t kMostPayload = 65507;  // of UDP over IPv4

// Counts a datagram that the kernel has sent or received, and asks for a lane when the peer is worth one.
void note(int fd, DatagramSocket& socket, const sockaddr_in& peer, ssize_t bytes) {
  if (peer.sin_family != AF_INET) return;
  const KeepErrno keep;
  if (bytes > static_cast<ssize_t>(kMostBytes)) return socket.refused(peer, true, now_ns());
  if (socket.count(peer, now_ns())) ask(fd, socket, peer);
}

bool named(const void* name, socklen_t length, sockaddr_in& peer) {
  return length >= sizeof peer && copy_guarded(&peer, name, sizeof peer) && peer.sin_family == AF_INET;
}

// False if the kernel would refuse the pieces.
bool readable_pieces(const iovec* pieces, std::size_t count, std::size_t& bytes) {
  bytes = 0;
  if (count > IOV_MAX || !can_read(pieces, count * sizeof *pieces)) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (__builtin_add_overflow(bytes, pieces[i].iov_len, &bytes) || bytes > SSIZE_MAX) return false;
  }
  return true;
}

std::uint64_t receive_deadline(int fd, const DatagramSocket& socket) {
  if (!socket.has_timeout()) return kNever;
  timeval time{};
  socklen_t length = sizeof time;
  libc::getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, &length);
  if (time.tv_sec == 0 && time.tv_usec == 0) return kNever;
  const timespec left{time.tv_sec, time.tv_usec * 1000};
  return deadline_in(&left);
}

class Datagrams final : public WaitCondition {
 public:
  explicit Datagrams(DatagramSocket& socket) : socket_(socket) {}
  bool ready() override { return socket_.readable(); }
  bool concerns(const Watched& source) const override { return &source == &socket_; }

 private:
  DatagramSocket& socket_;
};

// Waits until an attempt is worth while. False with errno if the call is to end. The caller's reference is given up
// while handlers run, as one may leave the call by longjmp.
bool await(int fd, DatagramRef& socket, std::uint64_t deadline) {
  Woken woken;
  {
    Datagrams condition(*socket);
    pollfd kernel{fd, POLLIN, 0};
    const std::uint64_t held = socket->held_until();
    woken = wait_for(condition, &kernel, 1, std::min(deadline, held), nullptr, socket->has_open_lane());
  }
  if (woken == Woken::kTimeout) {
    if (now_ns() < deadline) return true;
    return failed(EAGAIN, false);
  }
  if (woken != Woken::kSignal && !signals::held_back()) return true;
  if (woken != Woken::kSignal && socket->readable()) return true;
  socket.reset();
  if (signals::run_held_back() && deadline == kNever && (socket = table::find(fd))) return true;
  return failed(EINTR, false);
}

// Receives from the kernel with the sender's address. If it waits, the program's signal handlers may run.
ssize_t kernel_receive(int fd, DatagramSocket& socket, msghdr& message, int flags, bool waits) {
  sockaddr_in peer{};
  msghdr given = message;
  const bool has_name = given.msg_name != nullptr;
  if (!has_name && !socket.connection(peer)) {
    given.msg_name = &peer;
    given.msg_namelen = sizeof peer;
  }
  ssize_t got;
  if (waits) {
    const signals::Outside outside;
    got = libc::recvmsg(fd, &given, flags);
  } else {
    got = libc::recvmsg(fd, &given, flags | MSG_DONTWAIT);
  }
  if (got < 0) return got;
  if (has_name) named(given.msg_name, std::min(given.msg_namelen, message.msg_namelen), peer);
  message.msg_flags = given.msg_flags;
  message.msg_controllen = given.msg_controllen;
  if (has_name) message.msg_namelen = given.msg_namelen;
  if ((flags & MSG_PEEK) == 0) note(fd, socket, peer, got);
  return got;
}

// Fills in the program's msghdr for a datagram from a lane.
ssize_t told(const Message& from, std::size_t length, msghdr& message, int flags) {
  message.msg_controllen = 0;
  message.msg_flags = from.flags | (flags & MSG_CMSG_CLOEXEC);
  if (message.msg_name != nullptr) {
    const socklen_t room = message.msg_namelen;
    message.msg_namelen = sizeof from.peer;
    if (!copy_guarded(message.msg_name, &from.peer, std::min<std::size_t>(room, sizeof from.peer))) {
      return failed(EFAULT);
    }
  }
  if ((flags & MSG_TRUNC) != 0) return static_cast<ssize_t>(length);
  std::size_t room = 0;
  for (std::size_t i = 0; i < from.count; ++i) room += from.pieces[i].iov_len;
  return static_cast<ssize_t>(std::min(length, room));
}

// Counts a receive that would not notice a lane: none is opened during it.
class Raw {
 public:
  explicit Raw(DatagramSocket& socket) : socket_(socket) { socket_.receives_raw(+1); }
  ~Raw() { socket_.receives_raw(-1); }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;

 private:
  DatagramSocket& socket_;
};

bool from_kernel_alone(int fd, DatagramSocket& socket, msghdr& message, int flags, ssize_t& result) {
  if (socket.may_have_lanes()) return false;
  const Raw raw(socket);
  if (socket.may_have_lanes()) return false;
  result = kernel_receive(fd, socket, message, flags, true);
  return true;
}

bool take(DatagramSocket& socket, msghdr& message, int flags, ssize_t& result) {
  Message datagram{message.msg_iov, message.msg_iovlen, {}, 0};
  std::size_t length = 0;
  switch (socket.take(datagram, length, (flags & MSG_PEEK) != 0)) {
    case DatagramSocket::Taken::kNone:
      return false;
    case DatagramSocket::Taken::kFault:
      result = failed(EFAULT);
      return true;
    case DatagramSocket::Taken::kDone:
      break;
  }
  result = told(datagram, length, message, flags);
  return true;
}

ssize_t receive(int fd, DatagramRef& socket, msghdr& message, int flags) {
  ssize_t result;
  if (from_kernel_alone(fd, *socket, message, flags, result)) return result;
  const bool waits = (flags & MSG_DONTWAIT) == 0 && !socket->nonblocking();
  std::uint64_t deadline = 0;
  for (bool ask = !waits || socket->kernel_due();; ask = true) {
    progress();
    if (!socket->kernel_first() && take(*socket, message, flags, result)) return result;
    if (ask || socket->readable()) {
      result = kernel_receive(fd, *socket, message, flags, false);
      if (result >= 0 || errno != EAGAIN) {
        socket->kernel_said(true, result >= 0 && (flags & MSG_PEEK) != 0);
        return result;
      }
      socket->kernel_said(false);
      if (take(*socket, message, flags, result)) return result;
    }
    if (!waits) {
      engine::after_look_in_vain();
      return failed(EAGAIN);
    }
    if (deadline == 0) deadline = receive_deadline(fd, *socket);
    if (!await(fd, socket, deadline)) return -1;
    // Another thread has closed the socket, and the descriptor may be another file's by now.
    if (!table::is(fd, *socket)) return failed(EBADF);
  }
}

// Sends a datagram; waits for room as long as the peer takes anything.
DatagramSocket::Sent send_with_room(int fd, DatagramSocket& socket, const Message& message,
                                    std::size_t bytes, bool waits) {
  constexpr unsigned kLooks = 64, kLooksWithoutWaiting = 4;
  constexpr timespec kMoment{0, 50'000};
  for (unsigned looks = 0;; ++looks) {
    const DatagramSocket::Sent sent = socket.send(fd, message, bytes);
    if (sent != DatagramSocket::Sent::kNoRoom || (!waits && looks >= kLooksWithoutWaiting)) return sent;
    progress();
    if (looks >= kLooks) libc::ppoll(nullptr, 0, &kMoment, nullptr);
  }
}

}  // namespace

ssize_t send_message(int fd, const msghdr& message, int flags) {
  const signals::Inside inside;
  const DatagramRef socket = table::find(fd);
  Message datagram{message.msg_iov, message.msg_iovlen, {}, 0};
  std::size_t bytes;
  if (socket && (message.msg_controllen != 0 || (flags & ~kPlainSends) != 0)) socket->give_up(Reason::kOption);
  const bool has_peer =
      socket && (message.msg_name != nullptr ? named(message.msg_name, message.msg_namelen, datagram.peer)
                                             : socket->connection(datagram.peer));
  if (has_peer && socket->may_have_lanes() && readable_pieces(datagram.pieces, datagram.count, bytes) &&
      bytes <= kMostPayload) {
    const bool waits = (flags & MSG_DONTWAIT) == 0 && !socket->nonblocking();
    switch (send_with_room(fd, *socket, datagram, bytes, waits)) {
      case DatagramSocket::Sent::kFault:
        return failed(EFAULT);
      case DatagramSocket::Sent::kNoRoom:
        return failed(EAGAIN);
      case DatagramSocket::Sent::kKernel:
        break;
      case DatagramSocket::Sent::kDone:
        return static_cast<ssize_t>(bytes);
    }
  }
  ssize_t sent;
  {
    const signals::Outside outside;
    sent = libc::sendmsg(fd, &message, flags);
  }
  if (sent >= 0 && has_peer) note(fd, *socket, datagram.peer, sent);
  return sent;
}

ssize_t send(int fd, const iovec* pieces, std::size_t count, int flags, const void* name,
             socklen_t length) {
  msghdr message{};
  message.msg_name = const_cast<void*>(name);
  message.msg_namelen = length;
  message.msg_iov = const_cast<iovec*>(pieces);
  message.msg_iovlen = count;
  return send_message(fd, message, flags);
}

ssize_t receive_message(int fd, msghdr& message, int flags) {
  const signals::Inside inside;
  DatagramRef socket = table::find(fd);
  std::size_t bytes;
  if (!socket || (flags & kKernelReceives) != 0 || static_cast<int>(message.msg_namelen) < 0 ||
      !readable_pieces(message.msg_iov, message.msg_iovlen, bytes)) {
    const signals::Outside outside;
    return libc::recvmsg(fd, &message, flags);
  }
  return receive(fd, socket, message, flags);
}

ssize_t receive(int fd, const iovec* pieces, std::size_t count, int flags, void* name,
                socklen_t* length) {
  msghdr message{};
  message.msg_name = name;
  if (name != nullptr && !copy_guarded(&message.msg_namelen, length, sizeof *length)) return failed(EFAULT);
  message.msg_iov = const_cast<iovec*>(pieces);
  message.msg_iovlen = count;
  const ssize_t got = receive_message(fd, message, flags);
  if (got >= 0 && name != nullptr && !copy_guarded(length, &message.msg_namelen, sizeof *length)) {
    return failed(EFAULT);
  }
  return got;
}

// A second connect(), or the end of a connection, leaves the socket to the kernel, as it changes which peers may send.
void connected(int fd, const sockaddr* address, socklen_t length) {
  const KeepErrno keep;
  const signals::Inside inside;
  const DatagramRef socket = table::find(fd);
  if (!socket) return;
  sockaddr_in peer, before;
  if (socket->may_have_lanes() || socket->connection(before) || !named(address, length, peer)) {
    socket->give_up(Reason::kOption);
  } else {
    socket->connected(peer);
  }
}

// Options that don't concern datagrams themselves, or that the library follows, are harmless; after others the kernel
// alone serves the socket.
void sets_option(int fd, int level, int name) {
  constexpr int kHarmless[] = {SO_SNDBUF, SO_RCVBUF, SO_SNDBUFFORCE, SO_RCVBUFFORCE, SO_BROADCAST,
                               SO_SNDTIMEO, SO_PRIORITY, SO_BUSY_POLL};
  constexpr int kReceiveTimeoutNew = 66, kSendTimeoutNew = 67;
  const signals::Inside inside;
  const DatagramRef socket = table::find(fd);
  if (!socket) return;
  if (level == SOL_SOCKET && (name == SO_RCVTIMEO || name == kReceiveTimeoutNew)) {
    socket->set_timeout();
    return;
  }
  if (level == SOL_SOCKET && (std::find(std::begin(kHarmless), std::end(kHarmless), name) !=
                                  std::end(kHarmless) ||
                              name == kSendTimeoutNew)) {
    return;
  }
  socket->give_up(Reason::kOption);
}

void mode_changed(int fd) {
  const KeepErrno keep;
  const signals::Inside inside;
  const DatagramRef socket = table::find(fd);
  if (!socket) return;
  const int flags = libc::fcntl(fd, F_GETFL);
  if (flags < 0) return;
  socket->set_nonblocking((flags & O_NONBLOCK) != 0);
  if ((flags & O_ASYNC) != 0) socket->give_up(Reason::kOption);
}

void add_unread(int fd, int* bytes) {
  const signals::Inside inside;
  const DatagramRef socket = table::find(fd);
  if (!socket) return;
  progress();
  if (*bytes == 0) socket->kernel_said(false);
  if (const int next = socket->next_bytes(); next >= 0) {
    *bytes = next;
  } else if (*bytes != 0) {
    socket->kernel_said(true, true);
  }
}

}  // namespace viaduct::sovia::datagram
