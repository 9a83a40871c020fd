#include "examples/viabench/tcp_socket.h"

#include <arpa/inet.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "examples/common/nic.h"
#include "examples/viabench/measure.h"

namespace viabench {

using via::Failure;
using via::format;

namespace {

void set_limits(int fd) {
  const timeval limit{kSilence.count(), 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

// Calls until it does not say "not now", when spinning.
template <typename Call>
long repeat(bool spin, const char* what, Call call) {
  Clock::time_point end{};
  for (std::uint32_t i = 1;; ++i) {
    const long n = call();
    if (n >= 0) return n;
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EINPROGRESS) {
      throw Failure(format("%s: %s", what, std::strerror(errno)));
    }
    if (!spin) throw Failure(format("%s: nothing happens", what));
    if (i % 4096 != 0) continue;
    const Clock::time_point now = Clock::now();
    if (end == Clock::time_point{}) end = now + kSilence;
    if (now >= end) throw Failure(format("%s: nothing happens", what));
  }
}

}  // namespace

TcpSocket::TcpSocket(Fd fd, bool spin, bool delay) : fd_(std::move(fd)), spin_(spin) {
  const int one = 1;
  if (!delay) setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  set_limits(fd_.get());
}

template <typename Call>
long TcpSocket::again(const char* what, Call call) const {
  return repeat(spin_, what, call);
}

TcpSocket TcpSocket::connect(const std::string& host, std::uint16_t port, bool spin, bool delay) {
  addrinfo hints{}, *all = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &all);
  if (error != 0) throw Failure(format("%s: %s", host.c_str(), gai_strerror(error)));
  Fd fd;
  int reason = 0;
  for (const addrinfo* a = all; a != nullptr; a = a->ai_next) {
    fd = Fd(socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | (spin ? SOCK_NONBLOCK : 0), 0));
    set_limits(fd.get());
    if (::connect(fd.get(), a->ai_addr, a->ai_addrlen) == 0) break;
    reason = errno;
    if (spin && reason == EINPROGRESS) {
      repeat(true, "connect", [&] {
        pollfd p{fd.get(), POLLOUT, 0};
        if (poll(&p, 1, 0) > 0) return 0L;
        errno = EAGAIN;
        return -1L;
      });
      socklen_t length = sizeof reason;
      getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &reason, &length);
      if (reason == 0) break;
    }
    fd.reset();
  }
  freeaddrinfo(all);
  if (!fd) throw Failure(format("connecting to %s: %s", host.c_str(), std::strerror(reason)));
  return TcpSocket(std::move(fd), spin, delay);
}

void TcpSocket::send(const void* from, std::size_t bytes) const {
  const char* at = static_cast<const char*>(from);
  const int flags = MSG_NOSIGNAL | (spin_ ? MSG_DONTWAIT : 0);
  while (bytes > 0) {
    const long n = again("send", [&] { return ::send(fd(), at, bytes, flags); });
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
}

void TcpSocket::receive(void* to, std::size_t bytes) const {
  char* at = static_cast<char*>(to);
  const int flags = spin_ ? MSG_DONTWAIT : MSG_WAITALL;
  while (bytes > 0) {
    const long n = again("recv", [&] { return ::recv(fd(), at, bytes, flags); });
    if (n == 0) throw Failure("recv: the other side has closed the connection");
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
}

void TcpSocket::await_end() const {
  char byte;
  const int flags = spin_ ? MSG_DONTWAIT : 0;
  const long n = again("recv", [&] { return ::recv(fd(), &byte, 1, flags); });
  if (n != 0) throw Failure("recv: more than expected");
}

TcpListener::TcpListener(bool spin, std::uint16_t port, bool delay) : spin_(spin), delay_(delay) {
  fd_ = Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | (spin ? SOCK_NONBLOCK : 0), 0));
  const int one = 1;
  setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  set_limits(fd_.get());
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  socklen_t length = sizeof address;
  auto* const a = reinterpret_cast<sockaddr*>(&address);
  if (!fd_ || bind(fd_.get(), a, length) != 0 || listen(fd_.get(), 128) != 0 ||
      getsockname(fd_.get(), a, &length) != 0) {
    throw Failure(format("TCP port %u: %s", unsigned{port}, std::strerror(errno)));
  }
  port_ = ntohs(address.sin_port);
}

TcpSocket TcpListener::accept() const {
  const long s = repeat(spin_, "accept", [&]() -> long {
    return accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | (spin_ ? SOCK_NONBLOCK : 0));
  });
  return TcpSocket(Fd(static_cast<int>(s)), spin_, delay_);
}

void switch_offload(const std::string& interface, bool on) {
  const Fd s(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  for (const std::uint32_t command : {ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_SGRO}) {
    ethtool_value value{command, on ? 1u : 0u};
    ifreq request{};
    std::strncpy(request.ifr_name, interface.c_str(), sizeof request.ifr_name - 1);
    request.ifr_data = reinterpret_cast<char*>(&value);
    if (ioctl(s.get(), SIOCETHTOOL, &request) != 0) {
      throw Failure(format("segmentation offload of %s can't be switched: %s", interface.c_str(),
                           std::strerror(errno)));
    }
  }
}

}  // namespace viabench
