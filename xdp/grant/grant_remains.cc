#include "xdp/grant/grant_remains.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "xdp/grant/child_programs.h"
#include "xdp/grant/filter_hook.h"
#include "xdp/grant/grant_entry.h"
#include "xdp/grant/granted_child.h"
#include "xdp/grant/macvlan.h"
#include "xdp/bpf/steering.h"

namespace viaduct {
namespace {

constexpr char kFilterName[] = "viaduct_filter";

std::string name_of(int program) {
  bpf_prog_info info{};
  std::uint32_t bytes = sizeof info;
  if (bpf_obj_get_info_by_fd(program, &info, &bytes) != 0) return {};
  return info.name;
}

// Our filter programs on the egress of an interface.
std::vector<Descriptor> tcx_filters(int ifindex) {
  std::vector<Descriptor> out;
  for (const std::uint32_t id : tcx_programs(ifindex).value_or(std::vector<std::uint32_t>())) {
    Descriptor program(bpf_prog_get_fd_by_id(id));
    if (program && name_of(program.get()) == kFilterName) out.push_back(std::move(program));
  }
  return out;
}

Descriptor classic_filter(int ifindex) {
  const bpf_tc_hook hook = classic_hook(ifindex);
  DECLARE_LIBBPF_OPTS(bpf_tc_opts, which, .handle = kClassicHandle, .priority = kClassicPriority);
  if (bpf_tc_query(&hook, &which) != 0) return Descriptor();
  return Descriptor(bpf_prog_get_fd_by_id(which.prog_id));
}

void detach_all(int ifindex) {
  for (const Descriptor& program : tcx_filters(ifindex)) {
    bpf_prog_detach2(program.get(), ifindex, kTcxEgress);
  }
  detach_classic(ifindex);
}

// Finds the filter's tables, if they are as this agent's would be.
void find_tables(GrantRemains& out) {
  std::uint32_t ids[16];
  bpf_prog_info info{};
  info.nr_map_ids = std::size(ids);
  info.map_ids = reinterpret_cast<std::uintptr_t>(ids);
  std::uint32_t bytes = sizeof info;
  if (bpf_obj_get_info_by_fd(out.filter.get(), &info, &bytes) != 0) return;
  for (std::uint32_t i = 0; i < std::min<std::size_t>(info.nr_map_ids, std::size(ids)); ++i) {
    Descriptor map(bpf_map_get_fd_by_id(ids[i]));
    bpf_map_info table{};
    bytes = sizeof table;
    if (!map || bpf_obj_get_info_by_fd(map.get(), &table, &bytes) != 0) continue;
    if (table.key_size != sizeof(std::uint32_t) || table.max_entries != VIADUCT_GRANTS) continue;
    const std::string_view name = table.name;
    if (name == "grants" && table.type == BPF_MAP_TYPE_ARRAY &&
        table.value_size == sizeof(grant_entry)) {
      out.grants = std::move(map);
    } else if (name == "counts" && table.type == BPF_MAP_TYPE_PERCPU_ARRAY &&
               table.value_size == sizeof(grant_counts)) {
      out.counts = std::move(map);
    }
  }
}

FilterEntry entry_of(std::uint32_t number, const grant_entry& value) {
  FilterEntry out{number, VIADUCT_GRANT_MARK + number, {}};
  std::memcpy(out.address.data(), value.address, out.address.size());
  return out;
}

void find_ports(const Interface& lower, std::uint16_t ether_type, GrantRemains& out) {
  const std::vector<Child> children =
      finished_children(lower.index, child_prefix(lower.index), kChildAlias);
  for (std::uint32_t number = 0; number < VIADUCT_GRANTS; ++number) {
    grant_entry value{};
    if (bpf_map_lookup_elem(out.grants.get(), &number, &value) != 0) continue;
    if (value.holder == GRANT_NOBODY) continue;
    const bool same = value.version == VIADUCT_GRANT_VERSION && value.ether_type == ether_type;
    const FilterEntry entry = entry_of(number, value);
    const auto child = std::find_if(children.begin(), children.end(), [&](const Child& each) {
      return each.ifindex == static_cast<int>(value.ifindex) &&
             each.name == child_name(lower, number) && each.address == entry.address;
    });
    if (same && value.holder == GRANT_AGENT) out.relay_child = entry;
    if (same && value.holder == GRANT_PROGRAM && child != children.end()) {
      Descriptor program = child_program(child->ifindex);
      if (program && has_socket(program.get(), entry.address, ether_type)) {
        out.ports.push_back({entry,
                             child->ifindex,
                             value.ether_type,
                             {value.user, value.device, value.granted_segment, value.umem},
                             std::move(program)});
        continue;
      }
    }
    // Clear the entry: from here on no frame with its mark leaves the host.
    const grant_entry nothing{};
    bpf_map_update_elem(out.grants.get(), &number, &nothing, 0);
    const std::vector<grant_counts> zero(static_cast<std::size_t>(libbpf_num_possible_cpus()));
    bpf_map_update_elem(out.counts.get(), &number, zero.data(), 0);
  }
}

}  // namespace

GrantRemains take_remains(const Interface& lower, std::uint16_t ether_type) {
  silence_xdp_libraries();
  GrantRemains out;
  std::vector<Descriptor> filters = tcx_filters(lower.index);
  if (filters.size() == 1) {
    out.filter = std::move(filters.front());
  } else if (filters.empty()) {
    out.filter = classic_filter(lower.index);
    out.classic = static_cast<bool>(out.filter);
  }
  if (out.filter) find_tables(out);
  if (out.grants && out.counts) find_ports(lower, ether_type, out);
  std::vector<int> keep;
  for (const GrantRemains::Port& port : out.ports) keep.push_back(port.ifindex);
  out.removed = delete_children(lower.index, child_prefix(lower.index), kChildAlias, keep);
  if (out.ports.empty()) detach_all(lower.index);
  return out;
}

unsigned remove_remains(const Interface& lower) {
  silence_xdp_libraries();
  const unsigned children = delete_children(lower.index, child_prefix(lower.index), kChildAlias);
  detach_all(lower.index);
  return children;
}

}  // namespace viaduct
