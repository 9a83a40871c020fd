// Sending and receiving: send, recv, read, write and their kin.
#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "sovia/api.h"
#include "sovia/guard.h"
#include "sovia/passing.h"
#include "sovia/waiting.h"

using namespace viaduct::sovia;

namespace {

// What only the kernel can do. Without MSG_OOB a receive from the lane and one from the kernel look
// the same to the program.
constexpr int kKernelReceives = MSG_OOB | MSG_ERRQUEUE;
constexpr int kKernelSends = MSG_OOB | MSG_FASTOPEN;

ssize_t counted(Counter counter, ssize_t result) {
  if (result > 0) counters::add(counter, static_cast<std::uint64_t>(result));
  return result;
}

// Bytes that went through the kernel on a socket of ours.
ssize_t kernel_sent(ssize_t result) { return counted(Counter::kBytesSentKernel, result); }
ssize_t kernel_received(ssize_t result) { return counted(Counter::kBytesReceivedKernel, result); }

// Whether the kernel would refuse these pieces; it then gets them, to say so.
bool refused(const iovec* pieces, std::size_t count) {
  if (count > IOV_MAX || !can_read(pieces, count * sizeof *pieces)) return true;
  for (std::size_t i = 0; i < count; ++i) {
    if (pieces[i].iov_len > SSIZE_MAX) return true;
  }
  return false;
}

bool empty(const iovec* pieces, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (pieces[i].iov_len != 0) return false;
  }
  return true;
}

// MSG_TRUNC on TCP: takes the bytes and throws them away. All pieces are the same memory.
ssize_t discard(int fd, Socket& socket, std::size_t bytes, int flags) {
  constexpr std::size_t kPiece = 16384;
  constexpr std::size_t kPieces = 64;
  static thread_local char nowhere[kPiece];
  iovec pieces[kPieces];
  std::size_t count = 0;
  for (; bytes != 0 && count < kPieces; ++count) {
    pieces[count] = {nowhere, bytes < kPiece ? bytes : kPiece};
    bytes -= pieces[count].iov_len;
  }
  return socket.receive(fd, pieces, count, flags & ~MSG_TRUNC);
}

std::size_t sum(const iovec* pieces, std::size_t count) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (__builtin_add_overflow(bytes, pieces[i].iov_len, &bytes)) return SIZE_MAX;
  }
  return bytes;
}

ssize_t receive(int fd, Socket& socket, const iovec* pieces, std::size_t count, int flags) {
  if ((flags & MSG_TRUNC) != 0) return discard(fd, socket, sum(pieces, count), flags);
  return socket.receive(fd, pieces, count, flags);
}

// Makes the kernel the one who sends next. Called for flags and control data.
void leave_to_send(int fd, Socket& socket, int flags) {
  const KeepErrno keep;
  socket.leave_sending(fd, (flags & MSG_OOB) != 0 ? Reason::kUrgent : Reason::kOption);
}

}  // namespace

// ------------------------------------------------------------------ sending

ssize_t sovia_send(int fd, const void* data, size_t bytes, int flags) {
  const Socket* const known = table::peek(fd);
  if (known == nullptr) return kernel::send(fd, data, bytes, flags);
  const Call socket = concerned(fd);
  if (!socket || bytes == 0 || bytes > SSIZE_MAX) {
    return kernel_sent(kernel::send(fd, data, bytes, flags));
  }
  if ((flags & kKernelSends) != 0) {
    leave_to_send(fd, *socket, flags);
    const signals::Outside outside;
    return kernel_sent(kernel::send(fd, data, bytes, flags));
  }
  const iovec piece = {const_cast<void*>(data), bytes};
  return socket->send(fd, &piece, 1, flags);
}

ssize_t sovia_sendto(int fd, const void* data, size_t bytes, int flags, const sockaddr* address,
                     socklen_t length) {
  // TCP ignores the address, once it has found it readable.
  if (address == nullptr || (length <= sizeof(sockaddr_storage) && concerned(fd))) {
    return sovia_send(fd, data, bytes, flags);
  }
  return kernel::sendto(fd, data, bytes, flags, address, length);
}

