#include "xdp/grant/filter_hook.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace viaduct {

// libbpf does not know TCX yet, so the kernel is asked directly.
std::optional<std::vector<std::uint32_t>> tcx_programs(int ifindex) {
  std::vector<std::uint32_t> out(64);
  // The structure as the kernel has it now; it also writes the `revision` behind.
  struct {
    std::uint32_t ifindex, attach_type, query_flags, attach_flags;
    std::uint64_t ids;
    std::uint32_t count, pad;
    std::uint64_t rest[4];
  } query{};
  static_assert(sizeof query == 64);
  query.ifindex = static_cast<std::uint32_t>(ifindex);
  query.attach_type = kTcxEgress;
  query.ids = reinterpret_cast<std::uintptr_t>(out.data());
  query.count = static_cast<std::uint32_t>(out.size());
  if (syscall(SYS_bpf, BPF_PROG_QUERY, &query, sizeof query) != 0) {
    if (errno == EINVAL) return std::nullopt;
    query.count = 0;
  }
  out.resize(std::min<std::size_t>(query.count, out.size()));
  return out;
}

bpf_tc_hook classic_hook(int ifindex) {
  DECLARE_LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = ifindex, .attach_point = BPF_TC_EGRESS);
  return hook;
}

bool prepare_hook(int ifindex) {
  if (tcx_programs(ifindex)) return false;
  bpf_tc_hook hook = classic_hook(ifindex);
  return bpf_tc_hook_create(&hook) == 0;
}

int make_classic_hook(int ifindex) {
  bpf_tc_hook hook = classic_hook(ifindex);
  const int made = bpf_tc_hook_create(&hook);
  return made == -EEXIST ? 0 : -made;
}

void detach_classic(int ifindex) {
  bpf_tc_hook hook = classic_hook(ifindex);
  DECLARE_LIBBPF_OPTS(bpf_tc_opts, which, .handle = kClassicHandle, .priority = kClassicPriority);
  bpf_tc_detach(&hook, &which);
}

}  // namespace viaduct
