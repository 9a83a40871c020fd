#include "kagent/agent/process/seccomp.h"

#include <config.h>

#ifdef HAVE_SECCOMP
#include <linux/bpf.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>
#include <system_error>
#endif

namespace viaduct {

#if !defined(HAVE_SECCOMP)

std::string install_seccomp_filter() { return "built without libseccomp"; }

#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

std::string install_seccomp_filter() { return "a sanitizer is built in"; }

#else

namespace {

// Calls that are allowed whatever their arguments. The first lines are those of the data path; the order does not
// matter.
constexpr int kAllowed[] = {
    SCMP_SYS(sendto), SCMP_SYS(recvfrom), SCMP_SYS(pread64), SCMP_SYS(pwrite64),
    SCMP_SYS(sched_yield), SCMP_SYS(futex), SCMP_SYS(poll), SCMP_SYS(ppoll),
    SCMP_SYS(epoll_wait), SCMP_SYS(epoll_pwait), SCMP_SYS(epoll_pwait2), SCMP_SYS(epoll_ctl),
    SCMP_SYS(clock_gettime), SCMP_SYS(getrandom), SCMP_SYS(read), SCMP_SYS(write),
    SCMP_SYS(readv), SCMP_SYS(writev), SCMP_SYS(sendmsg), SCMP_SYS(recvmsg), SCMP_SYS(sendmmsg),
    SCMP_SYS(recvmmsg),
    // Sessions and ports, as they come and go.
    SCMP_SYS(accept), SCMP_SYS(accept4), SCMP_SYS(bind), SCMP_SYS(listen), SCMP_SYS(connect),
    SCMP_SYS(socketpair), SCMP_SYS(shutdown), SCMP_SYS(getsockname), SCMP_SYS(getpeername),
    SCMP_SYS(getsockopt), SCMP_SYS(setsockopt), SCMP_SYS(ioctl), SCMP_SYS(epoll_create1),
    SCMP_SYS(eventfd2), SCMP_SYS(timerfd_create), SCMP_SYS(timerfd_settime), SCMP_SYS(signalfd4),
    SCMP_SYS(pipe2), SCMP_SYS(memfd_create), SCMP_SYS(ftruncate), SCMP_SYS(fallocate),
    SCMP_SYS(pidfd_open), SCMP_SYS(pidfd_send_signal),
    // Memory.
    SCMP_SYS(mmap), SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(mprotect), SCMP_SYS(madvise),
    SCMP_SYS(brk), SCMP_SYS(mlock), SCMP_SYS(munlock), SCMP_SYS(mincore), SCMP_SYS(membarrier),
    // Files: the log, the pid file, what /proc and /sys say, BPF objects.
    SCMP_SYS(open), SCMP_SYS(openat), SCMP_SYS(close), SCMP_SYS(close_range), SCMP_SYS(lseek),
    SCMP_SYS(stat), SCMP_SYS(lstat), SCMP_SYS(fstat), SCMP_SYS(newfstatat), SCMP_SYS(statx),
    SCMP_SYS(statfs), SCMP_SYS(fstatfs), SCMP_SYS(access), SCMP_SYS(faccessat),
    SCMP_SYS(faccessat2), SCMP_SYS(readlink), SCMP_SYS(readlinkat), SCMP_SYS(getdents64),
    SCMP_SYS(mkdir), SCMP_SYS(mkdirat), SCMP_SYS(rmdir), SCMP_SYS(unlink), SCMP_SYS(unlinkat),
    SCMP_SYS(rename), SCMP_SYS(renameat), SCMP_SYS(renameat2), SCMP_SYS(flock), SCMP_SYS(fcntl),
    SCMP_SYS(fsync), SCMP_SYS(fdatasync), SCMP_SYS(umask), SCMP_SYS(fchmod), SCMP_SYS(chmod),
    SCMP_SYS(fchmodat), SCMP_SYS(dup), SCMP_SYS(dup2), SCMP_SYS(dup3), SCMP_SYS(chdir),
    SCMP_SYS(fchdir), SCMP_SYS(getcwd),
    // The process itself, its threads, and xdp-guard.
    SCMP_SYS(execve), SCMP_SYS(vfork), SCMP_SYS(wait4), SCMP_SYS(waitid), SCMP_SYS(exit),
    SCMP_SYS(exit_group), SCMP_SYS(kill), SCMP_SYS(tgkill), SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(rt_sigtimedwait),
    SCMP_SYS(sigaltstack), SCMP_SYS(restart_syscall), SCMP_SYS(setsid), SCMP_SYS(getpid),
    SCMP_SYS(getppid), SCMP_SYS(gettid), SCMP_SYS(getuid), SCMP_SYS(geteuid), SCMP_SYS(getgid),
    SCMP_SYS(getegid), SCMP_SYS(getgroups), SCMP_SYS(capget), SCMP_SYS(getrlimit),
    SCMP_SYS(prlimit64), SCMP_SYS(getrusage), SCMP_SYS(set_tid_address),
    SCMP_SYS(set_robust_list), SCMP_SYS(rseq), SCMP_SYS(arch_prctl), SCMP_SYS(sched_getaffinity),
    SCMP_SYS(sched_setaffinity), SCMP_SYS(sched_getparam), SCMP_SYS(sched_getscheduler),
    SCMP_SYS(uname), SCMP_SYS(sysinfo), SCMP_SYS(nanosleep), SCMP_SYS(clock_nanosleep),
    SCMP_SYS(clock_getres), SCMP_SYS(gettimeofday), SCMP_SYS(time), SCMP_SYS(getcpu),
};

constexpr int kDeadly[] = {
    SCMP_SYS(ptrace), SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev),
    SCMP_SYS(process_madvise), SCMP_SYS(pidfd_getfd), SCMP_SYS(mount), SCMP_SYS(umount2),
    SCMP_SYS(move_mount), SCMP_SYS(open_tree), SCMP_SYS(fsopen), SCMP_SYS(fsmount),
    SCMP_SYS(pivot_root), SCMP_SYS(chroot), SCMP_SYS(setns), SCMP_SYS(unshare),
    SCMP_SYS(init_module), SCMP_SYS(finit_module), SCMP_SYS(delete_module), SCMP_SYS(kexec_load),
    SCMP_SYS(kexec_file_load), SCMP_SYS(reboot), SCMP_SYS(swapon), SCMP_SYS(swapoff),
    SCMP_SYS(open_by_handle_at), SCMP_SYS(userfaultfd), SCMP_SYS(perf_event_open),
    SCMP_SYS(iopl), SCMP_SYS(ioperm), SCMP_SYS(add_key), SCMP_SYS(request_key), SCMP_SYS(keyctl),
    SCMP_SYS(acct), SCMP_SYS(quotactl), SCMP_SYS(settimeofday), SCMP_SYS(clock_settime),
    SCMP_SYS(sethostname), SCMP_SYS(setdomainname), SCMP_SYS(setuid), SCMP_SYS(setgid),
    SCMP_SYS(setresuid), SCMP_SYS(setresgid), SCMP_SYS(setgroups), SCMP_SYS(capset),
};

// Commands of libbpf and libxdp that make, look at, attach and detach; none that iterates over what other processes
// have, or traces.
constexpr int kBpfCommands[] = {
    BPF_MAP_CREATE, BPF_MAP_LOOKUP_ELEM, BPF_MAP_UPDATE_ELEM, BPF_MAP_DELETE_ELEM,
    BPF_MAP_GET_NEXT_KEY, BPF_MAP_FREEZE, BPF_PROG_LOAD, BPF_PROG_ATTACH, BPF_PROG_DETACH,
    BPF_PROG_TEST_RUN, BPF_PROG_QUERY, BPF_PROG_BIND_MAP, BPF_PROG_GET_FD_BY_ID,
    BPF_MAP_GET_FD_BY_ID, BPF_LINK_GET_FD_BY_ID, BPF_BTF_GET_FD_BY_ID, BPF_OBJ_GET_INFO_BY_FD,
    BPF_OBJ_PIN, BPF_OBJ_GET, BPF_BTF_LOAD, BPF_LINK_CREATE, BPF_LINK_UPDATE, BPF_LINK_DETACH,
    BPF_RAW_TRACEPOINT_OPEN,
};

constexpr int kFamilies[] = {AF_UNIX, AF_XDP, AF_PACKET, AF_NETLINK, AF_INET, AF_INET6};
constexpr int kControls[] = {PR_SET_NAME, PR_GET_NAME, PR_SET_VMA, PR_CAPBSET_READ,
                             PR_GET_DUMPABLE, PR_SET_PDEATHSIG};
constexpr unsigned long kNewNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS |
                                         CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |
                                         CLONE_NEWNET;

struct Release {
  void operator()(void* filter) const { seccomp_release(filter); }
};

void check(int result, const char* what) {
  if (result < 0) throw std::system_error(-result, std::generic_category(), what);
}

}  // namespace

