// Sending and receiving: send, recv, read, write and their kin.
#include <limits.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include "sovia/api/api.h"
#include "sovia/api/api_messages.h"
#include "sovia/datagram/datagram_calls.h"
#include "sovia/lane/waiting.h"
#include "sovia/process/guarded_copy.h"
#include "sovia/program/scm_rights.h"
#include "sovia/socket/held_sends.h"
#include "sovia/socket/lane_life.h"

using namespace viaduct::sovia;

namespace {

// The kinds of descriptors, as far as the calls of this file differ.
enum class Kind {
  kForeign,   // none of ours: the kernel alone has its data
  kKernel,    // a TCP socket that has no lane, and no messages
  kDatagram,  // a UDP socket that may have lanes (datagram/)
  kMessages,  // a TCP socket whose stream consists of messages
  kStream,    // a TCP socket that may have a lane
};
struct Classified {
  Kind kind;
  Socket* known;  // nullptr: no TCP socket of ours
};

// Takes no reference and makes no system call, as a rule. The answer may be a moment old, as that of table::peek().
[[gnu::always_inline]] inline Classified classify(int fd) {
  Socket* const known = table::peek(fd);
  if (known == nullptr) return {datagram::table::knows(fd) ? Kind::kDatagram : Kind::kForeign, nullptr};
  if (known->modes.carries_messages()) return {Kind::kMessages, known};
  return {known->may_use_lane() ? Kind::kStream : Kind::kKernel, known};
}

// Flags that only the kernel can serve. Without MSG_OOB a receive from the lane and one from the kernel look the same
// to the program.
constexpr int kKernelReceives = MSG_OOB | MSG_ERRQUEUE;
constexpr int kKernelSends = MSG_OOB | MSG_FASTOPEN | MSG_ZEROCOPY;

constexpr unsigned kMostMessages = 1024;  // of sendmmsg: the kernel's UIO_MAXIOV

// Whether the kernel would refuse these pieces. They are then given to the kernel, for its error.
bool refused(const iovec* pieces, std::size_t count) {
  if (count > IOV_MAX || !can_read(pieces, count * sizeof *pieces)) return true;
  for (std::size_t i = 0; i < count; ++i) {
    if (pieces[i].iov_len > SSIZE_MAX) return true;
  }
  return false;
}

// As above, for a message with its address.
bool refused_to_send(const msghdr& message) {
  if (message.msg_name != nullptr && static_cast<int>(message.msg_namelen) < 0) return true;
  return !can_read_address(message) || refused(message.msg_iov, message.msg_iovlen);
}

// Copies a structure of the program's. False if the memory isn't there: the caller then lets the kernel return EFAULT.
template <class T>
bool take(T& to, const T* from) {
  return copy_guarded(&to, from, sizeof to);
}
template <class T>
bool put(T* to, const T& from) {
  return copy_guarded(to, &from, sizeof from);
}

// Linux returns 0 for a writev of no bytes without asking the socket, unlike for a send of none.
bool empty(const iovec* pieces, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (pieces[i].iov_len != 0) return false;
  }
  return true;
}

// Memory for discarded bytes, which is written and never read. All threads share it: thread-local memory would be taken
// off the stack whose size the program has chosen.
constexpr std::size_t kNowhere = 16384;
char g_nowhere[kNowhere];

