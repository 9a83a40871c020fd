#include "xdp/child_programs.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>

#include "xdp/grant_filter.h"
#include "xdp/macvlan.h"

namespace viaduct {

Descriptor child_program(int child) {
  std::uint32_t id = 0;
  if (bpf_xdp_query_id(child, XDP_FLAGS_SKB_MODE, &id) != 0 || id == 0) return Descriptor();
  return Descriptor(bpf_prog_get_fd_by_id(id));
}

// Not by a link, which would end with this process.
int attach_child_program(int child, int program) {
  return -bpf_xdp_attach(child, program, XDP_FLAGS_SKB_MODE | XDP_FLAGS_UPDATE_IF_NOEXIST, nullptr);
}

ChildProgramsAside::ChildProgramsAside(int lower) {
  for (const Child& child : finished_children(lower, child_prefix(lower), kChildAlias)) {
    Descriptor program = child_program(child.ifindex);
    if (!program || bpf_xdp_detach(child.ifindex, XDP_FLAGS_SKB_MODE, nullptr) != 0) continue;
    programs_.emplace_back(child.ifindex, std::move(program));
  }
}

ChildProgramsAside::~ChildProgramsAside() {
  for (const auto& [child, program] : programs_) attach_child_program(child, program.get());
}

}  // namespace viaduct
