// Where in a captured packet VIA frames are: the packet itself, with those that share it (a bundle), or the segments of a UDP
// datagram.
//
// A datagram that segmentation offload is still to cut up, or that the receiver's has put together, has
// several frames of a train, one behind the other. Nothing in it says where a frame begins: all have
// the length of the first one, with zeros behind those that are shorter. So it is looked for the place
// behind the first frame at which the same Ethernet header stands again.
#ifndef VIADUCT_KAGENT_TOOLS_VIADUMP_FOUND_FRAMES_H
#define VIADUCT_KAGENT_TOOLS_VIADUMP_FOUND_FRAMES_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kagent/tools/viadump/packet.h"

namespace viaduct::dump {

struct FoundFrame {
  std::span<const std::byte> bytes;  // from its Ethernet header on, as far as captured
  std::size_t at = 0;                // where in the packet
  std::size_t length = 0;            // on the wire
  std::uint32_t segment = 0;         // of a train: its number in the datagram
  bool is_train = false;
  bool is_bundled = false;           // behind another one; `own` has it with the Ethernet header that both have
  std::shared_ptr<const std::vector<std::byte>> own = nullptr;
};

// The frames of a packet, which they point into; none if it has none.
std::vector<FoundFrame> find_frames(const PacketView& packet, std::uint16_t ether_type);

}  // namespace viaduct::dump

#endif
