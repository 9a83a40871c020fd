#include "xdp/grant/child_programs.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>

#include <algorithm>
#include <array>

#include "xdp/grant/granted_child.h"
#include "xdp/grant/macvlan.h"

namespace viaduct {

Descriptor child_program(int child) {
  std::uint32_t id = 0;
  if (bpf_xdp_query_id(child, XDP_FLAGS_SKB_MODE, &id) != 0 || id == 0) return Descriptor();
  return Descriptor(bpf_prog_get_fd_by_id(id));
}

bool has_socket(int program, const MacAddress& address, std::uint16_t ether_type) {
  std::array<std::uint8_t, 64> frame{};
  std::copy(address.begin(), address.end(), frame.begin());
  frame[12] = static_cast<std::uint8_t>(ether_type >> 8);
  frame[13] = static_cast<std::uint8_t>(ether_type);
  DECLARE_LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = frame.data(),
                      .data_size_in = static_cast<std::uint32_t>(frame.size()), .repeat = 1);
  return bpf_prog_test_run_opts(program, &run) == 0 && run.retval == XDP_REDIRECT;
}

// The program is not attached by a link, which would end with this process.
int attach_child_program(int child, int program) {
  return -bpf_xdp_attach(child, program, XDP_FLAGS_SKB_MODE | XDP_FLAGS_UPDATE_IF_NOEXIST, nullptr);
}

ChildProgramsAside::ChildProgramsAside(int lower) {
  for (const Child& child : finished_children(lower, child_prefix(lower), kChildAlias)) {
    Descriptor program = child_program(child.ifindex);
    const bool taken = bpf_xdp_detach(child.ifindex, XDP_FLAGS_SKB_MODE, nullptr) == 0;
    if (taken && program) programs_.emplace_back(child.ifindex, std::move(program));
  }
}

ChildProgramsAside::~ChildProgramsAside() {
  for (const auto& [child, program] : programs_) attach_child_program(child, program.get());
}

}  // namespace viaduct
