// lab-faults: the cable between the two hosts of a lab, which does to frames what it is told. `lab`
// starts it, asks it and ends it.
//
//   lab-faults run SOCKET PORT_A PORT_B [OPTION VALUE]...   forwards until a signal ends it
//   lab-faults ask SOCKET [OPTION VALUE]...                 changes the settings, prints them and
//   the counters lab-faults check [OPTION VALUE]...                      says whether the options
//   are right lab-faults plain INTERFACE                              has an interface send frames
//   as a cable takes them
#include <errno.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "xdp/clock.h"
#include "xdp/descriptor.h"
#include "tests/lab/fault_line.h"

namespace {

using namespace viaduct;
using namespace viaduct::lab;

constexpr std::size_t kLongestMessage = 4096;
constexpr char kRefused = '!';

int fail(const char* what) {
  std::fprintf(stderr, "lab-faults: %s: %s\n", what, std::strerror(errno));
  return 1;
}

sockaddr_un address_of(const char* path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  return address;
}

class Forwarder {
 public:
  Forwarder(const char* port_a, const char* port_b, const Settings& settings)
      : a_(port_a), b_(port_b), lines_{FaultLine(0, a_, b_), FaultLine(1, b_, a_)} {
    for (int d = 0; d < kDirections; ++d) lines_[d].faults = settings[d];
  }

  [[noreturn]] void run(int listening) {
    for (;;) {
      const std::uint64_t now = monotonic_ns();
      bool busy = false;
      for (FaultLine& line : lines_) busy = line.step(now) || busy;
      wait(listening, busy ? now : std::min(lines_[0].next_due(), lines_[1].next_due()));
    }
  }

 private:
  void wait(int listening, std::uint64_t until) {
    pollfd descriptors[] = {{a_.fd(), POLLIN, 0}, {b_.fd(), POLLIN, 0}, {listening, POLLIN, 0}};
    const std::uint64_t now = until == UINT64_MAX ? 0 : monotonic_ns();
    const std::uint64_t left = until > now ? until - now : 0;
    const timespec timeout = {static_cast<time_t>(left / kNsPerSecond),
                              static_cast<long>(left % kNsPerSecond)};
    if (ppoll(descriptors, 3, until == UINT64_MAX ? nullptr : &timeout, nullptr) <= 0) return;
    for (const pollfd& port : {descriptors[0], descriptors[1]}) {
      // That the interface is down is told once, and goes when it has been read.
      int error = 0;
      socklen_t length = sizeof error;
      if (port.revents & POLLERR) getsockopt(port.fd, SOL_SOCKET, SO_ERROR, &error, &length);
    }
    if (descriptors[2].revents) answer(listening);
  }

  void answer(int listening) {
    const Descriptor client(accept4(listening, nullptr, nullptr, SOCK_CLOEXEC));
    const timeval patience = {1, 0};
    setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    char request[kLongestMessage];
    const ssize_t length = recv(client.get(), request, sizeof request, 0);
    if (length < 1) return;
    std::vector<std::string> options;
    for (const char* at = request + 1; at < request + length;) {
      options.emplace_back(at, strnlen(at, static_cast<std::size_t>(request + length - at)));
      at += options.back().size() + 1;
    }
    const std::string reply = change(options);
    send(client.get(), reply.data(), reply.size(), MSG_NOSIGNAL);
  }

  std::string change(const std::vector<std::string>& options) {
    Settings settings = {lines_[0].faults, lines_[1].faults};
    const Parsed parsed = apply(options, settings);
    if (!parsed.error.empty()) return kRefused + parsed.error;
    std::string reply;
    for (int d = 0; d < kDirections; ++d) {
      lines_[d].faults = settings[d];
      if (parsed.seeded[d]) lines_[d].restart();
      const std::string from = d == 0 ? "from a: " : "from b: ";
      reply += from + text(settings[d]) + "\n" + from + lines_[d].counters() + "\n";
    }
    return reply;
  }

  PortRing a_;
  PortRing b_;
  FaultLine lines_[kDirections];
};

int run(const char* path, const char* port_a, const char* port_b, const Settings& settings) {
  prctl(PR_SET_TIMERSLACK, 1);
  Forwarder forwarder(port_a, port_b, settings);
  const sockaddr_un address = address_of(path);
  const int listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (listening < 0 ||
      bind(listening, reinterpret_cast<const sockaddr*>(&address), sizeof address) ||
      listen(listening, 8)) {
    return fail(path);
  }
  forwarder.run(listening);
}

int ask(const char* path, const std::vector<std::string>& options) {
  const sockaddr_un address = address_of(path);
  const Descriptor fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd || connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address)) {
    return fail(path);
  }
  std::string request = "?";
  for (const std::string& option : options) request += option + '\0';
  char reply[kLongestMessage];
  if (request.size() > kLongestMessage ||
      send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) {
    return fail("the forwarder can't be asked");
  }
  const ssize_t length = recv(fd.get(), reply, sizeof reply, 0);
  if (length <= 0) return fail("the forwarder does not answer");
  if (reply[0] == kRefused) {
    std::fprintf(stderr, "vialab: %.*s\n", static_cast<int>(length - 1), reply + 1);
    return 2;
  }
  std::fwrite(reply, 1, static_cast<std::size_t>(length), stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  const int fixed = command == "run" ? 5 : command == "ask" || command == "plain" ? 3 : 2;
  if ((fixed == 2 && command != "check") || argc < fixed) {
    std::fputs("lab-faults: the command lab runs it, see vialab(1)\n", stderr);
    return 2;
  }
  const std::vector<std::string> options(argv + fixed, argv + argc);
  if (command == "plain") return disable_offloads(argv[2]), 0;
  if (command == "ask") return ask(argv[2], options);
  Settings settings;
  const Parsed parsed = apply(options, settings);
  if (!parsed.error.empty()) {
    std::fprintf(stderr, "vialab: %s\n", parsed.error.c_str());
    return 2;
  }
  return command == "run" ? run(argv[2], argv[3], argv[4], settings) : 0;
}
