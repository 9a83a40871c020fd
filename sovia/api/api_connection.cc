// Sockets as such: socket, connect, accept, shutdown.
#include "config.h"

#include <netinet/in.h>

#include "sovia/api/api.h"
#include "sovia/datagram/datagram_calls.h"
#include "sovia/process/guarded_copy.h"
#include "sovia/process/options.h"
#include "sovia/socket/lane_life.h"

using namespace viaduct::sovia;

namespace {

void on_created(int fd, int flags, bool accepted, bool messages) {
  table::opened(fd);
  const KeepErrno keep;
  const SocketRef adopted = messages || options().messages != 0 ? table::adopt(fd) : SocketRef();
  if (adopted) adopted->modes.carry_messages();
  if (Socket* const socket = table::peek(fd)) socket->modes.on_created((flags & SOCK_NONBLOCK) != 0, accepted);
}

int accepted(int listener, int fd, int flags) {
  if (fd < 0) return fd;
  const signals::Inside inside;
  if (!table::is_tcp(listener)) {
    table::opened_foreign(fd);
    return fd;
  }
  const Socket* const from = table::peek(listener);
  on_created(fd, flags, true, from != nullptr && from->modes.carries_messages());
  if (const Call socket = may_use_lane(fd)) connection_made(*socket, fd, Role::kAccepted);
  counters::add(Counter::kConnections);
  return fd;
}

}  // namespace

int sovia_socket(int domain, int type, int protocol) {
  libc::prepare();
  const int flags = type & (SOCK_CLOEXEC | SOCK_NONBLOCK);
  const bool internet = domain == AF_INET || domain == AF_INET6;
  // SOCK_SEQPACKET over TCP, which the kernel does not have: such sockets carry messages.
  const bool messages = internet && (type ^ flags) == SOCK_SEQPACKET && protocol == IPPROTO_TCP;
  if (messages) type = SOCK_STREAM | flags;
  const int fd = libc::socket(domain, type, protocol);
  if (fd < 0) return fd;
  const signals::Inside inside;
  if (internet && (type ^ flags) == SOCK_STREAM && (protocol == 0 || protocol == IPPROTO_TCP)) {
    on_created(fd, flags, false, messages);
  } else {
    table::opened_foreign(fd);
  }
  if (domain == AF_INET && (type ^ flags) == SOCK_DGRAM && (protocol == 0 || protocol == IPPROTO_UDP)) {
    datagram::table::opened(fd, (flags & SOCK_NONBLOCK) != 0);
  } else {
    datagram::table::closing(fd);  // the old one was closed without the library
  }
  return fd;
}

int sovia_socketpair(int domain, int type, int protocol, int descriptors[2]) {
  const int result = SOVIA_LATE(socketpair)(domain, type, protocol, descriptors);
  if (result != 0) return result;
  const signals::Inside inside;
  table::opened_foreign(descriptors[0]);
  table::opened_foreign(descriptors[1]);
  return result;
}

int sovia_bind(int fd, const sockaddr* address, socklen_t length) {
  libc::prepare();
  return libc::bind(fd, address, length);
}

int sovia_listen(int fd, int backlog) {
  libc::prepare();
  const int result = libc::listen(fd, backlog);
  if (const Call socket(fd); result == 0 && socket) listens(*socket);
  return result;
}

int sovia_accept(int fd, sockaddr* address, socklen_t* length) {
  return keeping_errno([&]() -> int {
    libc::prepare();
    return accepted(fd, libc::accept(fd, address, length), 0);
  });
}

int sovia_accept4(int fd, sockaddr* address, socklen_t* length, int flags) {
  return keeping_errno([&]() -> int {
    libc::prepare();
    return accepted(fd, libc::accept4(fd, address, length, flags), flags);
  });
}

// A connection that a signal interrupts goes on in the kernel, and one with TCP_FASTOPEN_CONNECT begins with its first data.
void viaduct::sovia::connect_called(int fd, int error) {
  if (error != 0 && error != EINPROGRESS && error != EINTR) return;
  const KeepErrno keep;
  counters::add(Counter::kConnections);
  const Call socket = may_use_lane(fd);
  if (!socket) return;
  if (error == 0 && !socket->demand.is_connecting()) {
    connection_made(*socket, fd, Role::kCaller);
  } else {
    socket->demand.set_connecting();
  }
}

int sovia_connect(int fd, const sockaddr* address, socklen_t length) {
  return keeping_errno([&]() -> int {
    if (table::peek(fd) == nullptr) {
      const int result = libc::connect(fd, address, length);
      if (result == 0 && datagram::table::knows(fd)) datagram::connected(fd, address, length);
      return result;
    }
    // AF_UNSPEC ends the connection, and the socket may then get another.
    sa_family_t family = AF_INET;
    const bool ends = length >= sizeof family && copy_guarded(&family, address, sizeof family) &&
                      family == AF_UNSPEC;
    if (ends) leave_for_good(fd, Reason::kEnd);
    const int result = libc::connect(fd, address, length);
    if (!ends) connect_called(fd, result == 0 ? 0 : errno);
    return result;
  });
}

int sovia_shutdown(int fd, int how) {
  return keeping_errno([&]() -> int {
    if (const Socket* const known = table::peek(fd); known != nullptr && known->modes.carries_messages()) {
      const Call socket(fd);
      if (socket) return socket->shutdown(fd, how);
    }
    datagram::table::give_up(fd, Reason::kOption);
    const Call socket = may_use_lane(fd);
    return socket ? socket->shutdown(fd, how) : libc::shutdown(fd, how);
  });
}

int sovia_getsockname(int fd, sockaddr* address, socklen_t* length) {
  libc::prepare();
  return libc::getsockname(fd, address, length);
}

int sovia_getpeername(int fd, sockaddr* address, socklen_t* length) {
  libc::prepare();
  return libc::getpeername(fd, address, length);
}

const char* sovia_version(void) { return PACKAGE_VERSION; }

int sovia_route(int fd) {
  if (const Call socket(fd); socket) return is_on_lane(*socket) ? 0 : 1;
  if (table::is_tcp(fd)) return 1;
  libc::prepare();
  return failed(libc::fcntl(fd, F_GETFD) < 0 ? EBADF : ENOTSOCK);
}
