#include "kagent/control_socket.h"

#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include "kagent/control.h"

namespace viaduct {

std::string text_of(const ucred& peer) {
  return "process " + std::to_string(peer.pid) + " of user " + std::to_string(peer.uid);
}

std::vector<gid_t> groups_of(int socket, const ucred& peer) {
  std::vector<gid_t> groups(64);
  for (;;) {
    auto bytes = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
    const int result = getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &bytes);
    groups.resize(result == 0 || errno == ERANGE ? bytes / sizeof(gid_t) : 0);
    if (result == 0 || errno != ERANGE || groups.size() > 65536) break;
  }
  groups.push_back(peer.gid);
  return groups;
}

bool send_message(int socket, const void* data, std::size_t bytes, std::span<const int> fds) {
  iovec piece{const_cast<void*>(data), bytes};
  alignas(cmsghdr) char room[CMSG_SPACE(control::kGrantedDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = room;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(bytes);
}

void swallow_rest(int socket) {
  std::byte room[64];
  for (int i = 0; i < 16 && recv(socket, room, sizeof room, MSG_DONTWAIT) > 0; ++i) continue;
}

}  // namespace viaduct
