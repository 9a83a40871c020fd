// How many instructions of user mode a call takes on a connection of 127.0.0.1: one line for each kind of call.
// Counted by single steps, so it is the same on a machine with other work. A system call is one instruction.
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iterator>

namespace {

constexpr int kWarmUp = 300;  // by then it is known that the connection gets no lane
constexpr const char* kCalls[] = {"recv that finds nothing", "poll", "epoll_wait", "send", "recv", "write", "read",
                                  "epoll_ctl, add", "epoll_ctl, change", "epoll_ctl, delete"};

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::_Exit(1);
}

void mark() { __asm__ volatile("int3" ::: "memory"); }

struct Connection {
  Connection() {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (listener < 0 || bind(listener, any, sizeof address) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, any, &bytes) != 0) {
      fail("listen");
    }
    one = ::socket(AF_INET, SOCK_STREAM, 0);
    if (connect(one, any, sizeof address) != 0) fail("connect");
    other = accept(listener, nullptr, nullptr);
    set = epoll_create1(0);
    other_set = epoll_create1(0);
    epoll_event event{};
    event.events = EPOLLIN;
    if (other < 0 || epoll_ctl(set, EPOLL_CTL_ADD, one, &event) != 0) fail("accept");
  }
  int one, other, set, other_set;
};

void make(std::size_t call, const Connection& connection) {
  char data[16] = {};
  pollfd polled{connection.one, POLLIN, 0};
  epoll_event event{};
  event.events = EPOLLIN;
  switch (call) {
    case 0: recv(connection.one, data, sizeof data, MSG_DONTWAIT); break;
    case 1: poll(&polled, 1, 0); break;
    case 2: epoll_wait(connection.set, &event, 1, 0); break;
    case 3: send(connection.one, data, sizeof data, 0); break;
    case 4: recv(connection.other, data, sizeof data, 0); break;
    case 5: if (write(connection.one, data, sizeof data) < 0) fail("write"); break;
    case 6: if (read(connection.other, data, sizeof data) < 0) fail("read"); break;
    case 7: if (epoll_ctl(connection.other_set, EPOLL_CTL_ADD, connection.one, &event) != 0) fail("add"); break;
    case 8: if (epoll_ctl(connection.other_set, EPOLL_CTL_MOD, connection.one, &event) != 0) fail("change"); break;
    case 9: if (epoll_ctl(connection.other_set, EPOLL_CTL_DEL, connection.one, &event) != 0) fail("delete"); break;
  }
}

void run() {
  const Connection connection;
  for (int i = 0; i < kWarmUp; ++i) {
    // A registration from before it was known that there is no lane is changed by the long way once.
    epoll_event event{};
    event.events = EPOLLIN;
    if (epoll_ctl(connection.set, EPOLL_CTL_MOD, connection.one, &event) != 0) fail("change");
    for (std::size_t call = 0; call < std::size(kCalls); ++call) make(call, connection);
  }
  ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
  for (std::size_t call = 0; call < std::size(kCalls); ++call) {
    mark();
    make(call, connection);
    mark();
  }
  _exit(0);
}

// Until the child has come to a mark; how many steps that took.
long go_on(pid_t child, bool by_steps) {
  for (long steps = 0;; ++steps) {
    int status;
    if (ptrace(by_steps ? PTRACE_SINGLESTEP : PTRACE_CONT, child, nullptr, nullptr) != 0) fail("ptrace");
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP) fail("wait");
    siginfo_t why;
    if (ptrace(PTRACE_GETSIGINFO, child, nullptr, &why) != 0) fail("ptrace");
    if (why.si_code == SI_KERNEL) return steps;  // int3
  }
}

}  // namespace

int main() {
#ifndef __OPTIMIZE__
  std::fputs("built without optimization\n", stderr);
  return 1;
#endif
  const pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) run();
  int status;
  if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) fail("wait");
  for (std::size_t call = 0; call < std::size(kCalls); ++call) {
    if (call != 0) go_on(child, false);
    std::printf("%s: %ld\n", kCalls[call], go_on(child, true));
  }
  ptrace(PTRACE_CONT, child, nullptr, nullptr);
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}
