#include "xdp/xsk/xsk_socket.h"

#include <linux/if_xdp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>

#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4)
#endif
#ifndef XDP_MAX_TX_BUDGET
#define XDP_MAX_TX_BUDGET 9
#endif

namespace viaduct {

int open_xsk_socket(const XskSocketOptions& options, const char*& what) {
  what = "AF_XDP socket";
  const int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const auto set = [fd](int name, const auto& value) {
    return setsockopt(fd, SOL_XDP, name, &value, sizeof value) == 0;
  };
  const auto done = [&] {
    xdp_umem_reg umem{};
    umem.addr = reinterpret_cast<std::uintptr_t>(options.area);
    umem.len = options.bytes;
    umem.chunk_size = options.chunk;
    what = "UMEM";
    if (!set(XDP_UMEM_REG, umem)) return false;
    what = "rings of the AF_XDP socket";
    for (const int ring :
         {XDP_UMEM_FILL_RING, XDP_UMEM_COMPLETION_RING, XDP_RX_RING, XDP_TX_RING}) {
      if (!set(ring, options.ring)) return false;
    }
    // Without either flag the kernel takes zero-copy where the driver can, which must not happen
    // under a generic program.
    sockaddr_xdp address{};
    address.sxdp_family = AF_XDP;
    address.sxdp_flags =
        static_cast<std::uint16_t>(XDP_USE_NEED_WAKEUP | (options.copy ? XDP_COPY : 0) |
                                   (options.parts ? XDP_USE_SG : 0));
    address.sxdp_ifindex = static_cast<std::uint32_t>(options.ifindex);
    address.sxdp_queue_id = options.queue;
    what = "binding the AF_XDP socket";
    return bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }();
  if (!done) {
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
  }
  // Newer kernels send a whole ring in one call, if they are asked to.
  set(XDP_MAX_TX_BUDGET, static_cast<int>(options.ring));
  // Frames under way count against the socket's memory; all of a ring has room.
  const auto memory = static_cast<int>(options.ring * (2 * options.chunk + 1024));
  setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &memory, sizeof memory);
  return fd;
}

}  // namespace viaduct
