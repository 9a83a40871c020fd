#include "sovia/program/scm_rights.h"

#include <sys/stat.h>

#include <cstring>

#include "sovia/datagram/datagram_table.h"
#include "sovia/poll/epoll_set.h"
#include "sovia/process/counters.h"
#include "sovia/process/libc.h"
#include "sovia/process/signals.h"
#include "sovia/socket/fork_handoff.h"
#include "sovia/socket/inherited_bytes.h"
#include "sovia/socket/socket.h"
#include "sovia/socket/table.h"
#include "sovia/sovia.h"

namespace viaduct::sovia::scm_rights {
namespace {

template <class F>
void for_each_descriptor(const msghdr& message, F&& visit) {
  // The CMSG macros take no const pointer, although they change nothing.
  msghdr* const whole = const_cast<msghdr*>(&message);
  for (cmsghdr* part = CMSG_FIRSTHDR(whole); part != nullptr; part = CMSG_NXTHDR(whole, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const auto before = static_cast<std::size_t>(reinterpret_cast<std::byte*>(part) -
                                                 static_cast<std::byte*>(whole->msg_control));
    if (part->cmsg_len < CMSG_LEN(0) || part->cmsg_len > whole->msg_controllen - before) break;  // EINVAL
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      visit(fd);
    }
  }
}

// Removes the last descriptor of the list, which is the library's.
void take_out(msghdr& message, int fd) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    std::vector<int> fds(count);
    std::memcpy(fds.data(), CMSG_DATA(part), count * sizeof(int));
    if (std::erase(fds, fd) == 0) continue;
    const bool is_last = CMSG_NXTHDR(&message, part) == nullptr;
    std::memcpy(CMSG_DATA(part), fds.data(), fds.size() * sizeof(int));
    const std::size_t space = CMSG_SPACE(fds.size() * sizeof(int));
    part->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    if (!is_last) return;
    const auto before = static_cast<std::size_t>(reinterpret_cast<std::byte*>(part) -
                                                 static_cast<std::byte*>(message.msg_control));
    if (before + space < message.msg_controllen) message.msg_controllen = before + space;
    return;
  }
}

// Takes the unread bytes of one of the sockets from a file.
void take(int file, const std::vector<int>& sockets) {
  std::uint64_t inode;
  InheritedBytes* const inherited_bytes = passed_inherited_bytes(file, inode);
  std::vector<int> fds;
  for (const int fd : sockets) {
    struct stat about;
    if (fstat(fd, &about) == 0 && about.st_ino == inode) fds.push_back(fd);
  }
  const SocketRef socket = fds.empty() ? SocketRef() : table::left_unread(fds.data(), fds.size());
  if (socket && inherited_bytes != nullptr) {
    inherit(*socket, inherited_bytes, Reason::kPassed);
  } else if (inherited_bytes != nullptr) {
    free_inherited_bytes(inherited_bytes);
  } else if (socket) {
    inherit_loss(*socket, fds[0]);
  }
}

}  // namespace

Outgoing::Outgoing(const msghdr& message) : message_(message) {
  const KeepErrno keep;
  std::vector<int> files;
  for_each_descriptor(message, [&](int fd) {
    datagram::table::give_up(fd, Reason::kPassed);
    if (const EpollSetRef set = epoll_sets::find(fd)) set->pass();
    const SocketRef socket = table::find(fd);
    if (!socket) return;
    socket->leave_for_good(fd, Reason::kPassed);
    share(*socket, fd);  // the receiver may have it when this process has closed
    const int file = export_unread(*socket, fd);
    if (file >= 0) files.push_back(file);
  });
  if (files.empty()) return;
  // The kernel joins all descriptors of a message to one list for the receiver.
  const std::size_t before = CMSG_ALIGN(message.msg_controllen);
  const std::size_t bytes = files.size() * sizeof files[0];
  control_.resize(before + CMSG_SPACE(bytes));
  std::memcpy(control_.data(), message.msg_control, message.msg_controllen);
  auto* const part = reinterpret_cast<cmsghdr*>(control_.data() + before);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(bytes);
  std::memcpy(CMSG_DATA(part), files.data(), bytes);
  message_.msg_control = control_.data();
  message_.msg_controllen = control_.size();
}

void after_receive(msghdr& message) {
  const KeepErrno keep;
  std::vector<int> sockets, files;
  for_each_descriptor(message, [&](int fd) {
    table::opened(fd, table::Origin::kReceived);
    (table::is_tcp(fd) ? sockets : files).push_back(fd);
  });
  for (const int file : files) epoll_sets::received(file);
  if (sockets.empty()) return;
  for (const int file : files) {
    if (!is_inherited_bytes(file)) continue;
    take(file, sockets);
    take_out(message, file);
    libc::close(file);
  }
}

}  // namespace viaduct::sovia::scm_rights
