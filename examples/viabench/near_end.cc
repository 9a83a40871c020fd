#include "examples/viabench/near_end.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "examples/common/nic.h"
#include "examples/viabench/lanevi.h"
#include "examples/viabench/papers.h"
#include "examples/viabench/plan.h"
#include "examples/viabench/raw.h"
#include "examples/viabench/samples.h"
#include "examples/viabench/server.h"
#include "examples/viabench/tcp_socket.h"
#include "examples/viabench/via_link.h"
#include "examples/viabench/worker.h"

namespace viabench {
namespace {

using via::Failure;
using via::format;

constexpr std::chrono::seconds kQuickLimit{45};  // for the rounds of a quick run
constexpr std::chrono::seconds kConnectLimit{10};
constexpr std::chrono::seconds kLeaveLimit{5};    // for a far end that is told to stop
constexpr std::chrono::milliseconds kGrace{500};  // for one end when the other has failed

TcpSocket connect_to_server(const Options& options) {
  for (const Time limit = Clock::now() + kConnectLimit;;) {
    try {
      return TcpSocket::connect(options.peer, options.port, false);
    } catch (const Failure& failure) {
      if (via::stopped) throw Failure("stopped");
      if (Clock::now() >= limit) {
        throw Failure(
            format("no `viabench --server' on %s: %s", options.peer.c_str(), failure.what()));
      }
    }
    usleep(50'000);
  }
}

// One sample.
class Sample {
 public:
  Sample(const Case& c, const Site& site, LineReader& control)
      : case_(c), site_(site), control_(control), far_open_(c.two_ends()) {}

  // Throws Failure when it failed.
  Figures run() {
    const Time limit = Clock::now() + kSampleLimit;
    if (far_open_) {
      if (!write_line(control_.fd(), "run " + case_.encode())) throw Failure("the server has gone");
      while (where_.empty() && far_open_) take_far_line(limit);
    }
    if (failure_.empty()) run_near(limit);
    if (!failure_.empty() && far_open_) write_line(control_.fd(), "stop");
    while (far_open_) take_far_line(Clock::now() + kLeaveLimit);
    if (!failure_.empty()) throw Failure(failure_);
    return figures_;
  }

 private:
  void fail(const std::string& text) {
    if (failure_.find(text) != std::string::npos) return;
    failure_ += (failure_.empty() ? "" : "; ") + text;
  }

  void take_far_line(Time limit) {
    std::string line;
    const LineReader::Result result = control_.next(line, limit);
    if (result == LineReader::Result::kLine) {
      far_says(line);
    } else if (result == LineReader::Result::kEnd) {
      throw ServerGone("the server has gone");
    } else {
      // A server that does not even answer "stop" is lost; the samples after this one would be too.
      throw ServerGone("the server does not answer");
    }
  }

  void far_says(const std::string& line) {
    std::string rest;
    if (begins(line, "ready", rest)) {
      where_ = rest;
    } else if (line == "end") {
      far_open_ = false;
      if (where_.empty() && failure_.empty()) fail("the far end has ended");
    } else {
      says("far end: ", line);
    }
  }

  void says(const char* who, const std::string& line) {
    std::string rest;
    if (begins(line, "failed", rest)) {
      fail(who + rest);
    } else if (begins(line, "value", rest)) {
      const std::size_t space = rest.find(' ');
      if (space != std::string::npos) {
        figures_[rest.substr(0, space)] = std::strtod(rest.c_str() + space, nullptr);
      }
    }
  }

  void run_near(Time limit) {
    int ends[2];
    if (pipe(ends) != 0) throw Failure(format("pipe: %s", std::strerror(errno)));
    const Fd from(ends[0]);
    Fd to(ends[1]);
    Process near = start_worker(
        to.get(), [&](const Reporter& report) { near_sample(case_, site_, where_, report); });
    to.reset();
    LineReader lines(from.get());
    std::string line;
    bool failing = false;
    for (bool open = true; open && Clock::now() < limit;) {
      pollfd p[2] = {{from.get(), POLLIN, 0}, {far_open_ ? control_.fd() : -1, POLLIN, 0}};
      poll(p, 2, 100);
      if (via::stopped) throw Failure("stopped");
      if (p[0].revents != 0) open = lines.fill();
      while (lines.take(line)) says("near end: ", line);
      if (p[1].revents != 0 && !control_.fill()) throw ServerGone("the server has gone");
      while (far_open_ && control_.take(line)) far_says(line);
      if (!failure_.empty() && !failing) {
        failing = true;
        limit = std::min(limit, Clock::now() + kGrace);
      }
    }
    int status = 0;
    for (int i = 0; i < 100 && !near.ended(status); ++i) usleep(1000);
    if (near.running()) {
      if (failure_.empty()) fail("near end: takes too long");
      near.end();
    } else if (WIFSIGNALED(status)) {
      fail(std::string("near end: ended: ") + strsignal(WTERMSIG(status)));
    }
  }

 public:
  struct ServerGone : Failure {
    using Failure::Failure;
  };

 private:
  const Case& case_;
  const Site& site_;
  LineReader& control_;
  bool far_open_;
  std::string where_, failure_;
  Figures figures_;
};

// The MTU of the way to the other host.
std::uint32_t mtu_to(const TcpSocket& server) {
  int mtu = 0;
  socklen_t length = sizeof mtu;
  getsockopt(server.fd(), IPPROTO_IP, IP_MTU, &mtu, &length);
  return static_cast<std::uint32_t>(mtu);
}

std::string describe_hosts(const Options& options) {
  utsname system{};
  uname(&system);
  const std::string where = options.site.plain_netns.empty() ? "to " + options.peer
                            : options.half < 0 ? "both hosts on this machine, on all processors"
                                               : "both hosts on this machine, each on half of them";
  return format("Linux %s, %ld processors, %s, MTU %u", system.release,
                sysconf(_SC_NPROCESSORS_ONLN), where.c_str(), options.mtu);
}

void tell_round(std::uint32_t round, const Options& options, std::size_t cases) {
  std::fprintf(stderr, "viabench: round %u of %u, %zu cases\n", round, options.rounds, cases);
}

}  // namespace

Results measure(Options options) {
  const Time begin = Clock::now();
  Site site = options.site;
  site.peer = options.peer;
  std::unique_ptr<RawInterface> raw;
  if (!options.interface.empty()) {
    raw = std::make_unique<RawInterface>("", options.interface);
    site.raw = raw->name();
  }
  const TcpSocket server = connect_to_server(options);
  LineReader control(server.fd());
  std::string line;
  if (control.next(line, Clock::now() + kConnectLimit) != LineReader::Result::kLine ||
      line != kGreeting) {
    throw Failure("what answers is not a viabench of this version, or it is busy");
  }

  options.mtu = mtu_to(server);
  Results results;
  results.mtu = options.mtu;
  results.hosts = describe_hosts(options);
  std::string reason;
  const Available available{!site.raw.empty(), !site.tcp_link.empty(), granted_available(site, reason),
                            options.papers && sovia_available(), options.papers && lanevi_available()};
  if (options.papers && !available.sovia) results.notes.push_back("SOVIA: not available: there is no `sovia'");
  if (options.papers && !available.lanevi) results.notes.push_back("LANEVI: not available: no `lanevid', or not root");
  if (!available.granted) results.notes.push_back("granted: not available (" + reason + ")");
  if (!available.raw) {
    results.notes.push_back("raw AF_XDP: not measured; it needs --interface at both ends");
  }
  for (const std::string& note : results.notes)
    std::fprintf(stderr, "viabench: %s\n", note.c_str());
  const std::vector<Case> plan = options.papers ? plan_papers(options, available) : make_plan(options, available);
  for (const Case& c : plan) results.all.push_back({c, {}, {}});

  const std::size_t cases = results.all.size();
  for (std::uint32_t round = 1; round <= options.rounds; ++round) {
    tell_round(round, options, cases);
    results.rounds = round;
    for (std::size_t i = 0; i < cases; ++i) {
      if (options.quick && Clock::now() - begin > kQuickLimit) {
        results.notes.push_back(format("the time was over in round %u", round));
        return results;
      }
      // To and fro, so that a machine that becomes slower or faster does not favour any case.
      Result& result = results.all[round % 2 == 1 ? i : cases - 1 - i];
      try {
        result.add(Sample(result.of, site, control).run());
      } catch (const Sample::ServerGone& gone) {
        results.notes.push_back(format("in round %u: %s", round, gone.what()));
        return results;
      } catch (const Failure& failure) {
        if (via::stopped) {
          results.notes.push_back(format("stopped in round %u", round));
          return results;
        }
        result.failures.push_back(failure.what());
        std::fprintf(stderr, "viabench: %s: %s\n", result.of.id().c_str(), failure.what());
      }
    }
  }
  return results;
}

}  // namespace viabench