// MSG_TRUNC on TCP: takes the bytes and throws them away. All pieces are the same memory.
ssize_t discard(int fd, Socket& socket, std::size_t bytes, int flags) {
  constexpr std::size_t kPieces = 64;
  iovec pieces[kPieces];
  std::size_t count = 0;
  for (; bytes != 0 && count < kPieces; ++count) {
    pieces[count] = {g_nowhere, bytes < kNowhere ? bytes : kNowhere};
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

// Writes control data for bytes that came over a lane to the control buffer of `message`. Returns its length.
std::size_t add_control(int fd, Socket& socket, msghdr& message) {
  const unsigned wanted = socket.modes.control_wanted();
  if (wanted == 0 || message.msg_controllen == 0) return 0;
  std::size_t used = 0;
  const auto add = [&](int level, int type, const void* data, std::size_t bytes) {
    alignas(cmsghdr) std::byte one[CMSG_SPACE(16)] = {};
    if (message.msg_controllen - used < CMSG_LEN(bytes)) {
      message.msg_flags |= MSG_CTRUNC;
      return;
    }
    auto* const head = reinterpret_cast<cmsghdr*>(one);
    head->cmsg_len = CMSG_LEN(bytes);
    head->cmsg_level = level;
    head->cmsg_type = type;
    memcpy(CMSG_DATA(head), data, bytes);
    if (!copy_guarded(static_cast<std::byte*>(message.msg_control) + used, one, CMSG_LEN(bytes))) return;
    used += CMSG_SPACE(bytes);
    if (used > message.msg_controllen) used = message.msg_controllen;
  };
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if ((wanted & kControlTime) != 0) {
    const timeval rough = {now.tv_sec, now.tv_nsec / 1000};
    add(SOL_SOCKET, SO_TIMESTAMP, &rough, sizeof rough);
  }
  if ((wanted & kControlTimeNs) != 0) add(SOL_SOCKET, SO_TIMESTAMPNS, &now, sizeof now);
  if ((wanted & kControlUnread) != 0) {
    const int unread = socket.unread(fd);
    constexpr int kTcpInq = 36;
    add(IPPROTO_TCP, kTcpInq, &unread, sizeof unread);
  }
  return used;
}

bool is_valid(const timespec& time) {
  return time.tv_sec >= 0 && time.tv_nsec >= 0 && time.tv_nsec < 1'000'000'000;
}

ssize_t send_datagram(int fd, const void* data, size_t bytes, int flags, const sockaddr* address = nullptr,
                      socklen_t length = 0) {
  const iovec piece = {const_cast<void*>(data), bytes};
  return keeping_errno([&] { return datagram::send(fd, &piece, 1, flags, address, length); });
}
ssize_t receive_datagram(int fd, void* data, size_t bytes, int flags, sockaddr* address = nullptr,
                         socklen_t* length = nullptr) {
  const iovec piece = {data, bytes};
  return keeping_errno([&] { return datagram::receive(fd, &piece, 1, flags, address, length); });
}

// Moves sending to the kernel. Called for flags and control data.
void leave_to_send(int fd, Socket& socket, int flags) {
  const KeepErrno keep;
  socket.leave_sending(fd, (flags & MSG_OOB) != 0 ? Reason::kUrgent : Reason::kOption);
}

// A send that the kernel makes: what this thread holds for lanes was sent before.
template <class KernelCall>
ssize_t send_by_kernel(KernelCall&& call) {
  held_sends::before_other_send();
  return kernel_sent(call());
}

// Not inlined, as send_by_lane().
[[gnu::noinline]] ssize_t send_as_message(int fd, const void* data, size_t bytes, int flags) {
  return keeping_errno([&] { return messages::send(fd, data, bytes, flags); });
}

// The kernel's calls for the functions that move one piece of memory.
constexpr auto kSend = [](int fd, const void* data, size_t bytes, int flags) {
  return libc::send(fd, data, bytes, flags);
};
constexpr auto kWrite = [](int fd, const void* data, size_t bytes, int) { return libc::write(fd, data, bytes); };
constexpr auto kReceive = [](int fd, void* data, size_t bytes, int flags) {
  return libc::recv(fd, data, bytes, flags);
};
constexpr auto kRead = [](int fd, void* data, size_t bytes, int) { return libc::read(fd, data, bytes); };

// A send on a socket that may have a lane. It is not inlined, so that calls on other sockets need not save the
// registers that it uses.
template <auto kernel>
[[gnu::noinline]] ssize_t send_by_lane(int fd, const Socket& known, const void* data, size_t bytes, int flags) {
  const auto call = [=] { return kernel(fd, data, bytes, flags); };
  return keeping_errno([&]() -> ssize_t {
    ssize_t result;
    const bool plain = (flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL)) == 0;
    if (plain && known.demand.bypasses()) held_sends::before_other_send();
    if (plain && bypass_library(fd, known, result, call)) return kernel_sent(result);
    const Call socket = may_use_lane(fd);
    const bool nothing_urgent = bytes == 0 && (flags & kKernelSends) != 0;
    if (!socket || nothing_urgent || bytes > SSIZE_MAX) return send_by_kernel(call);
    if ((flags & kKernelSends) != 0) {
      leave_to_send(fd, *socket, flags);
      held_sends::before_other_send();
      const signals::Outside outside;
      return kernel_sent(call());
    }
    const iovec piece = {const_cast<void*>(data), bytes};
    return socket->send(fd, &piece, 1, flags);
  });
}

template <auto kernel>
[[gnu::always_inline]] inline ssize_t send_bytes(int fd, const void* data, size_t bytes, int flags) {
  const auto [kind, known] = classify(fd);
  if (kind == Kind::kForeign) return kernel(fd, data, bytes, flags);
  if (kind == Kind::kDatagram) return send_datagram(fd, data, bytes, flags);
  if (kind == Kind::kMessages) return send_as_message(fd, data, bytes, flags);
  if (kind == Kind::kStream) return send_by_lane<kernel>(fd, *known, data, bytes, flags);
  return send_by_kernel([=] { return kernel(fd, data, bytes, flags); });
}

// A send that connects its socket first (MSG_FASTOPEN with an address): it returns at the latest when the connection is
// there, and may return before.
template <class KernelCall>
ssize_t open_fast(int fd, KernelCall call) {
  return keeping_errno([&] {
    const signals::Outside outside;
    const ssize_t sent = kernel_sent(call());
    connect_called(fd, sent >= 0 ? EINPROGRESS : errno);
    return sent;
  });
}

// Unlike recv, read of nothing does not wait.
enum class OfNothing : bool { kReturns, kWaits };

template <auto kernel, OfNothing of_nothing>
[[gnu::noinline]] ssize_t receive_by_lane(int fd, Socket& known, void* data, size_t bytes, int flags) {
  const auto call = [=] { return kernel(fd, data, bytes, flags); };
  return keeping_errno([&]() -> ssize_t {
    ssize_t result;
    const bool plain = (flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL)) == 0;
    if (plain && bypass_library(fd, known, result, call)) return kernel_received(result);
    if (plain && bytes != 0 && known.finds_nothing(flags)) return failed(EAGAIN);
    const Call socket = may_use_lane(fd);
    const bool returns = of_nothing == OfNothing::kReturns && bytes == 0;
    if (!socket || returns || (flags & kKernelReceives) != 0 || bytes > SSIZE_MAX) return kernel_received(call());
    const iovec piece = {data, bytes};
    return receive(fd, *socket, &piece, 1, flags);
  });
}

