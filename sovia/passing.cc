#include "sovia/passing.h"

#include <cstring>

#include "sovia/api.h"

namespace viaduct::sovia::passing {
namespace {

template <class F>
void for_each_descriptor(const msghdr& message, F&& visit) {
  // The macros want no const, and change nothing.
  msghdr* const whole = const_cast<msghdr*>(&message);
  for (cmsghdr* part = CMSG_FIRSTHDR(whole); part != nullptr; part = CMSG_NXTHDR(whole, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    if (part->cmsg_len < CMSG_LEN(0)) break;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      visit(fd);
    }
  }
}

}  // namespace

void before_send(const msghdr& message) {
  const KeepErrno keep;
  for_each_descriptor(message, [](int fd) {
    const SocketRef socket = table::find(fd);
    if (socket) socket->leave_for_good(fd, Reason::kPassed);
  });
}

void after_receive(msghdr& message) {
  const KeepErrno keep;
  for_each_descriptor(message, [](int fd) { table::opened(fd, table::Origin::kReceived); });
}

}  // namespace viaduct::sovia::passing
