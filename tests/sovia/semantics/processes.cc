// The part of calls.h that is about processes and signals.
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <exception>

#include "calls.h"

namespace semantics {
namespace {

std::atomic<int> alarms{0};
std::atomic<int> counted{0};

}  // namespace

pid_t fork_child(const std::function<int()>& body) {
  const pid_t child = must(fork(), "fork");
  if (child != 0) return child;
  int result = 120;
  try {
    result = body();
  } catch (const std::exception&) {
  }
  _exit(result);
}

std::string wait_child(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return "no child";
  }
  return exit_status(status);
}

Turn::Turn() {
  int ends[2];
  must(pipe(ends), "pipe");
  read_ = Fd(ends[0]);
  write_ = Fd(ends[1]);
}

void Turn::go() { must(write(write_, "", 1), "a turn"); }

bool Turn::wait() {
  char one;
  return read(read_, &one, 1) == 1;
}

std::string own_program() {
  char path[PATH_MAX];
  const ssize_t n = must(readlink("/proc/self/exe", path, sizeof path), "/proc/self/exe");
  return std::string(path, static_cast<std::size_t>(n));
}

Interrupts::Interrupts(bool restart, int interval_ms) {
  alarms = 0;
  struct sigaction action = {};
  action.sa_handler = [](int) { ++alarms; };
  action.sa_flags = restart ? SA_RESTART : 0;
  must(sigaction(SIGALRM, &action, nullptr), "sigaction");
  const timeval interval{0, interval_ms * 1000};
  const itimerval timer{interval, interval};
  must(setitimer(ITIMER_REAL, &timer, nullptr), "setitimer");
}

Interrupts::~Interrupts() {
  const itimerval none{};
  setitimer(ITIMER_REAL, &none, nullptr);
  signal(SIGALRM, SIG_DFL);
}

int Interrupts::seen() { return alarms; }

Counted::Counted(int number) : number_(number) {
  counted = 0;
  struct sigaction action = {};
  action.sa_handler = [](int) { ++counted; };
  action.sa_flags = SA_RESTART;
  must(sigaction(number, &action, nullptr), "sigaction");
}

Counted::~Counted() { signal(number_, SIG_DFL); }
int Counted::seen() { return counted; }

bool Counted::wait(int n) {
  for (int i = 0; i < kSoon && counted < n; ++i) pause_ms(1);
  return counted >= n;
}

}  // namespace semantics