template <auto kernel, OfNothing of_nothing>
[[gnu::always_inline]] inline ssize_t receive_bytes(int fd, void* data, size_t bytes, int flags) {
  const auto [kind, known] = classify(fd);
  if (kind == Kind::kForeign) return kernel(fd, data, bytes, flags);
  if (kind == Kind::kDatagram) return receive_datagram(fd, data, bytes, flags);
  if (kind == Kind::kMessages) {
    if (of_nothing == OfNothing::kReturns && bytes == 0) return 0;
    return keeping_errno([&] { return messages::receive(fd, data, bytes, flags); });
  }
  if (kind == Kind::kStream) return receive_by_lane<kernel, of_nothing>(fd, *known, data, bytes, flags);
  return kernel_received(kernel(fd, data, bytes, flags));
}

// writev and readv.
template <bool sends, class KernelCall>
ssize_t move_pieces(int fd, const iovec* pieces, int count, int flags, KernelCall call) {
  const std::size_t n = static_cast<std::size_t>(count);
  const Kind kind = classify(fd).kind;
  const bool valid = count >= 0 && count <= IOV_MAX;
  if (kind == Kind::kForeign) return call();
  if (kind == Kind::kDatagram && valid) {
    return sends ? datagram::send(fd, pieces, n, flags) : datagram::receive(fd, pieces, n, flags);
  }
  if (kind == Kind::kMessages) {
    if (count < 0) return failed(EINVAL);
    return sends ? messages::send(fd, pieces, n, flags) : messages::receive(fd, pieces, n, flags);
  }
  if (kind == Kind::kStream && valid && !refused(pieces, n) && !empty(pieces, n)) {
    if (const Call socket(fd); socket) {
      return sends ? socket->send(fd, pieces, n, flags) : socket->receive(fd, pieces, n, flags);
    }
  }
  return sends ? send_by_kernel(call) : kernel_received(call());
}

