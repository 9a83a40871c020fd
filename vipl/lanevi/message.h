// Messages that go over a VI between two hosts.
//
//   packet  a message without immediate data: the 10 bytes that the kernel puts before a packet of
//   an
//           interface with IFF_VNET_HDR (struct virtio_net_hdr, little endian), then the IP packet.
//           By that header the kernel leaves checksums and the cutting of TCP's data to the other
//           end, so a packet may be much longer than the interface's MTU
//   hello   a message with immediate data: which addresses the sender's interface has
#ifndef VIADUCT_VIPL_LANEVI_MESSAGE_H
#define VIADUCT_VIPL_LANEVI_MESSAGE_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "vipl/lanevi/ip_address.h"

namespace viaduct::lanevi {

inline constexpr std::size_t kPacketHeader = 10;
// The longest packet, with its header: 65,545. All hosts must have the same, as VIs must agree on
// it.
inline constexpr std::uint32_t kMessageBytes = 65600;
// The version changes when hosts of two versions could not understand each other.
inline constexpr char kVersion[] = "lanevi1";

struct PacketEnds {
  IpAddress source;
  IpAddress destination;
};

// No value if it is no packet of IPv4 or IPv6.
std::optional<PacketEnds> ends_of(const std::uint8_t* message, std::size_t bytes);

struct Hello {
  static constexpr std::size_t kMostAddresses = 32;
  static constexpr std::size_t kMostBytes = 4 + 16 * kMostAddresses;

  bool wants_answer = false;  // the sender does not know yet whether its hello was heard
  bool heard = false;         // the sender has heard the receiver's hello
  bool takes_uncut_udp = false;  // the sender's kernel cuts data of UDP that a packet brings in one piece
  std::vector<IpAddress> addresses;

  // Returns how many bytes the hello has, kMostBytes at most; addresses that do not fit are left out.
  std::size_t encode(std::uint8_t* to) const;
  static std::optional<Hello> decode(const std::uint8_t* from, std::size_t bytes);
};

}  // namespace viaduct::lanevi

#endif
