#include "vipl/lanevi/service.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "vipl/lanevi/failure.h"

namespace viaduct::lanevi {
namespace {

constexpr int kAgentIntervalMs = 500;
constexpr std::chrono::milliseconds kBusyInterval{5};
constexpr std::chrono::microseconds kSpin{100};  // an answer comes by then, also over a network of 1 Gb/s

// Looks for traffic again and again for a while after the last packet, and gives the processor to others between two looks.
class Spin {
 public:
  explicit Spin(VIP_CQ_HANDLE queue) : queue_(queue) {}

  void begin(Clock::time_point now) { end_ = now + kSpin; }
  // False when it is time to sleep.
  bool again(Clock::time_point now) { return now < end_ && VipxSpin(queue_, looks_ += kLooksOfRead) != 0; }

 private:
  // A look at the interface takes a system call, as long as so many looks at the queue.
  static constexpr unsigned long kLooksOfRead = 128;

  const VIP_CQ_HANDLE queue_;
  Clock::time_point end_{};
  unsigned long looks_ = 0;
};

// Tells systemd, if that has started the program.
void notify_ready() {
  const char* const name = secure_getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  if (name == nullptr || std::strlen(name) >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name, std::strlen(name));
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';
  const int to = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (to < 0) return;
  static constexpr char kReady[] = "READY=1";
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(name));
  sendto(to, kReady, sizeof kReady - 1, 0, reinterpret_cast<sockaddr*>(&address), length);
  close(to);
}

timespec until(Clock::time_point when, Clock::time_point now) {
  const auto left = std::max(when - now, Clock::duration::zero());
  const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
  return {ns / 1'000'000'000, ns % 1'000'000'000};
}

}  // namespace

Service::Service(const Options& options, Tun& tun) : options_(options), tun_(tun) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&set, signal);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  signals_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals_ < 0) fail("signalfd");
}

Service::~Service() { close(signals_); }

void Service::run() {
  open_link();
  notify_ready();
  while (!stopped_) {
    link_ ? carry() : wait_for_agent();
  }
  link_.reset();
}

void Service::open_link() {
  VIP_NIC_HANDLE nic;
  const VIP_RETURN result = VipOpenNic(options_.device.c_str(), &nic);
  if (result == VIP_INVALID_PARAMETER) {
    throw Failure("the agent knows no NIC called \"" + options_.device + "\"");
  }
  if (result == VIP_SUCCESS) {
    make_link(nic);
  } else if (!no_agent_reported_) {
    std::fprintf(stderr, "lanevid: waiting for the agent: %s\n", VipxReturnText(result));
  }
  no_agent_reported_ = result != VIP_SUCCESS;
}

void Service::make_link(VIP_NIC_HANDLE nic) {
  try {
    link_ = std::make_unique<Link>(nic, options_, tun_, counters_);
    std::fprintf(stderr, "lanevid: %s goes over %s\n", options_.interface.c_str(),
                 options_.device.c_str());
    had_link_ = true;
  } catch (const Failure& failure) {
    // A link that was made before can be made again later: the agent has gone in between, which is no failure.
    if (!had_link_) throw;
    std::fprintf(stderr, "lanevid: %s\n", failure.what());
  }
}

// Carries packets until a signal comes or the agent has gone.
void Service::carry() {
  Link& link = *link_;
  Clock::time_point look{};
  Spin spin(link.queue());
  while (!stopped_) {
    const bool received = link.take_completions();
    const bool sent = link.read_interface();
    const Clock::time_point now = Clock::now();
    const Clock::time_point next = link.on_time(now);
    if (received || sent) spin.begin(now);
    // After packets of the interface the programs that send them have their turn.
    const bool awake = received || spin.again(now);
    // While there is traffic, a system call in each round would cost too much.
    if (awake && now < look) continue;
    counters_.sleeps += !awake;
    look = now + kBusyInterval;
    pollfd fds[] = {{signals_, POLLIN, 0},
                    {link.news(), POLLIN, 0},
                    {link.may_read() ? tun_.descriptor() : -1, POLLIN, 0}};
    const timespec pause = awake ? timespec{} : until(next, now);
    if (VipxPoll(link.queue(), fds, 3, &pause, nullptr) < 0) {
      if (errno == EINTR) continue;
      if (errno != ENODEV) fail("waiting");
      std::fprintf(stderr, "lanevid: the agent has gone away\n");
      link_.reset();
      return;
    }
    if (fds[0].revents != 0) take_signals();
    if (fds[1].revents != 0) link.take_news();
  }
}

void Service::wait_for_agent() {
  pollfd fds[] = {{signals_, POLLIN, 0}, {tun_.descriptor(), POLLIN, 0}};
  poll(fds, 2, kAgentIntervalMs);
  if (fds[0].revents != 0) take_signals();
  drop_packets();
  if (!stopped_) open_link();
}

// Old packets would be of no use when the agent comes back.
void Service::drop_packets() {
  static std::uint8_t packet[kMessageBytes];
  while (tun_.read(packet, sizeof packet) > 0) ++counters_.drop_no_agent;
}

void Service::take_signals() {
  signalfd_siginfo got;
  while (read(signals_, &got, sizeof got) == sizeof got) {
    if (got.ssi_signo == SIGUSR1) {
      std::fputs(counters_.text().c_str(), stdout);
      std::fflush(stdout);
    } else {
      stopped_ = true;
    }
  }
}

}  // namespace viaduct::lanevi