// pwritev2 and preadv2: as writev and readv, if there is no offset and the library knows the flags. The kernel has UDP
// sockets from then on.
template <bool sends, class KernelCall>
ssize_t move_pieces_at(int fd, const iovec* pieces, int count, off_t offset, int flags, KernelCall call) {
  const bool known_flags = (flags & ~RWF_NOWAIT) == 0;
  if (messages::carried(fd)) {
    if (offset != -1) return failed(ESPIPE);
    if (!known_flags) return failed(count < 0 ? EINVAL : EOPNOTSUPP);
  }
  datagram::table::give_up(fd, Reason::kSplice);
  if (offset != -1 || !known_flags) return call();
  return move_pieces<sends>(fd, pieces, count, flags == 0 ? 0 : MSG_DONTWAIT, call);
}

}  // namespace

// ------------------------------------------------------------------ sending

ssize_t sovia_send(int fd, const void* data, size_t bytes, int flags) {
  return send_bytes<kSend>(fd, data, bytes, flags);
}

ssize_t sovia_write(int fd, const void* data, size_t bytes) { return send_bytes<kWrite>(fd, data, bytes, 0); }

ssize_t sovia_sendto(int fd, const void* data, size_t bytes, int flags, const sockaddr* address,
                     socklen_t length) {
  if (address == nullptr) return sovia_send(fd, data, bytes, flags);
  const auto call = [=] { return libc::sendto(fd, data, bytes, flags, address, length); };
  const Kind kind = classify(fd).kind;
  if (kind == Kind::kForeign) return call();
  if (kind == Kind::kDatagram) return send_datagram(fd, data, bytes, flags, address, length);
  if (kind == Kind::kMessages) {
    iovec piece{const_cast<void*>(data), bytes};
    const msghdr message{const_cast<sockaddr*>(address), length, &piece, 1, nullptr, 0, 0};
    return keeping_errno([&] { return messages::send(fd, &message, flags); });
  }
  if ((flags & MSG_FASTOPEN) != 0) return open_fast(fd, call);
  // TCP ignores the address after a check that it is readable.
  const bool ignored = kind == Kind::kStream && length <= sizeof(sockaddr_storage) && can_read(address, length);
  return ignored ? sovia_send(fd, data, bytes, flags) : call();
}

ssize_t sovia_sendmsg(int fd, const msghdr* message, int flags) {
  return keeping_errno([&]() -> ssize_t {
    const auto call = [=] { return libc::sendmsg(fd, message, flags); };
    msghdr given;
    const Kind kind = classify(fd).kind;
    if (kind == Kind::kForeign) {
      if (!take(given, message) || given.msg_controllen == 0 || !can_read(given.msg_control, given.msg_controllen)) {
        return call();
      }
      const scm_rights::Outgoing outgoing(given);
      return libc::sendmsg(fd, outgoing.message(), flags);
    }
    if (kind == Kind::kDatagram) return take(given, message) ? datagram::send_message(fd, given, flags) : call();
    if (kind == Kind::kMessages) return messages::send(fd, message, flags);
    if (kind == Kind::kKernel) return send_by_kernel(call);
    const Call socket(fd);
    if (!socket || !take(given, message) || refused_to_send(given)) return send_by_kernel(call);
    if ((flags & MSG_FASTOPEN) != 0 && given.msg_name != nullptr) return open_fast(fd, call);
    const bool plain = (flags & kKernelSends) == 0 && given.msg_controllen == 0;
    if (!plain && empty(given.msg_iov, given.msg_iovlen)) return kernel_sent(call());
    if (!plain) {
      leave_to_send(fd, *socket, flags);
      const signals::Outside outside;
      return kernel_sent(call());
    }
    return socket->send(fd, given.msg_iov, given.msg_iovlen, flags);
  });
}

