#include "examples/viabench/worker.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "examples/common/nic.h"

namespace viabench {

using via::Failure;

Process::Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}

Process& Process::operator=(Process&& other) noexcept {
  if (this != &other) {
    end();
    pid_ = std::exchange(other.pid_, -1);
  }
  return *this;
}

bool Process::ended(int& status) {
  if (pid_ <= 0) return true;
  const pid_t is = waitpid(pid_, &status, WNOHANG);
  if (is == 0 || (is < 0 && errno == EINTR)) return false;
  pid_ = -1;
  return true;
}

void Process::end() {
  constexpr int kPolite = 2000;  // tries, a millisecond each
  int status;
  if (pid_ > 0) kill(pid_, SIGTERM);
  for (int i = 0; i < kPolite && !ended(status); ++i) usleep(1000);
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

namespace {

// In the child: to end with the parent, and to have signals as usual.
void settle(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD}) signal(s, SIG_DFL);
}

pid_t fork_child() {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw Failure(via::format("fork: %s", std::strerror(errno)));
  if (child == 0) settle(parent);
  return child;
}

[[noreturn]] void execute(const std::vector<std::string>& arguments) {
  std::vector<char*> words;
  for (const std::string& a : arguments) words.push_back(const_cast<char*>(a.c_str()));
  words.push_back(nullptr);
  execvp(words[0], words.data());
  const std::string text = arguments[0] + ": " + std::strerror(errno) + "\n";
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) _exit(126);
  _exit(127);
}

}  // namespace

Process start_worker(int report_to, const std::function<void(const Reporter&)>& work) {
  const pid_t child = fork_child();
  if (child > 0) return Process(child);
  // Nothing of the parent's may be undone in here: _exit, whatever happens.
  const Reporter report(report_to);
  try {
    work(report);
  } catch (const std::exception& error) {
    report.failed(error.what());
    _exit(1);
  }
  _exit(0);
}

Process start_program(const std::vector<std::string>& arguments, bool quiet) {
  const pid_t child = fork_child();
  if (child > 0) return Process(child);
  const int null = open("/dev/null", O_RDWR);
  dup2(null, STDIN_FILENO);
  if (quiet) dup2(null, STDOUT_FILENO);
  execute(arguments);
}

int run_program(const std::vector<std::string>& arguments, std::string* output, int seconds) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Failure(via::format("pipe: %s", std::strerror(errno)));
  const Fd from(ends[0]);
  Fd to(ends[1]);
  const pid_t child = fork_child();
  if (child == 0) {
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(to.get(), STDOUT_FILENO);
    dup2(to.get(), STDERR_FILENO);
    execute(arguments);
  }
  Process process(child);
  to.reset();
  fcntl(from.get(), F_SETFL, O_NONBLOCK);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  const auto drain = [&] {
    char piece[4096];
    for (ssize_t n; (n = read(from.get(), piece, sizeof piece)) > 0;) {
      if (output != nullptr) output->append(piece, static_cast<std::size_t>(n));
    }
  };
  int status = 0;
  while (!process.ended(status)) {
    drain();
    if (std::chrono::steady_clock::now() >= limit) return -1;
    usleep(2000);
  }
  drain();
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace viabench
