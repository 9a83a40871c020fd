// The part of Worker that makes connections and changes descriptors.
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "../semantics/raw.h"
#include "worker.h"

namespace model {
namespace {

// A message of the warm-up: whether it is the last one, and whether its sender's last one went past the kernel.
struct Warmth {
  std::uint32_t last = 0, past = 0;
};

bool exchange_all(int fd, Warmth& warmth, bool out) {
  char* at = reinterpret_cast<char*>(&warmth);
  for (std::size_t left = sizeof warmth; left > 0;) {
    const ssize_t n = out ? ::send(fd, at, left, MSG_NOSIGNAL) : ::recv(fd, at, left, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    left -= static_cast<std::size_t>(n);
  }
  return true;
}

void set(int fd, int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof value); }

long set_option(const Request& request) {
  if (request.other == SO_LINGER) {
    const linger value{request.flags >= 0, request.flags};
    return ::setsockopt(request.fd, SOL_SOCKET, SO_LINGER, &value, sizeof value);
  }
  if (request.other == SO_RCVTIMEO) {
    const timeval value{0, request.flags * 1000};
    return ::setsockopt(request.fd, SOL_SOCKET, SO_RCVTIMEO, &value, sizeof value);
  }
  return ::setsockopt(request.fd, IPPROTO_TCP, request.other, &request.flags, sizeof request.flags);
}

}  // namespace

std::uint64_t kernel_bytes(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  semantics::raw::call(SYS_getsockopt, fd, IPPROTO_TCP, TCP_INFO, &info, &size);
  return info.tcpi_bytes_sent;
}

void Worker::listen(const Request& request, Reply& reply) {
  reply.fd = ::socket(AF_INET, SOCK_STREAM, 0);
  set(reply.fd, SOL_SOCKET, SO_REUSEADDR, 1);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<std::uint16_t>(request.other));
  reply.result = ::bind(reply.fd, reinterpret_cast<sockaddr*>(&name), sizeof name);
  if (reply.result == 0) reply.result = ::listen(reply.fd, 16);
}

void Worker::connect(const Request& request, Reply& reply) {
  reply.fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<std::uint16_t>(request.other));
  name.sin_addr.s_addr = request.events;
  reply.result = ::connect(reply.fd, reinterpret_cast<sockaddr*>(&name), sizeof name);
}

// The end whose `flags` are set leads.
void Worker::warm(const Request& request, Reply& reply) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(request.limit_ms);
  const bool leads = request.flags != 0;
  std::uint64_t before = kernel_bytes(request.fd);
  std::uint32_t mine = 0;
  for (std::uint32_t round = 0;; ++round) {
    Warmth theirs, own{0, mine};
    if (!leads && !exchange_all(request.fd, theirs, false)) break;
    if (leads) {
      const bool late = std::chrono::steady_clock::now() >= until;
      own.last = round >= request.size && (late || (mine != 0 && reply.events != 0));
    } else {
      own.last = theirs.last;
    }
    if (!exchange_all(request.fd, own, true)) break;
    if (leads && !exchange_all(request.fd, theirs, false)) break;
    const std::uint64_t now = kernel_bytes(request.fd);
    mine = now == before;
    before = now;
    reply.events = theirs.past;
    if (own.last == 0) continue;
    reply.result = mine != 0 && theirs.past != 0;
    reply.kernel_bytes = now;
    return;
  }
  reply.result = -1;
}

void Worker::descriptors(const Request& request, Reply& reply) {
  switch (request.call) {
    case Call::kAccept: reply.result = reply.fd = ::accept(request.fd, nullptr, nullptr); break;
    case Call::kShutdown: reply.result = ::shutdown(request.fd, request.other); break;
    case Call::kClose:
      reply.kernel_bytes = kernel_bytes(request.fd);
      reply.result = ::close(request.fd);
      break;
    case Call::kDup: reply.result = reply.fd = ::dup(request.fd); break;
    case Call::kDup2: reply.result = reply.fd = ::dup2(request.fd, request.other); break;
    case Call::kOption: reply.result = set_option(request); break;
    case Call::kNonblocking: {
      const int flags = ::fcntl(request.fd, F_GETFL);
      reply.result = ::fcntl(request.fd, F_SETFL, request.flags != 0 ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
      break;
    }
    case Call::kError: {
      int error = -1;
      socklen_t size = sizeof error;
      reply.result = ::getsockopt(request.fd, SOL_SOCKET, SO_ERROR, &error, &size);
      reply.events = static_cast<std::uint32_t>(error);
      break;
    }
    default: reply.result = -1; errno = ENOSYS;
  }
}

}  // namespace model
