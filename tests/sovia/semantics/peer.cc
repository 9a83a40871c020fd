#include "peer.h"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <system_error>
#include <utility>

#include "raw.h"

namespace semantics {
namespace {

int must(long result, const char* what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
  return static_cast<int>(result);
}

int open_socket() {
  return raw::out_of_the_way(
      must(raw::call(SYS_socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"));
}

sockaddr_in name(in_addr address, std::uint16_t port) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr = address;
  name.sin_port = htons(port);
  return name;
}

in_addr address_of(long which, int fd) {
  sockaddr_in name{};
  socklen_t size = sizeof name;
  must(raw::call(which, fd, &name, &size), "the name of a control connection");
  return name.sin_addr;
}

}  // namespace

Peer::Peer(int fd) : fd_(fd) {
  const int on = 1;
  raw::call(SYS_setsockopt, fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Peer::Peer(Peer&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Peer& Peer::operator=(Peer&& other) noexcept {
  close();
  fd_ = std::exchange(other.fd_, -1);
  return *this;
}

int Peer::listener(std::uint16_t port) {
  const int fd = open_socket(), on = 1;
  raw::call(SYS_setsockopt, fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const sockaddr_in any = name({INADDR_ANY}, port);
  must(raw::call(SYS_bind, fd, &any, sizeof any), "binding the control port");
  must(raw::call(SYS_listen, fd, 8), "listen");
  return fd;
}

Peer Peer::accept(int listener) {
  const long fd = raw::call(SYS_accept4, listener, nullptr, nullptr, SOCK_CLOEXEC);
  return Peer(raw::out_of_the_way(must(fd, "accept")));
}

Peer Peer::connect(in_addr address, std::uint16_t port, int patience_ms) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(patience_ms);
  const sockaddr_in to = name(address, port);
  for (;;) {
    const int fd = open_socket();
    if (raw::call(SYS_connect, fd, &to, sizeof to) == 0) return Peer(fd);
    const int error = errno;
    raw::close(fd);
    if (std::chrono::steady_clock::now() >= until) {
      throw std::system_error(error, std::generic_category(), "connecting to the server");
    }
    ::usleep(20'000);
  }
}

void Peer::tell(std::string_view message) {
  const auto size = static_cast<std::uint32_t>(message.size());
  std::string framed(reinterpret_cast<const char*>(&size), sizeof size);
  framed += message;
  // A peer that has gone would raise SIGPIPE here.
  const char* at = framed.data();
  std::size_t left = framed.size();
  while (left > 0) {
    const long n = raw::call(SYS_sendto, fd_, at, left, MSG_NOSIGNAL, nullptr, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw PeerGone();
    at += n;
    left -= static_cast<std::size_t>(n);
  }
}

std::string Peer::hear() {
  std::uint32_t size = 0;
  if (!raw::read_all(fd_, &size, sizeof size)) throw PeerGone();
  std::string message(size, '\0');
  if (!raw::read_all(fd_, message.data(), size)) throw PeerGone();
  return message;
}

void Peer::meet() {
  tell("meet");
  if (const std::string heard = hear(); heard != "meet") {
    throw std::logic_error("the ends do not agree: one comes to meet(), the other says " + heard);
  }
}

void Peer::close() {
  if (fd_ >= 0) raw::close(std::exchange(fd_, -1));
}

in_addr Peer::own_address() const { return address_of(SYS_getsockname, fd_); }
in_addr Peer::peer_address() const { return address_of(SYS_getpeername, fd_); }

}  // namespace semantics
