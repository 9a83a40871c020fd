#include "kagent/agent/ask_agent.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "kagent/agent/listen_socket.h"

namespace viaduct {
namespace {

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }

}  // namespace

Descriptor ask_agent(const std::string& socket_name, const void* request, std::size_t bytes) {
  Descriptor fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const timeval patience{5, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  const SocketAddress address(socket_name);
  if (connect(fd.get(), address.get(), address.bytes) != 0) {
    fail("no agent at " + socket_name + ": " + std::strerror(errno));
  }
  // As programs do: in the abstract name space anybody could answer.
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
      (peer.uid != 0 && peer.uid != geteuid())) {
    fail("who answers at " + socket_name + " is user " + std::to_string(peer.uid) + ", not root's agent");
  }
  if (send(fd.get(), request, bytes, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes)) {
    fail(std::string("the agent can't be asked: ") + std::strerror(errno));
  }
  return fd;
}

}  // namespace viaduct