int sovia_sendmmsg(int fd, mmsghdr* messages, unsigned int count, int flags) {
  return keeping_errno([&]() -> int {
    const Kind kind = classify(fd).kind;
    const Call socket = kind == Kind::kStream ? Call(fd) : Call();  // signals wait for the end of the call
    if (count > kMostMessages) count = kMostMessages;
    if (kind == Kind::kForeign || kind == Kind::kKernel) {
      bool more = false;
      for (unsigned i = 0; i < count; ++i) {
        msghdr message;
        if (!take(message, &messages[i].msg_hdr)) break;
        if (message.msg_controllen == 0) continue;
        if (!can_read(message.msg_control, message.msg_controllen)) break;
        more = scm_rights::Outgoing(message).has_more() || more;
      }
      if (!more) return libc::sendmmsg(fd, messages, count, flags);
    }
    unsigned done = 0;
    for (; done < count; ++done) {
      const ssize_t sent = sovia_sendmsg(fd, &messages[done].msg_hdr, flags);
      if (sent < 0) break;
      if (!put(&messages[done].msg_len, static_cast<unsigned>(sent))) {
        errno = EFAULT;
        break;
      }
    }
    return done == 0 && count != 0 ? -1 : static_cast<int>(done);
  });
}

ssize_t sovia_writev(int fd, const iovec* pieces, int count) {
  return keeping_errno([&] {
    return move_pieces<true>(fd, pieces, count, 0, [=] { return libc::writev(fd, pieces, count); });
  });
}

ssize_t sovia_pwritev2(int fd, const iovec* pieces, int count, off_t offset, int flags) {
  return keeping_errno([&] {
    return move_pieces_at<true>(fd, pieces, count, offset, flags,
                                   [=] { return SOVIA_LATE(pwritev2)(fd, pieces, count, offset, flags); });
  });
}

// ------------------------------------------------------------------ receiving

ssize_t sovia_recv(int fd, void* data, size_t bytes, int flags) {
  return receive_bytes<kReceive, OfNothing::kWaits>(fd, data, bytes, flags);
}

ssize_t sovia_read(int fd, void* data, size_t bytes) {
  return receive_bytes<kRead, OfNothing::kReturns>(fd, data, bytes, 0);
}

ssize_t sovia_recvfrom(int fd, void* data, size_t bytes, int flags, sockaddr* address,
                       socklen_t* length) {
  if (address == nullptr) return sovia_recv(fd, data, bytes, flags);
  return keeping_errno([&]() -> ssize_t {
    const auto call = [=] { return libc::recvfrom(fd, data, bytes, flags, address, length); };
    const Kind kind = classify(fd).kind;
    if (kind == Kind::kForeign || kind == Kind::kKernel) return call();
    if (kind == Kind::kDatagram) return receive_datagram(fd, data, bytes, flags, address, length);
    if (kind == Kind::kMessages) {
      const ssize_t received = messages::receive(fd, data, bytes, flags);
      return received < 0 || put(length, socklen_t{0}) ? received : failed(EFAULT);
    }
    const Call socket(fd);
    if (!socket || (flags & kKernelReceives) != 0 || bytes > SSIZE_MAX) return call();
    const iovec piece = {data, bytes};
    const ssize_t received = receive(fd, *socket, &piece, 1, flags);
    if (received < 0) return received;
    // As in the kernel the data is received whatever the length is. TCP returns no address.
    socklen_t room;
    if (!take(room, length)) return failed(EFAULT);
    if (static_cast<int>(room) < 0) return failed(EINVAL);
    return put(length, socklen_t{0}) ? received : failed(EFAULT);
  });
}

