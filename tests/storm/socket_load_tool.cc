// The load of load_tool.cc over a TCP socket, for `make storm`: plain calls, so that SOVIA may carry them.
//
//   socket_load_tool LEDGER SLOT serve PORT           accepts connections, one after the other
//   socket_load_tool LEDGER SLOT ask ADDRESS PORT     connects to that
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

#include "tests/storm/load_message.h"

namespace {

using namespace load;

constexpr int kStepMs = 1000;         // no call may take longer than that and a little
constexpr unsigned kSilentSteps = 15;  // of a connection that is there

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

  // Receives so many bytes. False: the connection has ended, or (`silent`) nothing came for long.
  bool receive(void* to, std::size_t bytes, unsigned steps, bool& silent) const {
    silent = false;
    auto* at = static_cast<unsigned char*>(to);
    for (unsigned idle = 0; bytes != 0;) {
      ++ledger->beats;
      pollfd self{fd_, POLLIN, 0};
      const int ready = poll(&self, 1, kStepMs);
      if (ready == 0 && ++idle >= steps) return silent = true, false;
      if (ready <= 0) continue;
      const ssize_t got = recv(fd_, at, bytes, 0);
      if (got <= 0) return false;
      idle = 0;
      at += got;
      bytes -= static_cast<std::size_t>(got);
    }
    return true;
  }

  bool send_all(const void* from, std::size_t bytes) const {
    const auto* at = static_cast<const unsigned char*>(from);
    while (bytes != 0) {
      const ssize_t put = send(fd_, at, bytes, MSG_NOSIGNAL);
      if (put <= 0) return false;
      at += put;
      bytes -= static_cast<std::size_t>(put);
    }
    return true;
  }

 private:
  const int fd_;
};

void serve_connection(const Socket& socket) {
  static unsigned char data[kBytes];
  std::uint64_t connection = 0;
  for (std::uint64_t next = 0;; ++next) {
    Head head{};
    bool silent = false;
    if (!socket.receive(&head, sizeof head, 4 * kSilentSteps, silent)) return;
    if (next == 0) connection = head.connection;
    if (head.connection != connection || head.number != next || head.length < sizeof head || head.length > kBytes) {
      return wrong("not the next message", head, connection, next);
    }
    std::memcpy(data, &head, sizeof head);
    if (!socket.receive(data + sizeof head, head.length - sizeof head, kSilentSteps, silent)) return;
    if (!verify(data, head.length, head)) return wrong("changed message", head, connection, next);
    ++ledger->verified;
    ledger->verified_bytes += head.length;
    if (!socket.send_all(&head, sizeof head)) return;
  }
}

[[noreturn]] void serve(std::uint16_t port) {
  const Socket listener(socket(AF_INET, SOCK_STREAM, 0));
  const int on = 1;
  setsockopt(listener.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_port = htons(port);
  while (bind(listener.fd(), reinterpret_cast<sockaddr*>(&own), sizeof own) != 0 || listen(listener.fd(), 8) != 0) {
    ++ledger->refused;
    usleep(20'000);
  }
  for (;;) {
    ++ledger->beats;
    pollfd self{listener.fd(), POLLIN, 0};
    if (poll(&self, 1, kStepMs) <= 0) continue;
    const Socket socket(accept(listener.fd(), nullptr, nullptr));
    if (socket.fd() < 0) continue;
    ++ledger->connections;
    serve_connection(socket);
    ++ledger->failures;
  }
}

void ask_connection(const Socket& socket, std::uint64_t connection) {
  static unsigned char data[kBytes];
  std::uint32_t sums[kWindow] = {};
  for (std::uint64_t sent = 0, answered = 0;; ++answered) {
    for (; sent - answered < kWindow; ++sent) {
      ++ledger->beats;
      const std::uint32_t length = fill(data, connection, sent);
      Head head;
      std::memcpy(&head, data, sizeof head);
      sums[sent % kWindow] = head.checksum;
      if (!socket.send_all(data, length)) return;
      ++ledger->sent;
      ledger->sent_bytes += length;
    }
    Head head{};
    bool silent = false;
    if (!socket.receive(&head, sizeof head, kSilentSteps, silent)) {
      // No end may be left like that.
      if (silent) ++ledger->unanswered;
      return;
    }
    if (head.connection != connection || head.number != answered || head.checksum != sums[answered % kWindow]) {
      return wrong("not the next answer", head, connection, answered);
    }
    ++ledger->answered;
  }
}

void ask(const char* address, std::uint16_t port) {
  const Socket socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in remote{};
  remote.sin_family = AF_INET;
  remote.sin_port = htons(port);
  inet_pton(AF_INET, address, &remote.sin_addr);
  ++ledger->beats;
  if (connect(socket.fd(), reinterpret_cast<sockaddr*>(&remote), sizeof remote) != 0) {
    ++ledger->refused;
    usleep(20'000);
    return;
  }
  ++ledger->connections;
  ask_connection(socket, draw() | 1);
  ++ledger->failures;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5 || !open_ledger(argv[1], std::atoi(argv[2]))) return 2;
  if (std::string(argv[3]) == "serve") serve(static_cast<std::uint16_t>(std::atoi(argv[4])));
  for (;;) {
    ++ledger->beats;
    ask(argv[4], static_cast<std::uint16_t>(std::atoi(argv[5])));
  }
}
