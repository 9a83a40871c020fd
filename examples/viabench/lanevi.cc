#include "examples/viabench/lanevi.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>

#include "examples/common/nic.h"
#include "examples/viabench/socket_transfer.h"
#include "examples/viabench/tcp_socket.h"
#include "examples/viabench/worker.h"

namespace viabench {
namespace {

using via::Failure;

// Of the range for benchmarks (RFC 2544), which no host of a network has.
constexpr char kNear[] = "198.18.77.1", kFar[] = "198.18.77.2";
constexpr std::chrono::seconds kMeetLimit{10};

Process start_lanevid(const Site& site, const char* address) {
  return start_program({"sh", "-c", "exec lanevid \"$@\" >/dev/null 2>&1", "lanevid", "--interface", "viabench", "--network",
                        "viabench", "--device", site.device, "--address", std::string(address) + "/30"});
}

// Packets are dropped until both ends of LANEVI have met, and TCP sends the first again only after a second: short attempts
// at a listener that takes no connections find out when that is over.
bool is_met(std::uint16_t port) {
  constexpr int kAttemptMs = 100;
  const Fd attempt(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  inet_pton(AF_INET, kFar, &to.sin_addr);
  if (connect(attempt.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0) return true;
  pollfd p{attempt.get(), POLLOUT, 0};
  if (errno != EINPROGRESS || poll(&p, 1, kAttemptMs) <= 0) {
    usleep(kAttemptMs * 1000 / 4);
    return false;
  }
  return (p.revents & POLLERR) == 0;
}

void meet(std::uint16_t port) {
  for (const Time limit = Clock::now() + kMeetLimit; !is_met(port);) {
    if (Clock::now() >= limit) throw Failure("the two lanevids do not meet");
  }
}

}  // namespace

void lanevi_near(const Case& c, const Site& site, const std::string& where, const Reporter& report) {
  const Process lanevid = start_lanevid(site, kNear);
  std::istringstream ports(where);
  std::uint16_t port = 0, attempts = 0;
  ports >> port >> attempts;
  meet(attempts);
  const TcpSocket s = TcpSocket::connect(kFar, port, false, c.level == "nagle");
  transfer_near(s, c, report, false);
  // The ends stay until all has come, as what TCP would send again goes with the interfaces.
  shutdown(s.fd(), SHUT_WR);
  pollfd p{s.fd(), POLLIN, 0};
  poll(&p, 1, 1000);
}

void lanevi_far(const Case& c, const Site& site, const Reporter& report) {
  const Process lanevid = start_lanevid(site, kFar);
  const TcpListener listener(false), attempts(false);
  report.ready(std::to_string(listener.port()) + " " + std::to_string(attempts.port()));
  const TcpSocket s = listener.accept();
  transfer_far(s, c, report, false);
  s.await_end();
}

bool lanevi_available() {
  std::string said;
  return geteuid() == 0 && run_program({"lanevid", "--version"}, &said) == 0;
}

}  // namespace viabench
