// Options of sockets, and fcntl and ioctl on sockets. Most options are left to the kernel, which has the connection.
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>

#include "sovia/api/api.h"
#include "sovia/api/api_messages.h"
#include "sovia/datagram/datagram_calls.h"
#include "sovia/poll/epoll_set.h"
#include "sovia/process/guarded_copy.h"
#include "sovia/process/own_descriptors.h"
#include "sovia/socket/lane_life.h"
#include "sovia/socket/waiting_call.h"

using namespace viaduct::sovia;

namespace {

// Options that change the data of a connection or the way in which it is handed over, so that only the kernel can serve
// it. Numbers that the C library's headers may lack are those of the kernel's.
bool only_the_kernel(int level, int name, const void* value, socklen_t length) {
  const bool given = length >= sizeof(int) && value != nullptr;
  const int number = given ? *static_cast<const int*>(value) : 1;
  constexpr int kTcpInq = 36, kTcpTxDelay = 37, kTcpAoAddKey = 38;
  constexpr int kTimestampNew = 63, kTimestampNsNew = 64, kTimestampingNew = 65;
  if (level == IPPROTO_TCP) {
    switch (name) {
      case TCP_ULP:
      case TCP_REPAIR:
      case TCP_MD5SIG:
      case TCP_MD5SIG_EXT:
      case kTcpAoAddKey:
        return true;
      case kTcpInq:
      case kTcpTxDelay:
        return number != 0;
      default:
        return false;
    }
  }
  if (level != SOL_SOCKET) return false;
  switch (name) {
    case SO_ATTACH_FILTER:
    case SO_ATTACH_BPF:
    case SO_PEEK_OFF:
      return true;
    case SO_TIMESTAMP:
    case SO_TIMESTAMPNS:
    case SO_TIMESTAMPING:
    case kTimestampNew:
    case kTimestampNsNew:
    case kTimestampingNew:
    case SO_ZEROCOPY:
      return number != 0;
    case SO_RCVLOWAT:
      return number > 1;
    default:
      return false;
  }
}

// The control data that an option asks for.
unsigned control_of(int level, int name) {
  constexpr int kTcpInq = 36, kTimestampNew = 63, kTimestampNsNew = 64;
  if (level == IPPROTO_TCP) return name == kTcpInq ? kControlUnread : 0;
  if (level != SOL_SOCKET) return 0;
  if (name == SO_TIMESTAMP || name == kTimestampNew) return kControlTime;
  return name == SO_TIMESTAMPNS || name == kTimestampNsNew ? kControlTimeNs : 0;
}

bool changes_pushing(int level, int name) {
  return level == IPPROTO_TCP && (name == TCP_NODELAY || name == TCP_CORK);
}

// Options that the library follows itself.
bool changes_mode(int level, int name) {
  constexpr int kReceiveTimeoutNew = 66, kSendTimeoutNew = 67;
  if (changes_pushing(level, name)) return true;
  if (level != SOL_SOCKET) return false;
  return name == SO_RCVTIMEO || name == SO_SNDTIMEO || name == kReceiveTimeoutNew ||
         name == kSendTimeoutNew || name == SO_LINGER || name == SO_OOBINLINE ||
         name == SO_SNDBUF || name == SO_RCVBUF;
}

// The kernel applies these options at once; calls that wait in the library have to learn of them here.
void follow(int fd, Socket& socket, int name, const void* value) {
  constexpr int kReceiveTimeoutNew = 66, kSendTimeoutNew = 67;
  const bool receiving = name == SO_RCVTIMEO || name == kReceiveTimeoutNew;
  if (receiving || name == SO_SNDTIMEO || name == kSendTimeoutNew) {
    // For the kernel a negative time means not to wait at all, but getsockopt() returns it like no limit, so it is kept
    // here.
    timeval time{};
    socket.modes.set_waits_not(receiving, copy_guarded(&time, value, sizeof time) && time.tv_sec < 0);
  }
  if (name == SO_SNDBUF || name == SO_SNDBUFFORCE) room_changed(socket, fd);
}

int set_flags(int fd, long flags) {
  const Call socket(fd);
  // The socket leaves its lane, as the kernel sends SIGIO only for data that comes to the kernel.
  if (socket && (flags & O_ASYNC) != 0) socket->leave_for_good(fd, Reason::kOption);
  const int result = libc::fcntl(fd, F_SETFL, flags);
  if (socket && result == 0) socket->modes.mode_changed();
  return result;
}

// Adds the lane's unread bytes to the int that FIONREAD and the like fill in.
int add_unread(int fd, const Socket& known, int result, void* argument) {
  if (known.demand.bypasses()) return result;
  const Call socket = may_use_lane(fd);
  int* const bytes = static_cast<int*>(argument);
  if (socket && result == 0 && !socket->kernel_knows_all()) *bytes = socket->unread(fd);
  return result;
}

int add_unsent(int fd, int result, void* argument) {
  const Call socket = may_use_lane(fd);
  int* const bytes = static_cast<int*>(argument);
  if (socket && result == 0) *bytes = socket->unsent(*bytes);
  return result;
}

// Follows an ioctl() on a UDP socket that may have lanes.
void after_ioctl(int fd, unsigned request, void* argument) {
  switch (request) {
    case FIONREAD:
      return datagram::add_unread(fd, static_cast<int*>(argument));
    case FIONBIO:
    case FIOASYNC:
      return datagram::mode_changed(fd);
    case SIOCOUTQ:
      return;
    default:
      return datagram::table::give_up(fd, Reason::kOption);
  }
}

}  // namespace

