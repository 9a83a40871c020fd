#include "xdp/interface_lock.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>

#include "xdp/port_error.h"

namespace viaduct {
namespace {

constexpr unsigned kPauseUs = 25'000;
// Whoever is refused stays in the holder's queue, which nobody serves: room for many.
constexpr int kBacklog = 4096;

socklen_t name_of(int ifindex, sockaddr_un& out) {
  out = {};
  out.sun_family = AF_UNIX;
  const int n = std::snprintf(out.sun_path + 1, sizeof out.sun_path - 1, "viaduct/interface/%d",
                              ifindex);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<unsigned>(n));
}

std::string holder(const sockaddr_un& name, socklen_t length) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return "another agent";
  std::string text = "another agent";
  ucred who{};
  socklen_t bytes = sizeof who;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&name), length) == 0 &&
      getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0) {
    text = "another agent, process " + std::to_string(who.pid);
  }
  close(fd);
  return text;
}

}  // namespace

InterfaceLock::InterfaceLock(int ifindex, const char* interface, unsigned wait_ms) {
  fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd_ < 0) throw PortError(std::string(interface) + ": socket: " + std::strerror(errno));
  sockaddr_un name;
  const socklen_t length = name_of(ifindex, name);
  for (unsigned left = wait_ms * 1000 / kPauseUs;; --left) {
    if (bind(fd_, reinterpret_cast<const sockaddr*>(&name), length) == 0 && listen(fd_, kBacklog) == 0) {
      return;
    }
    const int error = errno;
    if (error == EADDRINUSE && left > 0) {
      usleep(kPauseUs);
      continue;
    }
    close(fd_);
    if (error != EADDRINUSE) {
      throw PortError(std::string(interface) + ": can't lock: " + std::strerror(error));
    }
    throw PortError(std::string(interface) + " is in use by " + holder(name, length) +
                    "; one agent serves an interface");
  }
}

InterfaceLock::~InterfaceLock() { close(fd_); }

}  // namespace viaduct