ssize_t sovia_recvmsg(int fd, msghdr* message, int flags) {
  return keeping_errno([&]() -> ssize_t {
    const auto call = [=] { return libc::recvmsg(fd, message, flags); };
    msghdr given;
    const Kind kind = classify(fd).kind;
    if (kind == Kind::kForeign) {
      const ssize_t received = call();
      if (received >= 0 && message->msg_controllen != 0) scm_rights::after_receive(*message);
      return received;
    }
    if (kind == Kind::kDatagram) {
      if (!take(given, message)) return call();
      const ssize_t got = datagram::receive_message(fd, given, flags);
      return got < 0 || put(message, given) ? got : failed(EFAULT);
    }
    if (kind == Kind::kMessages) return messages::receive(fd, message, flags);
    if (kind == Kind::kKernel) return kernel_received(call());
    const Call socket(fd);
    if (!socket || !take(given, message) || (flags & kKernelReceives) != 0 ||
        refused(given.msg_iov, given.msg_iovlen)) {
      return kernel_received(call());
    }
    if (given.msg_controllen != 0 && socket->receives_in_kernel()) {
      const signals::Outside outside;
      return kernel_received(call());
    }
    const ssize_t received = receive(fd, *socket, given.msg_iov, given.msg_iovlen, flags);
    if (received < 0) return received;
    // As with TCP there is no address. Control data is made here for bytes that came over the lane, before the
    // connection left that for an option.
    if (given.msg_name != nullptr) given.msg_namelen = 0;
    given.msg_flags = flags & MSG_CMSG_CLOEXEC;
    given.msg_controllen = add_control(fd, *socket, given);
    return put(message, given) ? received : failed(EFAULT);
  });
}

int sovia_recvmmsg(int fd, mmsghdr* messages, unsigned int count, int flags, timespec* timeout) {
  return keeping_errno([&]() -> int {
    const Kind kind = classify(fd).kind;
    const Call socket = kind == Kind::kStream ? Call(fd) : Call();  // as in sendmmsg
    timespec limit{};
    if (kind == Kind::kForeign || kind == Kind::kKernel || (flags & kKernelReceives) != 0 || count == 0 ||
        (timeout != nullptr && !(take(limit, timeout) && is_valid(limit)))) {
      const int received = libc::recvmmsg(fd, messages, count, flags, timeout);
      for (int i = 0; i < received; ++i) {
        if (messages[i].msg_hdr.msg_controllen != 0) scm_rights::after_receive(messages[i].msg_hdr);
      }
      return received;
    }
    // As in the kernel, the time limit is checked only after each message.
    const std::uint64_t deadline = deadline_in(timeout != nullptr ? &limit : nullptr);
    int one_flags = flags & ~MSG_WAITFORONE;
    unsigned done = 0;
    while (done < count) {
      const ssize_t received = sovia_recvmsg(fd, &messages[done].msg_hdr, one_flags);
      if (received < 0) break;
      if (!put(&messages[done].msg_len, static_cast<unsigned>(received))) {
        errno = EFAULT;
        break;
      }
      ++done;
      if ((flags & MSG_WAITFORONE) != 0) one_flags |= MSG_DONTWAIT;
      if (timeout != nullptr && now_ns() >= deadline) break;
    }
    if (done == 0) return -1;
    if (timeout != nullptr) {
      limit = until(deadline);
      if (!put(timeout, limit)) return failed(EFAULT);
    }
    return static_cast<int>(done);
  });
}

ssize_t sovia_readv(int fd, const iovec* pieces, int count) {
  return keeping_errno([&] {
    return move_pieces<false>(fd, pieces, count, 0, [=] { return libc::readv(fd, pieces, count); });
  });
}

ssize_t sovia_preadv2(int fd, const iovec* pieces, int count, off_t offset, int flags) {
  return keeping_errno([&] {
    return move_pieces_at<false>(fd, pieces, count, offset, flags,
                                  [=] { return SOVIA_LATE(preadv2)(fd, pieces, count, offset, flags); });
  });
}
