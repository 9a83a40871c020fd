#include "xdp/steering.h"

#include <bpf/libbpf.h>
#include <xdp/libxdp.h>

#include <cstring>

namespace viaduct {

void silence_xdp_libraries() {
  libbpf_set_print([](enum libbpf_print_level, const char*, va_list) { return 0; });
  libxdp_set_print([](enum libxdp_print_level, const char*, va_list) { return 0; });
}

void remove_steering(int ifindex) {
  xdp_multiprog* all = xdp_multiprog__get_from_ifindex(ifindex);
  if (libxdp_get_error(all) != 0) return;
  for (xdp_program* p = xdp_multiprog__next_prog(nullptr, all); p != nullptr;
       p = xdp_multiprog__next_prog(p, all)) {
    if (std::strcmp(xdp_program__name(p), kSteerName) != 0) continue;
    xdp_program__detach(p, ifindex, xdp_multiprog__attach_mode(all), 0);
    break;
  }
  xdp_multiprog__close(all);
}

}  // namespace viaduct
