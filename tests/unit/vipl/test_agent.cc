#include "tests/unit/vipl/test_agent.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "kagent/agent/control/counters_client.h"
#include "kagent/agent/process/log.h"
#include "kagent/agent/service/service.h"
#include "tests/sim/borrowed_port.h"
#include "tests/sim/sim_port.h"
#include "xdp/clock.h"
#include "xdp/host_port.h"

#ifdef __SANITIZE_THREAD__
// Tests fork, and children start threads.
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }
#endif

namespace viaduct::test {
namespace {

constexpr std::uint32_t kEnough = 1'000'000;

// A host may let only ancestors look into a process; the agent is no ancestor of its programs.
void let_the_agent_in() { prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); }

Config make_config(const TestAgent::Options& options, const std::string& name) {
  Config config;
  config.socket = name;
  config.name = "here";
  config.spin_us = 20;
  config.placement = control::Placement::kHosted;
  config.sessions_per_user = kEnough;
  config.user_limits.tables_mb = kEnough;
  config.hosts = {{"b", {2, 0, 0, 0, 0, 0x0b}}};
  config.limits.sessions = 160;
  config.limits.members = 16;
  config.limits.vis = options.vis;
  config.limits.cqs = 16;
  config.limits.regions = options.regions;
  config.limits.ptags = 64;
  config.limits.slots = options.slots;
  config.limits.max_transfer = 65536;
  std::size_t nics = 1;
  for (const unsigned group : options.others) nics += group;
  for (std::size_t i = 0; i < nics; ++i) {
    NicConfig nic;
    nic.interface = "via" + std::to_string(i);
    config.nics.push_back(nic);
  }
  return config;
}

// A network that the clock of this host moves.
class Link {
 public:
  explicit Link(const std::vector<unsigned>& others) : others_(others) {
    network_.set_filter([this](const SimPort& from, std::span<std::byte> frame) {
      if (frame[0] == std::byte{0xff}) ++queries_;
      const MacAddress address = from.address();
      const bool other = address[0] == 2 && address[5] >= kFirst;
      return !other || address[4] == (queries_ - 1) / kQueriesOfOne % others_.size();
    });
  }

  std::unique_ptr<Port> open(const std::string& interface) {
    if (interface == "via0") return std::make_unique<End>(network_, to_array(kNicAddress));
    std::size_t number = std::stoul(interface.substr(3)) - 1;
    std::uint8_t group = 0;
    while (number >= others_[group]) number -= others_[group++];
    return std::make_unique<End>(
        network_, MacAddress{2, 0, 0, 0, group, static_cast<std::uint8_t>(kFirst + number)});
  }

 private:
  static constexpr std::uint8_t kFirst = 0x10;
  static constexpr unsigned kQueriesOfOne = 2;  // discovery

  class End final : public sim::BorrowedPort {
   public:
    End(SimNetwork& network, const MacAddress& address)
        : BorrowedPort(network.add_host(address, kNicMtu)), network_(network) {}
    std::size_t receive(std::span<Frame> frames) override {
      network_.advance_to(monotonic_ns());
      return BorrowedPort::receive(frames);
    }
    bool alive() const override { return true; }

   private:
    SimNetwork& network_;
  };

  static MacAddress to_array(const std::uint8_t (&address)[6]) {
    MacAddress out;
    std::copy(std::begin(address), std::end(address), out.begin());
    return out;
  }

  std::vector<unsigned> others_;
  unsigned queries_ = 0;
  SimNetwork network_{SimOptions(), 1};
};

[[noreturn]] void serve(const TestAgent::Options& options, const std::string& name, int ready) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int fd = 3; fd < 4096; ++fd) {
    if (fd != ready) close(fd);
  }
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  try {
    log::open(log::Target::kStandardError, "", "off");
    const Config config = make_config(options, name);
    std::unique_ptr<Link> link;
    if (!options.others.empty()) link = std::make_unique<Link>(options.others);
    Service service(config, [&](const NicConfig& nic) {
      if (link != nullptr) return link->open(nic.interface);
      MacAddress address;
      std::copy(std::begin(kNicAddress), std::end(kNicAddress), address.begin());
      return HostPort::no_uplink(address, kNicMtu);
    });
    service.start();
    if (write(ready, "", 1) == 1) service.run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "agent: %s\n", error.what());
  }
  _exit(1);
}

}  // namespace

TestAgent::TestAgent(const Options& options) {
  static std::atomic<unsigned> made{0};
  [[maybe_unused]] static const int once = pthread_atfork(nullptr, nullptr, let_the_agent_in);
  let_the_agent_in();
  name_ = "@viaduct-test-" + std::to_string(getpid()) + "-" + std::to_string(made++);
  setenv(control::kSocketVariable, name_.c_str(), 1);
  int ready[2];
  if (pipe2(ready, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  fflush(nullptr);
  process_ = fork();
  if (process_ == 0) serve(options, name_, ready[1]);
  close(ready[1]);
  char byte;
  const bool begun = process_ > 0 && read(ready[0], &byte, 1) == 1;
  close(ready[0]);
  if (!begun) throw std::runtime_error("the agent does not start");
}

void TestAgent::die() {
  if (process_ <= 0) return;
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
  process_ = -1;
}

void TestAgent::hold() {
  kill(process_, SIGSTOP);
  waitpid(process_, nullptr, WUNTRACED);
}

void TestAgent::go_on() { kill(process_, SIGCONT); }

SharedSegment& TestAgent::session() {
  const std::vector<SharedSegment*> there = look();
  if (there.empty()) throw std::runtime_error("the agent has no session");
  return *there.front();
}

// The segments that the agent has open, those that have been seen for longest first.
std::vector<SharedSegment*> TestAgent::look() {
  const std::string folder = "/proc/" + std::to_string(process_) + "/fd";
  std::vector<ino_t> open;
  DIR* const files = opendir(folder.c_str());
  if (files == nullptr) throw std::runtime_error("no agent");
  while (const dirent* const entry = readdir(files)) {
    const std::string file = folder + "/" + entry->d_name;
    char target[64] = {};
    struct stat status {};
    if (readlink(file.c_str(), target, sizeof target - 1) < 0 ||
        std::strcmp(target, "/memfd:viaduct (deleted)") != 0 || stat(file.c_str(), &status) != 0) {
      continue;
    }
    open.push_back(status.st_ino);
    const auto same = [&](const SharedSegment& seen) { return seen.inode() == status.st_ino; };
    if (std::none_of(seen_.begin(), seen_.end(), same)) seen_.emplace_back(file.c_str());
  }
  closedir(files);
  std::vector<SharedSegment*> out;
  for (SharedSegment& seen : seen_) {
    if (std::find(open.begin(), open.end(), seen.inode()) != open.end()) out.push_back(&seen);
  }
  return out;
}

std::uint64_t TestAgent::counter(const std::string& name) const {
  const std::string text = fetch_counters(name_);
  const std::string row = "viaduct_stack_" + name + "{nic=\"via0\"} ";
  const std::size_t at = text.find(row);
  if (at == std::string::npos) throw std::runtime_error("no counter " + name);
  return std::stoull(text.substr(at + row.size()));
}

}  // namespace viaduct::test
