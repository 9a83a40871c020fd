// Where on an interface the egress filter is attached: TCX (Linux 6.6), before that a clsact qdisc.
//
// The kernel takes an interface's queues away while it gives it a qdisc, and drops all frames that are in them or come
// meanwhile. So prepare_hook() is for the agent's start, and the qdisc stays.
#ifndef VIADUCT_XDP_GRANT_FILTER_HOOK_H
#define VIADUCT_XDP_GRANT_FILTER_HOOK_H

#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace viaduct {

// The headers may not have this number yet. A program that is attached by itself and not by a link stays until it is
// detached.
inline constexpr auto kTcxEgress = static_cast<bpf_attach_type>(47);
inline constexpr std::uint32_t kClassicHandle = 0x5649, kClassicPriority = 0x5649;

// The numbers of all programs on the egress by TCX; none where the kernel has no TCX.
std::optional<std::vector<std::uint32_t>> tcx_programs(int ifindex);

// Makes the qdisc where the filter will need one. True: there was none before.
bool prepare_hook(int ifindex);

// Returns 0, also if there is a hook already, or an error.
int make_classic_hook(int ifindex);
bpf_tc_hook classic_hook(int ifindex);
void detach_classic(int ifindex);

}  // namespace viaduct

#endif
