// privileges_tool CALL: gives privileges up as the agent does and then makes this system call.
// Status 0: as it should be (what must be refused was, what must be allowed was); a deadly call ends
// the process by SIGSYS; 1 else.
#include <fcntl.h>
#include <linux/bpf.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "kagent/agent/process/privileges.h"

namespace {

bool refused(long result) { return result < 0 && errno == EPERM; }

bool spawns() {
  char name[] = "true";
  char* arguments[] = {name, nullptr};
  pid_t child = 0;
  int status = 0;
  return posix_spawn(&child, "/bin/true", nullptr, nullptr, arguments, environ) == 0 &&
         waitpid(child, &status, 0) == child && status == 0;
}

const std::map<std::string, std::function<bool()>> kCalls = {
    // They do not come back.
    {"mount", [] { return mount("none", "/nonexistent", "tmpfs", 0, nullptr) != 0 && false; }},
    {"ptrace", [] { return ptrace(PTRACE_ATTACH, 1, nullptr, nullptr) != 0 && false; }},
    {"setns", [] { return setns(-1, 0) != 0 && false; }},
    {"userfaultfd", [] { return syscall(SYS_userfaultfd, 0) != 0 && false; }},
    {"module", [] { return syscall(SYS_finit_module, -1, "", 0) != 0 && false; }},
    {"setuid", [] { return syscall(SYS_setuid, 65534) != 0 && false; }},
    // They fail.
    {"clone-newnet", [] { return refused(syscall(SYS_clone, CLONE_NEWNET | 17, 0, 0, 0, 0)); }},
    {"socket-vsock", [] { return refused(socket(AF_VSOCK, SOCK_STREAM, 0)); }},
    {"bpf-iterate", [] {
       bpf_attr attributes{};
       return refused(syscall(SYS_bpf, BPF_PROG_GET_NEXT_ID, &attributes, sizeof attributes));
     }},
    {"io-uring", [] { return refused(syscall(SYS_io_uring_setup, 1, nullptr)); }},
    {"raise", [] { return refused(syscall(SYS_personality, 0)); }},
    // They work.
    {"thread", [] {
       bool ran = false;
       std::thread([&ran] { ran = true; }).join();
       return ran;
     }},
    {"spawn", spawns},
    {"socket-unix", [] { return socket(AF_UNIX, SOCK_STREAM, 0) >= 0; }},
};

}  // namespace

int main(int argc, char** argv) {
  const auto call = argc == 2 ? kCalls.find(argv[1]) : kCalls.end();
  if (call == kCalls.end()) {
    std::fprintf(stderr, "usage: privileges_tool CALL\n");
    return 2;
  }
  const std::string text = viaduct::drop_privileges(false, false);
  if (text.find("not filtered") != text.npos) {
    std::printf("%s\n", text.c_str());
    return 77;
  }
  if (call->second()) return 0;
  std::printf("%s: not as it should be (%s)\n", argv[1], std::strerror(errno));
  return 1;
}