std::string install_seccomp_filter() {
  const std::unique_ptr<void, Release> filter(seccomp_init(SCMP_ACT_ERRNO(EPERM)));
  if (filter == nullptr) check(-ENOMEM, "seccomp_init");
  void* const f = filter.get();
  const auto add = [f](std::uint32_t action, int call) {
    // A call that this kernel's headers or this processor do not have needs no rule.
    if (call < 0) return;
    check(seccomp_rule_add_array(f, action, call, 0, nullptr), "seccomp_rule_add");
  };
  const auto add_if = [f](int call, unsigned argument, scmp_compare how, scmp_datum_t a,
                          scmp_datum_t b = 0) {
    const scmp_arg_cmp compare{argument, how, a, b};
    check(seccomp_rule_add_array(f, SCMP_ACT_ALLOW, call, 1, &compare), "seccomp_rule_add");
  };
  for (const int call : kAllowed) add(SCMP_ACT_ALLOW, call);
  for (const int call : kDeadly) add(SCMP_ACT_KILL_PROCESS, call);
  for (const int command : kBpfCommands) add_if(SCMP_SYS(bpf), 0, SCMP_CMP_EQ, command);
  for (const int family : kFamilies) add_if(SCMP_SYS(socket), 0, SCMP_CMP_EQ, family);
  for (const int control : kControls) add_if(SCMP_SYS(prctl), 0, SCMP_CMP_EQ, control);
  add_if(SCMP_SYS(clone), 0, SCMP_CMP_MASKED_EQ, kNewNamespaces, 0);
  // The flags of clone3() lie in memory, where no filter can look; glibc uses clone() instead.
  add(SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3));

  check(seccomp_attr_set(f, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS), "seccomp: ABI");
  check(seccomp_attr_set(f, SCMP_FLTATR_CTL_TSYNC, 1), "seccomp: threads");
  // Kernels before 5.16 would else slow down every load of the process, though it runs no foreign code.
  check(seccomp_attr_set(f, SCMP_FLTATR_CTL_SSB, 1), "seccomp: speculation");
  check(seccomp_attr_set(f, SCMP_FLTATR_CTL_OPTIMIZE, 2), "seccomp: order");
  check(seccomp_load(f), "seccomp_load");
  return {};
}

#endif

}  // namespace viaduct