ssize_t sovia_sendmsg(int fd, const msghdr* message, int flags) {
  const Socket* const known = table::peek(fd);
  if (known == nullptr) {
    if (message == nullptr || message->msg_controllen == 0) {
      return kernel::sendmsg(fd, message, flags);
    }
    const passing::Outgoing outgoing(*message);
    return kernel::sendmsg(fd, outgoing.message(), flags);
  }
  const Call socket = concerned(fd);
  if (!socket || !can_read(message, sizeof *message) ||
      refused(message->msg_iov, message->msg_iovlen) ||
      empty(message->msg_iov, message->msg_iovlen)) {
    return kernel_sent(kernel::sendmsg(fd, message, flags));
  }
  if ((flags & kKernelSends) != 0 || message->msg_controllen != 0) {
    leave_to_send(fd, *socket, flags);
    const signals::Outside outside;
    return kernel_sent(kernel::sendmsg(fd, message, flags));
  }
  return socket->send(fd, message->msg_iov, message->msg_iovlen, flags);
}

int sovia_sendmmsg(int fd, mmsghdr* messages, unsigned int count, int flags) {
  const Call socket = concerned(fd);
  if (!socket) {
    bool more = false;
    for (unsigned i = 0; i < count; ++i) {
      const msghdr& message = messages[i].msg_hdr;
      more = (message.msg_controllen != 0 && passing::Outgoing(message).has_more()) || more;
    }
    if (!more) return kernel::sendmmsg(fd, messages, count, flags);
  }
  unsigned done = 0;
  for (; done < count; ++done) {
    const ssize_t sent = sovia_sendmsg(fd, &messages[done].msg_hdr, flags);
    if (sent < 0) break;
    messages[done].msg_len = static_cast<unsigned>(sent);
  }
  return done == 0 && count != 0 ? -1 : static_cast<int>(done);
}

ssize_t sovia_write(int fd, const void* data, size_t bytes) {
  const Socket* const known = table::peek(fd);
  if (known == nullptr) return kernel::write(fd, data, bytes);
  const Call socket = concerned(fd);
  if (!socket || bytes == 0 || bytes > SSIZE_MAX) {
    return kernel_sent(kernel::write(fd, data, bytes));
  }
  const iovec piece = {const_cast<void*>(data), bytes};
  return socket->send(fd, &piece, 1, 0);
}

ssize_t sovia_writev(int fd, const iovec* pieces, int count) {
  const Socket* const known = table::peek(fd);
  if (known == nullptr) return kernel::writev(fd, pieces, count);
  const Call socket = concerned(fd);
  const std::size_t n = static_cast<std::size_t>(count);
  if (!socket || count < 0 || refused(pieces, n) || empty(pieces, n)) {
    return kernel_sent(kernel::writev(fd, pieces, count));
  }
  return socket->send(fd, pieces, n, 0);
}

ssize_t sovia_pwritev2(int fd, const iovec* pieces, int count, off_t offset, int flags) {
  if (offset == -1 && (flags == 0 || flags == RWF_NOWAIT)) {
    const Call socket = concerned(fd);
    const std::size_t n = static_cast<std::size_t>(count);
    if (socket && count >= 0 && !refused(pieces, n) && !empty(pieces, n)) {
      return socket->send(fd, pieces, n, flags == 0 ? 0 : MSG_DONTWAIT);
    }
  }
  return SOVIA_LATE(pwritev2)(fd, pieces, count, offset, flags);
}

// ------------------------------------------------------------------ receiving

ssize_t sovia_recv(int fd, void* data, size_t bytes, int flags) {
  Socket* const known = table::peek(fd);
  if (known == nullptr) return kernel::recv(fd, data, bytes, flags);
  if (bytes != 0 && (flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL)) == 0 && known->finds_nothing(flags)) {
    return failed(EAGAIN);
  }
  const Call socket = concerned(fd);
  if (!socket || (flags & kKernelReceives) != 0 || bytes > SSIZE_MAX) {
    return kernel_received(kernel::recv(fd, data, bytes, flags));
  }
  const iovec piece = {data, bytes};
  return receive(fd, *socket, &piece, 1, flags);
}

