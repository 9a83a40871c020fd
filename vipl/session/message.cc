#include "vipl/session/message.h"

#include <cstring>

#include "vipl/process/sys.h"

namespace viaduct::vipl {
namespace {

constexpr unsigned kMostDescriptors = 8;  // of one message

}  // namespace

long receive_message(int socket, void* data, std::size_t bytes, int* fds, unsigned& count,
                     int flags) {
  iovec piece = {data, bytes};
  alignas(cmsghdr) char room[CMSG_SPACE(kMostDescriptors * sizeof(int))];
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;
  const unsigned most = count;
  count = 0;
  const long received = sys::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags);
  if (received < 0) return received;
  bool whole = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t here = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < here; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
      if (count < most) {
        fds[count++] = fd;
      } else {
        sys::close(fd);
        whole = false;
      }
    }
  }
  if (whole) return received;
  for (unsigned i = 0; i < count; ++i) sys::close(fds[i]), fds[i] = -1;
  count = 0;
  errno = EBADMSG;
  return -1;
}

bool send_message(int socket, const void* data, std::size_t bytes, const int* fds, unsigned count,
                  int flags) {
  iovec piece = {const_cast<void*>(data), bytes};
  alignas(cmsghdr) char room[CMSG_SPACE(kMostDescriptors * sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (count != 0) {
    message.msg_control = room;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(rights), fds, count * sizeof(int));
  }
  return sys::sendmsg(socket, &message, MSG_NOSIGNAL | flags) == static_cast<long>(bytes);
}

}  // namespace viaduct::vipl
