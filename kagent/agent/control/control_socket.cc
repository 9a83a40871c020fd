#include "kagent/agent/control/control_socket.h"

#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <system_error>

#include "kagent/contract/control.h"

namespace viaduct {
namespace {

constexpr int kMostMessages = 32;            // more than a queue takes
constexpr std::uint32_t kClosingPart = ~0u;  // no program's number: closing does not wait for copies

// Reads what has come to a socket that has been shut down, up to a message with descriptors. False if there is one.
// Credentials are asked for, as an empty message could not be told from the end without them.
bool read_harmless(int socket) {
  const int on = 1;
  if (setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) return false;
  for (int i = 0; i < kMostMessages; ++i) {
    std::byte anything[64];
    iovec piece{anything, sizeof anything};
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof(ucred))];
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = room;
    message.msg_controllen = sizeof room;
    if (recvmsg(socket, &message, MSG_DONTWAIT | MSG_PEEK) < 0) return errno != EINTR;
    // There is room for credentials only, so descriptors are cut off.
    if ((message.msg_flags & MSG_CTRUNC) != 0) return false;
    if (CMSG_FIRSTHDR(&message) == nullptr) return true;
    if (recv(socket, anything, sizeof anything, MSG_DONTWAIT) < 0) return false;
  }
  return false;
}

}  // namespace

std::string shown(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c < ' ' || c == 0x7f) c = '?';
  }
  return out;
}

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
  alignas(cmsghdr) char room[CMSG_SPACE(control::kMostDescriptors * sizeof(int))] = {};
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

ssize_t ControlSocket::look(void* room, std::size_t bytes, bool& rights) const {
  iovec piece{room, bytes};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  const ssize_t result = recvmsg(get(), &message, MSG_DONTWAIT | MSG_TRUNC | MSG_PEEK);
  // There is no room for control data, and only descriptors would come as such.
  rights = result >= 0 && (message.msg_flags & MSG_CTRUNC) != 0;
  return result;
}

// Messages that are still there when a socket is closed make the peer's next call fail, before it could read our
// answer. So they are read first.
void ControlSocket::close() {
  if (!socket_) return;
  shutdown(get(), SHUT_RDWR);
  if (read_harmless(get())) return socket_.close();
  close_in_thread(*threads_, account_, std::move(socket_), true);
}

void close_in_thread(UserThreads& threads, uid_t account, Descriptor file, bool drain) {
  UserThreads::Piece piece;
  piece.work = [drain](const UserThreads::Files& files) {
    std::byte room[64];
    for (const Descriptor& each : files) {
      for (int i = 0; drain && i < kMostMessages; ++i) recv(each.get(), room, sizeof room, MSG_DONTWAIT);
    }
    return UserThreads::Files();
  };
  piece.files.push_back(std::move(file));
  try {
    threads.give({account, kClosingPart}, std::move(piece));
  } catch (const std::exception&) {
    return;
  }
}

PollWakeEnds make_poll_wake() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    throw std::system_error(errno, std::generic_category(), "socketpair");
  }
  PollWakeEnds out{Descriptor(ends[0]), Descriptor(ends[1])};
  // Else a program could send descriptors to our end, and closing it would close them.
  if (shutdown(out.ours.get(), SHUT_RD) != 0) {
    throw std::system_error(errno, std::generic_category(), "shutdown");
  }
  return out;
}

}  // namespace viaduct