ssize_t sovia_recvfrom(int fd, void* data, size_t bytes, int flags, sockaddr* address,
                       socklen_t* length) {
  if (address == nullptr) return sovia_recv(fd, data, bytes, flags);
  const Call socket = concerned(fd);
  if (!socket || (flags & kKernelReceives) != 0 || length == nullptr ||
      static_cast<int>(*length) < 0 || bytes > SSIZE_MAX) {
    return kernel::recvfrom(fd, data, bytes, flags, address, length);
  }
  const iovec piece = {data, bytes};
  const ssize_t received = receive(fd, *socket, &piece, 1, flags);
  if (received >= 0) *length = 0;  // TCP tells no address
  return received;
}

ssize_t sovia_recvmsg(int fd, msghdr* message, int flags) {
  const Socket* const known = table::peek(fd);
  if (known == nullptr) {
    const ssize_t received = kernel::recvmsg(fd, message, flags);
    if (received >= 0 && message->msg_controllen != 0) passing::after_receive(*message);
    return received;
  }
  const Call socket = concerned(fd);
  if (!socket || !can_read(message, sizeof *message) || (flags & kKernelReceives) != 0 ||
      refused(message->msg_iov, message->msg_iovlen)) {
    return kernel_received(kernel::recvmsg(fd, message, flags));
  }
  const ssize_t received = receive(fd, *socket, message->msg_iov, message->msg_iovlen, flags);
  if (received < 0) return received;
  // What TCP answers: no address, no control data (options that ask for some have left the lane).
  if (message->msg_name != nullptr) message->msg_namelen = 0;
  message->msg_controllen = 0;
  message->msg_flags = flags & MSG_CMSG_CLOEXEC;
  return received;
}

int sovia_recvmmsg(int fd, mmsghdr* messages, unsigned int count, int flags, timespec* timeout) {
  const Call socket = concerned(fd);
  if (!socket || (flags & kKernelReceives) != 0 || count == 0) {
    const int received = kernel::recvmmsg(fd, messages, count, flags, timeout);
    for (int i = 0; i < received; ++i) {
      if (messages[i].msg_hdr.msg_controllen != 0) passing::after_receive(messages[i].msg_hdr);
    }
    return received;
  }
  // As the kernel does it: the time is looked at after each message only.
  const std::uint64_t deadline = deadline_in(timeout);
  int one_flags = flags & ~MSG_WAITFORONE;
  unsigned done = 0;
  while (done < count) {
    const ssize_t received = sovia_recvmsg(fd, &messages[done].msg_hdr, one_flags);
    if (received < 0) break;
    messages[done++].msg_len = static_cast<unsigned>(received);
    if ((flags & MSG_WAITFORONE) != 0) one_flags |= MSG_DONTWAIT;
    if (timeout != nullptr && now_ns() >= deadline) break;
  }
  return done == 0 ? -1 : static_cast<int>(done);
}

ssize_t sovia_read(int fd, void* data, size_t bytes) {
  Socket* const known = table::peek(fd);
  if (known == nullptr) return kernel::read(fd, data, bytes);
  if (bytes != 0 && known->finds_nothing(0)) return failed(EAGAIN);
  const Call socket = concerned(fd);
  // Unlike recv, read of nothing does not wait.
  if (!socket || bytes == 0 || bytes > SSIZE_MAX) {
    return kernel_received(kernel::read(fd, data, bytes));
  }
  const iovec piece = {data, bytes};
  return socket->receive(fd, &piece, 1, 0);
}

ssize_t sovia_readv(int fd, const iovec* pieces, int count) {
  const Socket* const known = table::peek(fd);
  if (known == nullptr) return kernel::readv(fd, pieces, count);
  const Call socket = concerned(fd);
  const std::size_t n = static_cast<std::size_t>(count);
  if (!socket || count < 0 || refused(pieces, n) || empty(pieces, n)) {
    return kernel_received(kernel::readv(fd, pieces, count));
  }
  return socket->receive(fd, pieces, n, 0);
}

ssize_t sovia_preadv2(int fd, const iovec* pieces, int count, off_t offset, int flags) {
  if (offset == -1 && (flags == 0 || flags == RWF_NOWAIT)) {
    const Call socket = concerned(fd);
    const std::size_t n = static_cast<std::size_t>(count);
    if (socket && count >= 0 && !refused(pieces, n) && !empty(pieces, n)) {
      return socket->receive(fd, pieces, n, flags == 0 ? 0 : MSG_DONTWAIT);
    }
  }
  return SOVIA_LATE(preadv2)(fd, pieces, count, offset, flags);
}
