#include "xdp/bpf/steering.h"

#include <bpf/libbpf.h>
#include <linux/if_link.h>
#include <xdp/libxdp.h>

#include <cstring>

namespace viaduct {
namespace {

constexpr int kDispatcherSlots = 10;

bool is_ours(const xdp_program* program) {
  return program != nullptr && std::strcmp(xdp_program__name(program), kSteerName) == 0;
}

// Takes one program of ours off. False when there was none, or it can't be taken off.
bool remove_one(int ifindex) {
  xdp_multiprog* all = xdp_multiprog__get_from_ifindex(ifindex);
  if (libxdp_get_error(all) != 0) return false;
  const xdp_attach_mode mode = xdp_multiprog__attach_mode(all);
  bool removed = false;
  if (xdp_multiprog__is_legacy(all)) {
    const xdp_program* program = xdp_multiprog__main_prog(all);
    if (is_ours(program)) {
      // Detaches the program only if it is still the one that we have seen.
      DECLARE_LIBBPF_OPTS(bpf_xdp_attach_opts, options, .old_prog_fd = xdp_program__fd(program));
      const unsigned flags = mode == XDP_MODE_SKB ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE;
      removed = bpf_xdp_detach(ifindex, flags | XDP_FLAGS_REPLACE, &options) == 0;
    }
  } else {
    xdp_program* program = xdp_multiprog__next_prog(nullptr, all);
    while (program != nullptr && !is_ours(program)) {
      program = xdp_multiprog__next_prog(program, all);
    }
    removed = program != nullptr && xdp_program__detach(program, ifindex, mode, 0) == 0;
  }
  xdp_multiprog__close(all);
  return removed;
}

}  // namespace

void silence_xdp_libraries() {
  libbpf_set_print([](enum libbpf_print_level, const char*, va_list) { return 0; });
  libxdp_set_print([](enum libxdp_print_level, const char*, va_list) { return 0; });
}

void remove_steering(int ifindex) {
  for (int n = 0; n < kDispatcherSlots && remove_one(ifindex); ++n) {}
}

}  // namespace viaduct