namespace {

// Options of the library's own.
int get_own(int fd, int name, void* value, socklen_t* length) {
  const Call socket(fd);
  if (name != SOVIA_MESSAGES) return failed(ENOPROTOOPT);
  const int on = socket && socket->modes.carries_messages() ? 1 : 0;
  socklen_t room = 0;
  if (!copy_guarded(&room, length, sizeof room)) return failed(EFAULT);
  if (room > sizeof on) room = sizeof on;
  return copy_guarded(value, &on, room) && copy_guarded(length, &room, sizeof room) ? 0 : failed(EFAULT);
}

int set_own(int fd, int name, const void* value, socklen_t length) {
  int on = 0;
  if (name != SOVIA_MESSAGES) return failed(ENOPROTOOPT);
  if (length < sizeof on) return failed(EINVAL);
  if (!copy_guarded(&on, value, sizeof on)) return failed(EFAULT);
  const signals::Inside inside;
  const SocketRef socket = table::adopt(fd);
  if (!socket) return failed(ENOMEM);
  MessageSocket* const messages = MessageSocket::of(*socket);
  if (messages == nullptr || messages->turn(fd, on != 0) != 0) return -1;
  // Epoll sets take over the socket's registrations, as the kernel does not see data that the library reads ahead.
  if (on != 0 && socket->kernel_alone()) epoll_sets::adopt_registrations();
  return 0;
}

}  // namespace

int sovia_getsockopt(int fd, int level, int name, void* value, socklen_t* length) {
  return keeping_errno([&]() -> int {
    libc::prepare();
    if (level == SOL_SOVIA && table::is_tcp(fd)) return get_own(fd, name, value, length);
    if (level == IPPROTO_TCP && name == TCP_ZEROCOPY_RECEIVE) {
      leave_for_good(fd, Reason::kOption);
    }
    const int result = libc::getsockopt(fd, level, name, value, length);
    if (level != SOL_SOCKET || name != SO_ERROR || result != 0 || *length != sizeof(int)) return result;
    if (const Call socket(fd); socket) {
      auto* const error = static_cast<int*>(value);
      *error = socket->reset.tell(*error);
    }
    return result;
  });
}

