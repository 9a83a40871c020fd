// Runs a program in a sandbox, as a service or a container has it before it begins.
//
//   filter_tool FILTER [FILE] PROGRAM [ARGUMENT...]
//
//   systemd FILE   SystemCallFilter= of these numbers, one a line: another call ends the process
//   docker         the default profile of Docker and podman: what it does not list fails with EPERM
//   families       RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
//   landlock       abstract sockets of other domains can't be connected to
//   ring           no sandbox: the program begins with a ring of io_uring
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#elif defined(__riscv)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_RISCV64;
#endif

class Filter {
 public:
  Filter() {
    add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch));
    add(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0);
    add(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  }
  void answer(long call, std::uint32_t with) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 1);
    add(BPF_RET | BPF_K, with);
  }
  // For calls whose first argument has this value (`jump` BPF_JEQ), or one of these bits (BPF_JSET).
  void answer_if(long call, std::uint16_t jump, std::uint32_t value, std::uint32_t with) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 4);
    add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args));
    add(static_cast<std::uint16_t>(BPF_JMP | jump | BPF_K), value, 0, 1);
    add(BPF_RET | BPF_K, with);
    add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  }
  bool install(std::uint32_t otherwise) {
    add(BPF_RET | BPF_K, otherwise);
    const sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  }

 private:
  void add(std::uint16_t what, std::uint32_t k, std::uint8_t yes = 0, std::uint8_t no = 0) {
    code_.push_back({what, yes, no, k});
  }
  std::vector<sock_filter> code_;
};

bool systemd(const char* file) {
  Filter filter;
  std::ifstream numbers(file);
  for (long number; numbers >> number;) filter.answer(number, SECCOMP_RET_ALLOW);
  return filter.install(SECCOMP_RET_KILL_PROCESS);
}

// Of the calls that the profile does not list, those that exist on all processors, and those that a library might make.
bool docker() {
  constexpr std::uint32_t kRefused = SECCOMP_RET_ERRNO | EPERM;
  constexpr std::uint32_t kNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                                        CLONE_NEWPID | CLONE_NEWNET;
  Filter filter;
  for (const long call : {SYS_acct, SYS_add_key, SYS_bpf, SYS_clock_adjtime, SYS_clock_settime, SYS_delete_module,
                          SYS_finit_module, SYS_fsopen, SYS_init_module, SYS_io_uring_setup, SYS_io_uring_enter,
                          SYS_io_uring_register, SYS_kcmp, SYS_kexec_load, SYS_keyctl, SYS_mbind, SYS_mount,
                          SYS_move_mount, SYS_move_pages, SYS_open_tree, SYS_perf_event_open, SYS_pivot_root,
                          SYS_quotactl, SYS_reboot, SYS_request_key, SYS_set_mempolicy, SYS_setns, SYS_settimeofday,
                          SYS_swapoff, SYS_swapon, SYS_umount2, SYS_unshare, SYS_userfaultfd}) {
    filter.answer(call, kRefused);
  }
  filter.answer(SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS);
  filter.answer_if(SYS_clone, BPF_JSET, kNamespaces, kRefused);
  filter.answer_if(SYS_socket, BPF_JEQ, AF_VSOCK, kRefused);
  return filter.install(SECCOMP_RET_ALLOW);
}

bool families() {
  Filter filter;
  for (std::uint32_t family = 0; family < AF_MAX; ++family) {
    if (family == AF_INET || family == AF_INET6 || family == AF_UNIX) continue;
    filter.answer_if(SYS_socket, BPF_JEQ, family, SECCOMP_RET_ERRNO | EAFNOSUPPORT);
  }
  return filter.install(SECCOMP_RET_ALLOW);
}

// As in <linux/landlock.h> of Linux 6.12.
bool landlock() {
  constexpr long kCreate = 444, kRestrict = 446;
  const struct {
    std::uint64_t files, network, scoped;
  } rules{0, 0, 1};
  const long set = syscall(kCreate, &rules, sizeof rules, 0);
  return set >= 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(kRestrict, set, 0) == 0;
}

bool ring() {
  char parameters[120] = {};
  const long fd = syscall(SYS_io_uring_setup, 8, parameters);
  return fd >= 0 && fcntl(static_cast<int>(fd), F_SETFD, 0) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string kind = argc > 2 ? argv[1] : "";
  bool good = false;
  int program = 2;
  if (kind == "systemd" && argc > 3) good = systemd(argv[program++]);
  if (kind == "docker") good = docker();
  if (kind == "families") good = families();
  if (kind == "landlock") good = landlock();
  if (kind == "ring") good = ring();
  if (!good) {
    std::printf("no such sandbox here: %s\n", std::strerror(errno));
    return 77;
  }
  execvp(argv[program], argv + program);
  std::perror(argv[program]);
  return 2;
}
