// The instructions of a send() and of a recv() on a lane, one line for each address: "send 1a2b" or "recv 1a2b", below
// a line with the file that the addresses are of. path.test makes the files that the two enter of it.
#include <link.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <set>

#include "sovia/sovia.h"
#include "tests/unit/sovia/laned_connection.h"

namespace {

constexpr int kWarmUp = 40;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::_Exit(1);
}

void mark() { __asm__ volatile("int3" ::: "memory"); }

void run() {
  viaduct::sovia::ready::Connection connection;
  connection.up();
  char byte = 'x';
  const auto send = [&] { return sovia_send(connection.fd(), &byte, 1, 0); };
  const auto receive = [&] { return sovia_recv(connection.fd(), &byte, 1, 0); };
  for (int i = 0; i < kWarmUp; ++i) {
    if (send() != 1) fail("send");
    connection.settle();
    connection.lane_takes();
    connection.lane_brings("y");
    if (receive() != 1) fail("recv");
    connection.settle();
  }
  connection.lane_brings("y");
  ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
  mark();
  send();
  mark();
  mark();
  receive();
  mark();
  _exit(0);
}

// Until the child has come to a mark; the addresses of what it has run by steps.
std::set<unsigned long long> go_on(pid_t child, bool by_steps) {
  std::set<unsigned long long> addresses;
  for (;;) {
    int status;
    if (ptrace(by_steps ? PTRACE_SINGLESTEP : PTRACE_CONT, child, nullptr, nullptr) != 0) fail("ptrace");
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP) fail("wait");
    siginfo_t why;
    if (ptrace(PTRACE_GETSIGINFO, child, nullptr, &why) != 0) fail("ptrace");
    if (why.si_code == SI_KERNEL) return addresses;  // int3
    user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, child, nullptr, &registers) != 0) fail("ptrace");
    addresses.insert(registers.rip);
  }
}

// Where this program is in memory.
int note_base(dl_phdr_info* info, std::size_t, void* base) {
  *static_cast<unsigned long long*>(base) = info->dlpi_addr;
  return 1;  // the first is the program itself
}

}  // namespace

int main() {
  char path[4096] = {};
  if (readlink("/proc/self/exe", path, sizeof path - 1) < 0) fail("readlink");
  std::puts(path);
  unsigned long long base = 0;
  dl_iterate_phdr(note_base, &base);
  std::fflush(stdout);
  const pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) run();
  int status;
  if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) fail("wait");
  for (const char* call : {"send", "recv"}) {
    for (const unsigned long long address : go_on(child, true)) std::printf("%s %llx\n", call, address - base);
    if (call[0] == 's') go_on(child, false);
  }
  ptrace(PTRACE_CONT, child, nullptr, nullptr);
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}
