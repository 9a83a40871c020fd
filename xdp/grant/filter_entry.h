// What an egress filter knows of one granted port, and how the filter is attached.
#ifndef VIADUCT_XDP_GRANT_FILTER_ENTRY_H
#define VIADUCT_XDP_GRANT_FILTER_ENTRY_H

#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <sys/types.h>

#include <cstdint>

#include "xdp/port.h"

namespace viaduct {

struct FilterEntry {
  std::uint32_t number;
  std::uint32_t mark;
  MacAddress address;
};

// Whose port it is and, by their numbers, the files in memory that came with it.
struct FilterHolder {
  uid_t user;
  std::uint64_t device, granted_segment, umem;
};

// TCX is newer (Linux 6.6) than the headers may be; clsact is for kernels without it. A program that
// is attached by itself and not by a link stays until it is detached.
inline constexpr auto kTcxEgress = static_cast<bpf_attach_type>(47);
inline constexpr std::uint32_t kClassicHandle = 0x5649, kClassicPriority = 0x5649;

inline bpf_tc_hook classic_hook(int ifindex) {
  DECLARE_LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = ifindex, .attach_point = BPF_TC_EGRESS);
  return hook;
}

inline void detach_classic(int ifindex) {
  bpf_tc_hook hook = classic_hook(ifindex);
  DECLARE_LIBBPF_OPTS(bpf_tc_opts, which, .handle = kClassicHandle, .priority = kClassicPriority);
  bpf_tc_detach(&hook, &which);
}

}  // namespace viaduct

#endif
