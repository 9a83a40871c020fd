#include "kagent/agent/control/counters_client.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "kagent/agent/control/ask_agent.h"
#include "kagent/contract/control.h"
#include "xdp/descriptor.h"

namespace viaduct {
namespace {

constexpr std::size_t kMostBytes = 16 << 20;

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }

std::string read_all(int fd) {
  std::string out;
  char room[16384];
  ssize_t bytes;
  while ((bytes = pread(fd, room, sizeof room, static_cast<off_t>(out.size()))) > 0) {
    out.append(room, static_cast<std::size_t>(bytes));
    if (out.size() > kMostBytes) fail("the agent's table has no end");
  }
  return out;
}

}  // namespace

std::string fetch_counters(const std::string& socket_name) {
  control::MessageHead request;
  request.kind = static_cast<std::uint16_t>(control::Kind::kCounters);
  request.bytes = sizeof request;
  const Descriptor fd = ask_agent(socket_name, &request, sizeof request);
  control::HelloAnswer answer{};
  iovec piece{&answer, sizeof answer};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;
  const ssize_t bytes = recvmsg(fd.get(), &message, MSG_CMSG_CLOEXEC);
  if (bytes < 0) fail(std::string("the agent does not answer: ") + std::strerror(errno));
  Descriptor table;
  const cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  if (rights != nullptr && rights->cmsg_type == SCM_RIGHTS) {
    int received;
    std::memcpy(&received, CMSG_DATA(rights), sizeof received);
    table = Descriptor(received);
  }
  if (bytes < static_cast<ssize_t>(sizeof answer.head)) fail("the agent hung up");
  if (answer.head.result != 0) {
    answer.reason[sizeof answer.reason - 1] = '\0';
    fail(std::string("the agent refuses: ") + answer.reason);
  }
  if (!table) fail("the agent's answer has no table");
  return read_all(table.get());
}

}  // namespace viaduct
