// A program with a finisher (VipxSetFinisher) that ends in some way, and what the finisher sees and may do.
//
//   finisher_tool HOW    killed, aborts, exits (by _exit), runs (by exec); closes the NIC, takes the finisher back; adopts:
//                        the parent of orphans, which has no finisher
//
// Prints what is wrong; exit status 0: nothing.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>

#include "vipl/vipl_ext.h"

namespace {

constexpr int kSteps = 3;

// In memory that outlives the program.
struct Seen {
  std::atomic<int> steps{0};
  std::atomic<int> process{0};
  int of_program = 0;  // a number in the program's memory
  int open_error = 0, signal_error = 0, pipe_error = 0;
  int pipe = -1;
};
Seen* g_seen;
int g_number = 0;
VIP_CQ_HANDLE g_cq;

int error_of(long result) { return result < 0 ? errno : 0; }

int step(void*) {
  Seen& seen = *g_seen;
  seen.process.store(getpid());
  seen.of_program = g_number;
  seen.open_error = error_of(open("/dev/null", O_RDONLY));
  seen.signal_error = error_of(kill(getppid(), 0));
  seen.pipe_error = error_of(write(seen.pipe, "", 1));
  VIP_VI_HANDLE vi;
  VIP_BOOLEAN receive;
  VipCQWait(g_cq, 5, &vi, &receive);
  return ++seen.steps < kSteps ? 1 : 0;
}

[[noreturn]] void program(const std::string& how) {
  VIP_NIC_HANDLE nic;
  if (how == "adopts") {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    const bool refused = VipOpenNic("nic0", &nic) == VIP_SUCCESS && VipxSetFinisher(nic, step, nullptr) == VIP_ERROR_RESOURCE;
    _exit(refused ? 0 : 3);
  }
  if (VipOpenNic("nic0", &nic) != VIP_SUCCESS || VipCreateCQ(nic, 64, &g_cq) != VIP_SUCCESS ||
      VipxSetFinisher(nic, step, nullptr) != VIP_SUCCESS) {
    std::printf("there is no NIC with a finisher\n");
    std::fflush(stdout);
    _exit(3);
  }
  if (waitpid(-1, nullptr, __WALL | WNOHANG) != -1 || errno != ECHILD) {
    std::printf("the program has a child\n");
    std::fflush(stdout);
    _exit(3);
  }
  g_number = 42;  // the finisher has the memory as it is at the end
  if (how == "killed") kill(getpid(), SIGKILL);
  if (how == "aborts") raise(SIGABRT);
  if (how == "runs") execl("/bin/true", "true", nullptr);
  if (how == "closes") VipCloseNic(nic);
  if (how == "takes back") VipxSetFinisher(nic, nullptr, nullptr);
  _exit(0);
}

bool lives(int process) { return process != 0 && kill(process, 0) == 0; }

bool is(const char* what, int got, int expected) {
  if (got != expected) std::printf("%s: %d, expected %d\n", what, got, expected);
  return got == expected;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "";
  void* const page = mmap(nullptr, sizeof(Seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  g_seen = new (page) Seen;
  int ends[2];
  if (pipe(ends) != 0) return 2;
  g_seen->pipe = ends[1];
  const pid_t child = fork();
  if (child == 0) program(how);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 3) return 1;
  const bool expected = how != "closes" && how != "takes back" && how != "adopts";
  constexpr int kMostMs = 20'000;
  for (int ms = 0; expected && ms < kMostMs && (g_seen->steps < kSteps || lives(g_seen->process)); ++ms) {
    poll(nullptr, 0, 1);
  }
  bool good = is("steps", g_seen->steps, expected ? kSteps : 0);
  if (!expected) return good ? 0 : 1;
  good &= is("the finisher is left", lives(g_seen->process) ? 1 : 0, 0);
  good &= is("the program's memory", g_seen->of_program, 42);
  good &= is("error of open()", g_seen->open_error, EPERM);
  good &= is("error of kill()", g_seen->signal_error, EPERM);
  good &= is("error of a descriptor of the program", g_seen->pipe_error, EBADF);
  return good ? 0 : 1;
}
