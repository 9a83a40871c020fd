// A captured packet, with all that a capture file of any format has of it.
#ifndef VIADUCT_KAGENT_TOOLS_VIADUMP_PACKET_H
#define VIADUCT_KAGENT_TOOLS_VIADUMP_PACKET_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct::dump {

enum class Direction : std::uint8_t { kUnknown, kIn, kOut };

struct Packet {
  std::uint64_t time_ns = 0;  // since 1970
  std::uint32_t interface = 0;  // its number in the file
  std::uint32_t length = 0;     // on the wire; bytes.size() is what was captured of it
  Direction direction = Direction::kUnknown;
  std::vector<std::byte> bytes;  // from the Ethernet header on
  std::string comment;           // "": none
};

// A packet whose bytes belong to another object.
struct PacketView {
  PacketView() = default;
  PacketView(const Packet& packet)  // NOLINT: a packet is one
      : time_ns(packet.time_ns), interface(packet.interface), length(packet.length), direction(packet.direction),
        bytes(packet.bytes), comment(packet.comment) {}

  std::uint64_t time_ns = 0;
  std::uint32_t interface = 0;
  std::uint32_t length = 0;
  Direction direction = Direction::kUnknown;
  std::span<const std::byte> bytes;
  std::string_view comment;
};

struct CapturedInterface {
  std::string name;
  std::string filter;
  std::uint32_t snap_length = 0;  // bytes of a packet that were captured at most; 0: all
};

}  // namespace viaduct::dump

#endif
