#include "kagent/agent/control/ask_agent.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "kagent/agent/control/listen_socket.h"
#include "kagent/contract/control.h"
#include "kagent/contract/default_agent.h"

namespace viaduct {
namespace {

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }

// Trusts only an agent of root or of this user, as programs do: any process could listen in the abstract name space.
bool may_be_trusted(int fd, bool roots_alone, ucred& peer) {
  socklen_t size = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == 0 || (!roots_alone && peer.uid == geteuid()));
}

std::vector<Descriptor> files_of(msghdr& message) {
  std::vector<Descriptor> out;
  const cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  if (rights == nullptr || rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS) return out;
  const std::size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (std::size_t i = 0; i < count; ++i) {
    int fd;
    std::memcpy(&fd, CMSG_DATA(rights) + i * sizeof fd, sizeof fd);
    out.emplace_back(fd);
  }
  return out;
}

// Tells find_default_agent() which sockets answer.
struct DefaultWay {
  control::Answers answers(const char* name) {
    const Descriptor fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const SocketAddress address(name);
    if (connect(fd.get(), address.get(), address.bytes) != 0) {
      return errno == EAGAIN ? control::Answers::kBusy : control::Answers::kNo;
    }
    ucred peer{};
    return may_be_trusted(fd.get(), name[0] == '@', peer) ? control::Answers::kYes : control::Answers::kNo;
  }

  bool serves_this_network(const char* name) {
    control::MessageHead request;
    request.kind = static_cast<std::uint16_t>(control::Kind::kNetwork);
    request.bytes = sizeof request;
    try {
      const Descriptor fd = ask_agent(name, &request, sizeof request);
      std::uint64_t own = 0;
      socklen_t bytes = sizeof own;
      getsockopt(fd.get(), SOL_SOCKET, SO_NETNS_COOKIE, &own, &bytes);
      control::Network answer{};
      const ssize_t got = recv(fd.get(), &answer, sizeof answer, MSG_TRUNC);
      return !control::is_of_other_network(answer, got, own);
    } catch (const std::runtime_error&) {
      return true;
    }
  }
};

}  // namespace

std::string default_agent_socket() { return control::find_default_agent(DefaultWay()); }

std::string socket_of_environment() {
  const char* const name = secure_getenv(control::kSocketVariable);
  return name == nullptr ? "" : name;
}

Descriptor ask_agent(const std::string& socket_name, const void* request, std::size_t bytes) {
  Descriptor fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const timeval patience{5, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  const SocketAddress address(socket_name);
  if (connect(fd.get(), address.get(), address.bytes) != 0) {
    fail("no agent at " + socket_name + ": " + std::strerror(errno));
  }
  ucred peer{};
  if (!may_be_trusted(fd.get(), false, peer)) {
    fail("who answers at " + socket_name + " is user " + std::to_string(peer.uid) + ", not root's agent");
  }
  if (send(fd.get(), request, bytes, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes)) {
    fail(std::string("the agent can't be asked: ") + std::strerror(errno));
  }
  return fd;
}

AgentAnswer ask_agent(const std::string& socket_name, const void* request, std::size_t bytes,
                      std::span<std::byte> room) {
  const Descriptor fd = ask_agent(socket_name, request, bytes);
  iovec piece{room.data(), room.size()};
  alignas(cmsghdr) char rights[CMSG_SPACE(control::kMostDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = rights;
  message.msg_controllen = sizeof rights;
  const ssize_t got = recvmsg(fd.get(), &message, MSG_CMSG_CLOEXEC);
  if (got < 0) fail(std::string("the agent does not answer: ") + std::strerror(errno));
  return {static_cast<std::size_t>(got), files_of(message)};
}

}  // namespace viaduct
