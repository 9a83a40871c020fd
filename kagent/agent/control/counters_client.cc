#include "kagent/agent/control/counters_client.h"

#include <unistd.h>

#include <span>
#include <stdexcept>

#include "kagent/agent/control/ask_agent.h"
#include "kagent/contract/control.h"

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
  control::HelloAnswer answer{};
  const AgentAnswer got =
      ask_agent(socket_name, &request, sizeof request, std::as_writable_bytes(std::span(&answer, 1)));
  if (got.bytes < sizeof answer.head) fail("the agent hung up");
  if (answer.head.result != 0) {
    answer.reason[sizeof answer.reason - 1] = '\0';
    fail(std::string("the agent refuses: ") + answer.reason);
  }
  if (got.files.empty()) fail("the agent's answer has no table");
  return read_all(got.files.front().get());
}

}  // namespace viaduct
