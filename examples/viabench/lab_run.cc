#include "examples/viabench/lab_run.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "examples/common/nic.h"
#include "examples/viabench/raw.h"
#include "examples/viabench/worker.h"

namespace viabench {
namespace {

using via::Failure;
using via::format;
namespace fs = std::filesystem;

constexpr char kPeerAddress[] = "10.77.0.2";  // of host b in every lab

std::string own_path() {
  char path[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  if (n <= 0) throw Failure("/proc is not there");
  return std::string(path, static_cast<std::size_t>(n));
}

// Beside this program where they are installed, or in the source of its build tree.
std::string lab_path() {
  const fs::path here = fs::path(own_path()).parent_path();
  std::error_code error;
  const fs::path build = here.filename() == ".libs" ? here.parent_path() : here;
  if (fs::exists(build / "config.status", error) && getenv("VIADUCT_BUILD") == nullptr) {
    setenv("VIADUCT_BUILD", build.c_str(), 1);
  }
  const char* const tree = getenv("VIADUCT_BUILD");
  std::vector<fs::path> places{here / "vialab", build / ".." / "tests/lab/vialab"};
  if (tree != nullptr) places.push_back(fs::path(tree) / ".." / "tests/lab/vialab");
  for (const fs::path& place : places) {
    if (access(place.c_str(), X_OK) == 0) return place;
  }
  return "vialab";  // on the search path, or run_program tells that it is missing
}

// Takes the labs down when this program is gone, however it ended. It lives in a process of its own that waits for the
// end of a pipe; only this program has the pipe's other end.
class Guardian {
 public:
  Guardian(const std::string& lab, const std::vector<std::string>& names) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw Failure(format("pipe: %s", std::strerror(errno)));
    pid_ = fork();
    if (pid_ < 0) throw Failure(format("fork: %s", std::strerror(errno)));
    if (pid_ == 0) {
      close(ends[1]);
      watch(ends[0], lab, names);
    }
    close(ends[0]);
    end_.reset(new Fd(ends[1]));
  }
  ~Guardian() {
    end_.reset();
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

 private:
  [[noreturn]] static void watch(int from, const std::string& lab,
                                 const std::vector<std::string>& names) {
    setsid();
    for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) signal(s, SIG_IGN);
    char byte;
    while (read(from, &byte, 1) < 0 && errno == EINTR) {
    }
    try {
      for (const std::string& name : names) {
        std::string ignored;
        run_program({lab, "down", "--name", name}, &ignored);
      }
    } catch (...) {
      _exit(1);
    }
    _exit(0);
  }

  pid_t pid_ = -1;
  std::unique_ptr<Fd> end_;
};

void must_run(const std::vector<std::string>& command) {
  std::string output;
  if (run_program(command, &output) != 0) {
    throw Failure(via::stopped ? "stopped" : command[0] + " " + command[1] + ": " + output);
  }
}

}  // namespace

int run_in_lab(const Options& options, int argc, char** argv) {
  if (geteuid() != 0) {
    throw Failure(
        "must be run as root: it makes network namespaces. Between two hosts: --server, --peer");
  }
  const std::string lab = lab_path();
  const std::string name = format("vb-%d", getpid());
  const std::string plain = name + "-plain";
  const std::string mtu = std::to_string(options.mtu);
  const Guardian guardian(lab, {name, plain});
  std::vector<std::string> up{lab, "up", "--name", name, "--mtu", mtu}, up_plain{lab, "up", "--name", plain, "--mtu", mtu, "--no-agent"};
  if (!options.config.empty()) up.insert(up.end(), {"--config", options.config});
  if (!options.switch_ports.empty()) {
    for (auto* const each : {&up, &up_plain}) each->insert(each->end(), {"--switch", options.switch_ports});
  }
  must_run(up);
  must_run(up_plain);

  const auto netns = [&](const char* host) { return "viaduct-" + plain + "-" + host; };
  // They stay until their namespaces go.
  const RawInterface raw_a(netns("a"), "via0"), raw_b(netns("b"), "via0");
  const auto on = [&](const char* host) {
    return std::vector<std::string>{lab,     "exec",       "--name",        name,
                                    host,    own_path(),   "--plain-netns", netns(host),
                                    "--raw", raw_a.name(), "--tcp-link",    "via0"};
  };
  std::vector<std::string> far = on("b"), near = on("a");
  far.push_back("--server");
  if (!options.share) {
    near.insert(near.end(), {"--half", "0"});
    far.insert(far.end(), {"--half", "1"});
  }
  near.insert(near.end(), {"--peer", kPeerAddress});
  near.insert(near.end(), argv + 1, argv + argc);

  Process server = start_program(far, true);
  Process measuring = start_program(near);
  int status = 0;
  while (!measuring.ended(status)) {
    if (via::stopped) {
      measuring.end();
      throw Failure("stopped");
    }
    usleep(20'000);
  }
  server.end();
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace viabench
