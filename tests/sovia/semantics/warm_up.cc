// Case::warm_up: small messages in lockstep until an acceleration is in force, if there is one.
//
// The case finds out by itself: bytes that the application has sent and that the kernel's TCP does not know of have
// gone another way.
#include <linux/tcp.h>

#include <cstddef>

#include "calls.h"
#include "case.h"
#include "raw.h"

namespace semantics {
namespace {

constexpr std::uint32_t kRisingRounds = 6, kLeastRounds = 20;

struct Message {
  std::uint32_t round;
  std::uint16_t last;
  std::uint16_t past_the_kernel;  // what its sender sent last
};

std::uint64_t bytes_in_the_kernel(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  raw::call(SYS_getsockopt, socket, IPPROTO_TCP, TCP_INFO, &info, &size);
  return info.tcpi_bytes_sent;
}

// Notices whether what is sent between two looks goes past the kernel.
class Watch {
 public:
  explicit Watch(int socket) : socket_(socket), before_(bytes_in_the_kernel(socket)) {}
  bool past_the_kernel() {
    const std::uint64_t now = bytes_in_the_kernel(socket_);
    return std::exchange(before_, now) == now;
  }

 private:
  int socket_;
  std::uint64_t before_;
};

Message receive(int socket) {
  Message message{};
  const std::string bytes = read_exactly(socket, sizeof message);
  if (bytes.size() != sizeof message) throw CaseFails("the connection ended in its warm-up");
  bytes.copy(reinterpret_cast<char*>(&message), sizeof message);
  return message;
}

void send_message(int socket, const Message& message) {
  send_all(socket, {reinterpret_cast<const char*>(&message), sizeof message});
}

// True if both directions go past the kernel at the end.
bool lead(int socket, std::uint32_t most_rounds, std::chrono::milliseconds most_time) {
  const auto begin = std::chrono::steady_clock::now();
  Watch watch(socket);
  bool mine = false, theirs = false;
  for (std::uint32_t round = 1;; ++round) {
    const bool late = std::chrono::steady_clock::now() - begin >= most_time;
    const bool last = round >= most_rounds || (mine && theirs) || (late && round > kLeastRounds);
    send_message(socket, {round, last, mine});
    theirs = receive(socket).past_the_kernel != 0;
    mine = watch.past_the_kernel();
    if (last) return mine && theirs;
  }
}

bool follow(int socket) {
  Watch watch(socket);
  bool mine = false;
  for (bool first = true;; first = false) {
    const Message message = receive(socket);
    if (!first) mine = watch.past_the_kernel();
    send_message(socket, {message.round, message.last, mine});
    if (message.last != 0) return mine && message.past_the_kernel != 0;
  }
}

}  // namespace

void Case::warm_up(int socket) const {
  const bool accelerated =
      client() ? lead(socket, ~std::uint32_t{0}, settings_.warm) : follow(socket);
  remark(accelerated ? "warm: past the kernel" : "warm: in the kernel");
}

void Case::warm_as_asked(int socket) const {
  if (warmth_ == Warmth::kWarm) warm_up(socket);
  if (warmth_ == Warmth::kRising) {
    client() ? lead(socket, kRisingRounds, settings_.warm) : follow(socket);
  }
}

}  // namespace semantics
