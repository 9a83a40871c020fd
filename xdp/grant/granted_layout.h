// The parts of a granted port: the agent says it in the hello's answer, the program maps it.
//
//   UMEM (a memfd)    | receive chunks | send chunks |
//   AF_XDP socket     fill, receive, transmit and completion ring, `ring` entries each
//   interface         a macvlan child of the NIC with a MAC address of its own
//
// Plain data, host byte order: it travels over the control socket.
#ifndef VIADUCT_XDP_GRANT_GRANTED_LAYOUT_H
#define VIADUCT_XDP_GRANT_GRANTED_LAYOUT_H

#include <cstdint>

#include "xdp/port.h"

namespace viaduct {

struct GrantedLayout {
  MacAddress address;       // of the child; frames from any other source do not leave the host
  std::uint16_t ether_type;
  std::uint32_t mtu;        // bytes behind the Ethernet header; if a chunk has no room for them, the
                            // socket knows frames of several chunks, see parts_for()
  std::uint32_t chunk;      // bytes of a buffer, a power of two
  std::uint32_t receive;    // buffers to receive into, the first of the UMEM
  std::uint32_t send;       // buffers to send from, behind them
  std::uint32_t ring;       // entries of each ring, a power of two
  std::uint32_t reserved;
};

// How many buffers a port has with the kernel to receive into, of `receive` in all: room for a
// burst of 512 frames while a batch of them is on its way back, if there are enough to leave a
// quarter for the borrower. Not more at first, because the kernel goes round all of them and they should
// stay in the cache. (Of frames of several chunks fewer are under way at once.)
constexpr std::uint32_t granted_filled(std::uint32_t receive, std::uint32_t ring,
                                       std::uint32_t parts) {
  const std::uint32_t kBurst = parts == 1 ? 512 + 64 : (256 + 64) * parts;
  const std::uint32_t most = receive - (receive + 3) / 4;
  const std::uint32_t filled = most > kBurst ? kBurst : most;
  return filled < ring ? filled : ring;
}

// ... and how many a port may have later, if bursts have needed half of the first number: many connections at once
// send more than one burst.
constexpr std::uint32_t granted_filled_at_most(std::uint32_t receive, std::uint32_t ring) {
  const std::uint32_t most = receive - (receive + 3) / 4;
  return most < ring ? most : ring;
}

}  // namespace viaduct

#endif
