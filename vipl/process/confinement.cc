#include "vipl/process/confinement.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "vipl/process/sys.h"

namespace viaduct::vipl {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#elif defined(__riscv) && __riscv_xlen == 64
constexpr std::uint32_t kArchitecture = AUDIT_ARCH_RISCV64;
#else
constexpr std::uint32_t kArchitecture = 0;
#endif

constexpr std::uint32_t kAllowed[] = {
    SYS_ppoll, SYS_futex, SYS_read, SYS_write, SYS_sendto, SYS_recvfrom, SYS_sendmsg, SYS_recvmsg, SYS_pread64,
    SYS_pwrite64, SYS_getsockopt, SYS_shutdown, SYS_close, SYS_timerfd_settime, SYS_clock_gettime, SYS_clock_nanosleep,
    SYS_nanosleep, SYS_sched_yield, SYS_membarrier, SYS_getpid, SYS_gettid, SYS_getppid, SYS_getrandom, SYS_brk,
    SYS_munmap, SYS_mremap, SYS_madvise, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_restart_syscall, SYS_setitimer,
    SYS_exit, SYS_exit_group,
#ifdef SYS_poll
    SYS_poll,
#endif
};
// Calls that are allowed if this argument has none of these bits.
struct Conditional {
  std::uint32_t call, argument, bits;
};
constexpr Conditional kConditional[] = {
    {SYS_mmap, 2, PROT_EXEC},
    {SYS_mprotect, 2, PROT_EXEC},
    {SYS_tgkill, 2, ~0u},  // only the question whether a thread lives
};

constexpr std::uint32_t offset_of_argument(std::uint32_t number) {
  const auto low = static_cast<std::uint32_t>(offsetof(seccomp_data, args) + number * sizeof(std::uint64_t));
  return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? low : low + 4;
}

// By prctl(), as filters that the program has already allow that sooner than seccomp().
[[maybe_unused]] bool install(const sock_fprog& program) {
  return system_calls::direct(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, reinterpret_cast<long>(&program)) == 0;
}

}  // namespace

bool close_all_but(int* fds, int count) {
  std::sort(fds, fds + count);
  unsigned from = 0;
  for (int i = 0; i < count; ++i) {
    const auto kept = static_cast<unsigned>(fds[i]);
    if (kept > from && system_calls::direct(SYS_close_range, from, kept - 1, 0) != 0) return false;
    from = std::max(from, kept + 1);
  }
  return system_calls::direct(SYS_close_range, from, ~0u, 0) == 0;
}

bool confine() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#else
  if (kArchitecture == 0) return false;
  constexpr std::size_t kMost = 5 + 2 * std::size(kAllowed) + 5 * std::size(kConditional);
  sock_filter code[kMost];
  std::size_t size = 0;
  const auto add = [&](std::uint32_t what, std::uint32_t k, std::uint8_t yes = 0, std::uint8_t no = 0) {
    code[size++] = {static_cast<std::uint16_t>(what), yes, no, k};
  };
  add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch));
  add(BPF_JMP | BPF_JEQ | BPF_K, kArchitecture, 1, 0);
  add(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (const std::uint32_t call : kAllowed) {
    add(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  }
  for (const Conditional& each : kConditional) {
    add(BPF_JMP | BPF_JEQ | BPF_K, each.call, 0, 4);
    add(BPF_LD | BPF_W | BPF_ABS, offset_of_argument(each.argument));
    add(BPF_JMP | BPF_JSET | BPF_K, each.bits, 1, 0);
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  }
  add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  const sock_fprog program{static_cast<unsigned short>(size), code};
  return ::syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) == 0 &&
         install(program);
#endif
}

}  // namespace viaduct::vipl
