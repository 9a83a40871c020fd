#include "examples/viabench/measure.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "examples/common/nic.h"

namespace viabench {

using via::Failure;
using via::format;

void enter_plain(const Site& site) {
  if (site.plain_netns.empty()) return;
  const Fd netns(open(("/run/netns/" + site.plain_netns).c_str(), O_RDONLY | O_CLOEXEC));
  if (!netns || setns(netns.get(), CLONE_NEWNET) != 0) {
    throw Failure(format("namespace %s: %s", site.plain_netns.c_str(), std::strerror(errno)));
  }
}

void OneWayTimes::report(const Reporter& report) {
  if (us_.empty()) throw Failure("all messages were lost");
  std::sort(us_.begin(), us_.end());
  const auto at = [&](double part) {
    return static_cast<double>(us_[static_cast<std::size_t>(part * double(us_.size() - 1) + 0.5)]);
  };
  report.value("us", at(0.5));
  report.value("p99_us", at(0.99));
  report.value("mean_us", std::accumulate(us_.begin(), us_.end(), 0.0) / double(us_.size()));
}

void report_arrivals(const Reporter& report, std::uint64_t received, std::uint64_t sent,
                     std::uint64_t size) {
  if (received == 0) throw Failure("nothing has arrived");
  report.value("messages", double(received));
  report.value("bytes", double(received) * double(size));
  report.value("lost_share", 1 - double(received) / double(std::max(sent, received)));
}

std::vector<pid_t> find_agents() {
  namespace fs = std::filesystem;
  std::vector<pid_t> found;
  std::error_code error;
  const fs::path own = fs::read_symlink("/proc/self/ns/net", error);
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::string command;
    std::ifstream(entry.path() / "comm") >> command;
    if (command != "viad" && command != "lt-viad") continue;
    if (fs::read_symlink(entry.path() / "ns/net", error) == own) found.push_back(std::stoi(name));
  }
  return found;
}

ProcessorTime::ProcessorTime(std::string end, bool agent) : end_(std::move(end)) {
  if (agent) agents_ = find_agents();
}

void ProcessorTime::begin() {
  own_before_ = own();
  agents_before_ = agents();
}

void ProcessorTime::report(const Reporter& report) const {
  report.value(end_ + "_cpu_ns", own() - own_before_);
  if (!agents_.empty()) report.value(end_ + "_agent_ns", agents() - agents_before_);
}

double ProcessorTime::own() const {
  double ns = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage use{};
    getrusage(who, &use);
    for (const timeval& t : {use.ru_utime, use.ru_stime}) {
      ns += double(t.tv_sec) * 1e9 + double(t.tv_usec) * 1e3;
    }
  }
  return ns;
}

// The clock of a process is finer than the ticks in /proc/PID/stat.
double ProcessorTime::agents() const {
  double ns = 0;
  for (const pid_t agent : agents_) {
    clockid_t clock;
    timespec t{};
    if (clock_getcpuclockid(agent, &clock) == 0 && clock_gettime(clock, &t) == 0) {
      ns += double(t.tv_sec) * 1e9 + double(t.tv_nsec);
    }
  }
  return ns;
}

}  // namespace viabench
