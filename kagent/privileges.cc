#include "kagent/privileges.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#ifndef CAP_BPF
#define CAP_BPF 39
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

}  // namespace

std::string missing_capabilities(bool only_pcap) {
  struct Need {
    unsigned capability;
    unsigned instead;  // does as well
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

void raise_limits() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) raise(RLIMIT_NOFILE, files.rlim_max);
  raise(RLIMIT_MEMLOCK, RLIM_INFINITY);
}

}  // namespace viaduct
