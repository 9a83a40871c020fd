#include "kagent/agent/process/privileges.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

#include "kagent/agent/process/seccomp.h"

#ifndef CAP_BPF
#define CAP_BPF 39
#endif
#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#endif

namespace viaduct {
namespace {

std::uint64_t effective_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  if (syscall(SYS_capget, &header, data) != 0) return ~0ull;  // the kernel will say no in time
  return std::uint64_t{data[1].effective} << 32 | data[0].effective;
}

void raise(int what, rlim_t wanted) {
  rlimit limit{};
  if (getrlimit(static_cast<__rlimit_resource>(what), &limit) != 0) return;
  rlimit more{wanted, wanted};
  if (setrlimit(static_cast<__rlimit_resource>(what), &more) == 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(static_cast<__rlimit_resource>(what), &limit);
}

struct Kept {
  unsigned capability;
  const char* name;
};

constexpr std::uint64_t bit(unsigned capability) { return 1ull << capability; }

// CAP_BPF came with Linux 5.8. Before, CAP_SYS_ADMIN is needed in its place.
bool has_cap_bpf() { return prctl(PR_CAPBSET_READ, CAP_BPF, 0, 0, 0) >= 0; }

std::uint64_t needed_later(bool only_pcap, bool dispatcher) {
  std::uint64_t out = bit(CAP_NET_RAW) | bit(CAP_SYS_PTRACE) | bit(CAP_DAC_OVERRIDE);
  if (only_pcap) return out;
  // CAP_PERFMON: without it the kernel puts barriers against speculation into BPF programs.
  out |= bit(CAP_NET_ADMIN) | bit(CAP_BPF) | bit(CAP_PERFMON);
  if (dispatcher || !has_cap_bpf()) out |= bit(CAP_SYS_ADMIN);
  rlimit locked{};
  const bool may_lock =
      getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur == RLIM_INFINITY;
  if (!may_lock) out |= bit(CAP_IPC_LOCK);
  return out;
}

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

std::uint64_t drop_capabilities(std::uint64_t needed) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  if (syscall(SYS_capget, &header, data) != 0) fail("capget");
  const std::uint64_t permitted = std::uint64_t{data[1].permitted} << 32 | data[0].permitted;
  const std::uint64_t kept = permitted & needed;
  // The bounding set is what exec() could give back to root. Without CAP_SETPCAP it can't be
  // changed, and then there is no_new_privs.
  for (unsigned c = 0; prctl(PR_CAPBSET_READ, c, 0, 0, 0) >= 0; ++c) {
    if ((kept & bit(c)) == 0) prctl(PR_CAPBSET_DROP, c, 0, 0, 0);
  }
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  for (unsigned half = 0; half < 2; ++half) {
    data[half].effective = data[half].permitted = static_cast<std::uint32_t>(kept >> 32 * half);
    data[half].inheritable = 0;
  }
  if (syscall(SYS_capset, &header, data) != 0) fail("capset");
  return kept;
}

}  // namespace

std::string missing_capabilities(bool only_pcap) {
  struct Need {
    unsigned capability;
    unsigned instead;  // another capability that does as well
    const char* name;
    const char* purpose;
    bool for_pcap;
  };
  constexpr Need kNeeds[] = {
      {CAP_NET_RAW, CAP_NET_RAW, "CAP_NET_RAW", "to send and receive frames", true},
      {CAP_NET_ADMIN, CAP_NET_ADMIN, "CAP_NET_ADMIN", "to attach to the interface and to make ports for programs", false},
      {CAP_BPF, CAP_SYS_ADMIN, "CAP_BPF", "to load the steering program and the filter", false},
      {CAP_SYS_PTRACE, CAP_SYS_PTRACE, "CAP_SYS_PTRACE",
       "to copy between programs and the network", true},
      {CAP_DAC_OVERRIDE, CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE", "to open the memory of programs",
       true},
  };
  const std::uint64_t have = effective_capabilities();
  std::string out;
  for (const Need& need : kNeeds) {
    if (only_pcap && !need.for_pcap) continue;
    if ((have >> need.capability & 1) != 0 || (have >> need.instead & 1) != 0) continue;
    out += std::string(out.empty() ? "missing " : ", ") + need.name + " (" + need.purpose + ")";
  }
  if (!out.empty()) out += "; start viad as root, or give it these capabilities";
  return out;
}

std::string drop_privileges(bool only_pcap, bool dispatcher) {
  constexpr Kept kNames[] = {
      {CAP_NET_RAW, "CAP_NET_RAW"},       {CAP_NET_ADMIN, "CAP_NET_ADMIN"},
      {CAP_BPF, "CAP_BPF"},               {CAP_PERFMON, "CAP_PERFMON"},
      {CAP_SYS_PTRACE, "CAP_SYS_PTRACE"}, {CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE"},
      {CAP_SYS_ADMIN, "CAP_SYS_ADMIN"},   {CAP_IPC_LOCK, "CAP_IPC_LOCK"},
  };
  const std::uint64_t kept = drop_capabilities(needed_later(only_pcap, dispatcher));
  std::string out = "kept";
  for (const Kept& each : kNames) {
    if ((kept & bit(each.capability)) != 0) out += std::string(" ") + each.name;
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail("no_new_privs");
  const std::string unfiltered = install_seccomp_filter();
  return out + (unfiltered.empty() ? "" : "; system calls are not filtered: " + unfiltered);
}

void raise_limits() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) raise(RLIMIT_NOFILE, files.rlim_max);
  raise(RLIMIT_MEMLOCK, RLIM_INFINITY);
}

}  // namespace viaduct
