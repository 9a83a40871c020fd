#include "examples/viabench/server.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "examples/common/nic.h"
#include "examples/viabench/raw.h"
#include "examples/viabench/samples.h"
#include "examples/viabench/tcp_socket.h"
#include "examples/viabench/worker.h"

namespace viabench {
namespace {

constexpr int kSliceMs = 200;  // how often a wait looks whether the program is to end

// Runs the far end of one case. False when the near end has gone.
bool serve_case(LineReader& control, const Site& site, const std::string& text) {
  const Case c = Case::decode(text);
  Process worker =
      start_worker(control.fd(), [&](const Reporter& report) { far_sample(c, site, report); });
  const Fd ended(static_cast<int>(syscall(SYS_pidfd_open, worker.pid(), 0)));
  const Time limit = Clock::now() + kSampleLimit;
  const Reporter report(control.fd());
  int status = 0;
  while (!worker.ended(status)) {
    pollfd p[2] = {{ended.get(), POLLIN, 0}, {control.fd(), POLLIN, 0}};
    poll(p, 2, kSliceMs);
    if (p[1].revents != 0) {
      if (!control.fill()) return false;
      std::string line;
      if (control.take(line)) worker.end();  // "stop": there is nothing else to say now
    }
    if (Clock::now() >= limit) {
      report.failed("takes too long");
      worker.end();
    }
    if (via::stopped) return false;
  }
  if (WIFSIGNALED(status)) report.failed(std::string("ended: ") + strsignal(WTERMSIG(status)));
  return write_line(control.fd(), "end");
}

void serve(const TcpSocket& client, const Site& site) {
  LineReader control(client.fd());
  write_line(control.fd(), kGreeting);
  std::string line, rest;
  while (!via::stopped) {
    const LineReader::Result result =
        control.next(line, Clock::now() + std::chrono::milliseconds(kSliceMs));
    if (result == LineReader::Result::kEnd) return;
    if (result == LineReader::Result::kTime) continue;
    if (begins(line, "run", rest) && !serve_case(control, site, rest)) return;
    // "stop" for a sample that has ended by itself: nothing to do.
  }
}

}  // namespace

void run_server(const Options& options) {
  Site site = options.site;
  std::unique_ptr<RawInterface> raw;
  if (!options.interface.empty()) {
    raw = std::make_unique<RawInterface>("", options.interface);
    site.raw = raw->name();
  }
  const TcpListener listener(false, options.port);
  std::printf("viabench: waiting on port %u\n", unsigned{listener.port()});
  std::fflush(stdout);
  while (!via::stopped) {
    pollfd p{listener.fd(), POLLIN, 0};
    if (poll(&p, 1, kSliceMs) <= 0) continue;
    try {
      serve(listener.accept(), site);
    } catch (const via::Failure& failure) {
      std::fprintf(stderr, "viabench: %s\n", failure.what());
    }
  }
}

}  // namespace viabench
