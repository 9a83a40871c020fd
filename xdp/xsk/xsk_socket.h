// Making an AF_XDP socket. For the agent: it takes CAP_NET_RAW.
#ifndef VIADUCT_XDP_XSK_XSK_SOCKET_H
#define VIADUCT_XDP_XSK_XSK_SOCKET_H

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace viaduct {

struct XskSocketOptions {
  int ifindex;
  std::uint32_t queue;
  std::byte* area;  // the UMEM, page aligned
  std::size_t bytes;
  std::uint32_t chunk;
  std::uint32_t ring;  // entries of each ring: whatever may be under way has room, completed too
  bool copy;           // never zero-copy: the program runs in generic mode
  bool parts = false;  // frames may take several chunks
};

// Returns a bound socket with a UMEM of its own, or -1 and what failed; errno says why (EBUSY: the
// kernel gives a queue back late; see also refuses_parts()).
int open_xsk_socket(const XskSocketOptions& options, const char*& what);

// Whether this error of a socket with `parts` says that the kernel or the driver knows no such frames.
constexpr bool refuses_parts(int error) { return error == EINVAL || error == EOPNOTSUPP; }

}  // namespace viaduct

#endif