int sovia_setsockopt(int fd, int level, int name, const void* value, socklen_t length) {
  return keeping_errno([&]() -> int {
    if (level == SOL_SOVIA && table::is_tcp(fd)) return set_own(fd, name, value, length);
    const Socket* const known = table::peek(fd);
    if (known == nullptr) {
      libc::prepare();
      if (datagram::table::knows(fd)) datagram::sets_option(fd, level, name);
      return libc::setsockopt(fd, level, name, value, length);
    }
    const Call socket(fd);
    if (socket && can_read(value, length) && only_the_kernel(level, name, value, length)) {
      if (socket->may_use_lane()) socket->leave_for_good(fd, Reason::kOption);
      forbid(*socket, Reason::kOption);
    }
    const int result = socket && changes_pushing(level, name)
                           ? socket->set_pushing(fd, name, value, length)
                           : libc::setsockopt(fd, level, name, value, length);
    if (!socket || result != 0) return result;
    const KeepErrno keep;
    if (const unsigned control = control_of(level, name); control != 0) {
      int on = 0;
      if (length >= sizeof on && copy_guarded(&on, value, sizeof on)) socket->modes.want_control(control, on != 0);
    }
    if (changes_mode(level, name)) socket->modes.mode_changed();
    if (level == SOL_SOCKET) follow(fd, *socket, name, value);
    if (level == IPPROTO_TCP && name == TCP_FASTOPEN_CONNECT) socket->demand.set_connecting();
    return result;
  });
}

int sovia_sockatmark(int fd) {
  int mark = 0;
  return sovia_ioctl(fd, SIOCATMARK, &mark) < 0 ? -1 : mark;
}

int sovia_fcntl(int fd, int command, ...) {
  // Whatever the third argument is, it fits in a pointer and is passed on as one.
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  libc::prepare();
  switch (command) {
    case F_DUPFD:
    case F_DUPFD_CLOEXEC:
      return copied(fd, libc::fcntl(fd, command, argument));
    case F_SETFL:
      if (table::peek(fd) != nullptr) return set_flags(fd, reinterpret_cast<long>(argument));
      if (datagram::table::knows(fd)) {
        const int result = libc::fcntl(fd, command, argument);
        datagram::mode_changed(fd);
        return result;
      }
      break;
    default:
      break;
  }
  return libc::fcntl(fd, command, argument);
}

int sovia_ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  const Socket* const known = table::peek(fd);
  if (known == nullptr) {
    libc::prepare();
    const int result = libc::ioctl(fd, request, argument);
    if (datagram::table::knows(fd) && result == 0) after_ioctl(fd, static_cast<unsigned>(request), argument);
    return result;
  }
  switch (static_cast<unsigned>(request)) {
    case FIONREAD:
      if (known->modes.carries_messages()) {
        const Call socket(fd);
        const int bytes = socket ? keeping_errno([&] { return messages::next_length(*socket, fd); }) : 0;
        return copy_guarded(argument, &bytes, sizeof bytes) ? 0 : failed(EFAULT);
      }
      return keeping_errno([&] { return add_unread(fd, *known, libc::ioctl(fd, request, argument), argument); });
    case SIOCOUTQ:
      return keeping_errno([&] { return add_unsent(fd, libc::ioctl(fd, request, argument), argument); });
    case SIOCATMARK: {
      const int result = libc::ioctl(fd, request, argument);
      const Call socket = may_use_lane(fd);
      if (result == 0 && socket && socket->lane_has_data()) *static_cast<int*>(argument) = 0;
      return result;
    }
    case FIOASYNC: {
      int on = 0;
      if (copy_guarded(&on, argument, sizeof on) && on != 0) leave_for_good(fd, Reason::kOption);
      break;
    }
    case FIONBIO: {
      const int result = libc::ioctl(fd, request, argument);
      const Call socket(fd);
      if (result == 0 && socket) socket->modes.mode_changed();
      return result;
    }
    default:
      break;
  }
  return libc::ioctl(fd, request, argument);
}
