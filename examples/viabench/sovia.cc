#include "examples/viabench/sovia.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "examples/common/nic.h"
#include "examples/viabench/socket_crowd.h"
#include "examples/viabench/socket_transfer.h"
#include "examples/viabench/socket_web.h"
#include "examples/viabench/tcp_socket.h"
#include "examples/viabench/worker.h"

namespace viabench {
namespace {

using via::Failure;
using via::format;

constexpr char kGoesOn = 1, kBegins = 0;  // the first byte of an exchange before it measures

bool spins(const Case& c) { return c.wait == "poll"; }

// Configurations have small sends combined or not; else an answer is not to wait.
bool delays(const Case& c) { return c.what == "bandwidth" || (c.level != "default" && c.level != "messages"); }

void set(const char* variable, const std::string& value) { setenv(variable, value.c_str(), 1); }

void configure(const Case& c) {
  set("SOVIA_ROUTE", "lane");  // lanes are what is measured
  if (c.level == "messages") {
    set("SOVIA_MESSAGES", "1");
  } else if (c.level != "default") {
    set("SOVIA_CONFIG", c.level);
  }
  if (c.others == 0 || c.what != "latency") return;
  set("SOVIA_WINDOW", std::to_string(c.others));
  set("SOVIA_ACK_THRESHOLD", std::to_string(std::max(c.others / 2, 1u)));
}

[[noreturn]] void become(const Case& c, const Reporter& report, const std::string& host, const std::string& port) {
  configure(c);
  fcntl(report.fd(), F_SETFD, 0);
  std::vector<std::string> words{"sovia",        "run",          "--",          "/proc/self/exe",
                                 "--sovia-case", c.encode(),     "--sovia-report", std::to_string(report.fd())};
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  if (n <= 0) throw Failure("/proc is not there");
  words[3].assign(path, static_cast<std::size_t>(n));
  if (!port.empty()) words.insert(words.end(), {"--sovia-host", host, "--sovia-port", port});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  throw Failure(format("sovia: %s", std::strerror(errno)));
}

// Segments that TCP has carried from and to this host.
double tcp_segments() {
  std::ifstream file("/proc/net/snmp");
  std::vector<std::string> names;
  double sum = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    if (!(words >> word) || word != "Tcp:") continue;
    if (names.empty()) {
      while (words >> word) names.push_back(word);
      continue;
    }
    for (const std::string& name : names) {
      if (!(words >> word)) break;
      if (name == "InSegs" || name == "OutSegs") sum += std::strtod(word.c_str(), nullptr);
    }
  }
  return sum;
}

// ------------------------------------------------------------------------- before it measures

// Messages go to and fro until TCP has carried nothing for a while. Messages sent before the lane was open do not
// measure it.
void warm_lane(const TcpSocket& s) {
  constexpr std::chrono::milliseconds kSlice{30};
  constexpr std::chrono::seconds kMost{8};
  constexpr unsigned kLeast = 100;
  char message[64] = {kGoesOn};
  const Time end = Clock::now() + kMost;
  Time slice = Clock::now();
  double segments = tcp_segments();
  for (unsigned i = 0; Clock::now() < end; ++i) {
    s.send(message, sizeof message);
    s.receive(message, sizeof message);
    if (Clock::now() - slice < kSlice) continue;
    const double now = tcp_segments();
    if (i >= kLeast && now == segments) break;
    segments = now;
    slice = Clock::now();
  }
  message[0] = kBegins;
  s.send(message, sizeof message);
}

void answer_warming(const TcpSocket& s) {
  char message[64];
  for (;;) {
    s.receive(message, sizeof message);
    if (message[0] == kBegins) return;
    s.send(message, sizeof message);
  }
}

// A sample that the kernel carried is another measurement of TCP.
class ByTheKernel {
 public:
  void expect_none(const Case& c, const Reporter& report) const {
    constexpr double kSegment = 1448, kOfTheServers = 64;  // its lines, and some that were late
    const double segments = tcp_segments() - before_;
    report.value("kernel_segments", segments);
    const double bytes = double(c.size) * double(c.count);
    if (segments * kSegment > bytes / 100 + kOfTheServers * kSegment) {
      throw Failure(format("the kernel has carried %.0f segments: the lane was not open", segments));
    }
  }

 private:
  const double before_ = tcp_segments();
};

// ------------------------------------------------------------------------- ends

void near_end(const Case& c, const SoviaEnd& end, const Reporter& report) {
  const auto port = static_cast<std::uint16_t>(std::stoul(end.port));
  const auto connect = [&] { return TcpSocket::connect(end.host, port, spins(c), delays(c)); };
  // Whether a connection is worth a lane is what that is about.
  if (c.what == "web") return web_near(connect, c, report);
  if (is_crowd(c)) return crowd_near(connect, c, report, warm_lane);
  const TcpSocket s = connect();
  warm_lane(s);
  const ByTheKernel kernel;
  transfer_near(s, c, report, true);
  kernel.expect_none(c, report);
}

void far_end(const Case& c, const Reporter& report) {
  const TcpListener listener(spins(c), 0, delays(c));
  report.ready(std::to_string(listener.port()));
  if (c.what == "web") return web_far(listener, c);
  if (is_crowd(c)) return crowd_far(listener, c, report, answer_warming);
  const TcpSocket s = listener.accept();
  answer_warming(s);
  transfer_far(s, c, report, true);
}

}  // namespace

void sovia_near(const Case& c, const Site& site, const std::string& where, const Reporter& report) {
  become(c, report, site.peer, where);
}

void sovia_far(const Case& c, const Site&, const Reporter& report) { become(c, report, "", ""); }

bool sovia_available() {
  std::string said;
  return run_program({"sovia", "--version"}, &said) == 0;
}

int run_sovia_end(const SoviaEnd& end) {
  const Reporter report(end.report);
  try {
    const Case c = Case::decode(end.encoded);
    end.port.empty() ? far_end(c, report) : near_end(c, end, report);
  } catch (const std::exception& error) {
    report.failed(error.what());
    return 1;
  }
  return 0;
}

}  // namespace viabench
