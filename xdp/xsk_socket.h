// Making an AF_XDP socket. For the agent: it takes CAP_NET_RAW.
#ifndef VIADUCT_XDP_XSK_SOCKET_H
#define VIADUCT_XDP_XSK_SOCKET_H

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
};

// Returns a bound socket with a UMEM of its own, or -1 and what failed; errno says why (EBUSY: the
// kernel gives a queue back late).
int open_xsk_socket(const XskSocketOptions& options, const char*& what);

}  // namespace viaduct

#endif
