#include "kagent/tools/viadump/found_frames.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kagent/contract/wire.h"

namespace viaduct::dump {
namespace {

constexpr std::uint16_t kIpv4 = 0x0800, kIpv6 = 0x86dd, kVlan = 0x8100;
constexpr std::size_t kVlanBytes = 4, kIpv4Bytes = 20, kIpv6Bytes = 40, kUdpBytes = 8;
constexpr std::byte kUdp{17};
constexpr std::size_t kBefore = wire::kEthernetBytes + wire::kHeaderBytes;

using Bytes = std::span<const std::byte>;

// Where the payload of a UDP datagram begins; 0 if this is none.
std::size_t udp_payload(Bytes bytes, std::uint16_t type, std::size_t at) {
  if (type == kIpv4) {
    if (bytes.size() < at + kIpv4Bytes || bytes[at + 9] != kUdp) return 0;
    const bool later_fragment = (wire::load16(&bytes[at + 6]) & 0x1fff) != 0;
    const std::size_t header = std::to_integer<std::size_t>(bytes[at] & std::byte{15}) * 4;
    return later_fragment || header < kIpv4Bytes ? 0 : at + header + kUdpBytes;
  }
  if (type != kIpv6 || bytes.size() < at + kIpv6Bytes || bytes[at + 6] != kUdp) return 0;
  return at + kIpv6Bytes + kUdpBytes;
}

// Whether a frame of a train may begin here: only its first bytes are looked at.
bool is_train_frame(Bytes bytes, std::uint16_t ether_type) {
  if (bytes.size() < wire::kEthernetBytes + 2 || wire::load16(&bytes[12]) != ether_type) return false;
  const auto type = std::to_integer<unsigned>(bytes[wire::kEthernetBytes + 1]);
  return bytes[wire::kEthernetBytes] == std::byte{wire::kVersion} && type <= wire::kLastType &&
         (wire::kTrainTypes >> type & 1) != 0;
}

// The bytes that a frame needs, without padding; 0 if its header was not captured.
std::size_t needed(Bytes bytes) {
  if (bytes.size() < kBefore) return 0;
  const std::byte* const p = bytes.data() + wire::kEthernetBytes;
  const auto type = static_cast<wire::Type>(p[1]);
  return kBefore + wire::load16(p + 36) + (wire::has_checksum(type, wire::load16(p + 2)) ? wire::kChecksumBytes : 0);
}

// The length of the segments of a datagram whose first one begins `bytes`; `length` if it has but one, or
// too little of it was captured to tell.
std::size_t segment_length(Bytes bytes, std::size_t length, std::uint16_t ether_type) {
  const std::size_t first = needed(bytes);
  if (first == 0) return length;
  for (std::size_t at = first; at + kBefore <= bytes.size(); ++at) {
    const bool same = std::memcmp(&bytes[at], bytes.data(), wire::kEthernetBytes) == 0;
    if (same && is_train_frame(bytes.subspan(at), ether_type)) return at;
    if (bytes[at] != std::byte{0} && !same) return length;
  }
  return length;
}

void find_segments(const PacketView& packet, std::size_t begin, std::uint16_t ether_type, std::vector<FoundFrame>& out) {
  const Bytes all(packet.bytes);
  const std::size_t step = segment_length(all.subspan(begin), packet.length - begin, ether_type);
  out.reserve((all.size() - begin) / step + 1);
  for (std::size_t at = begin; at < packet.length && at < all.size(); at += step) {
    const std::size_t length = std::min<std::size_t>(step, packet.length - at);
    out.push_back({all.subspan(at, std::min(length, all.size() - at)), at, length,
                   static_cast<std::uint32_t>(out.size()), true});
  }
}

// Finds the frames behind the first one of a bundle.
void find_bundled(const PacketView& packet, std::vector<FoundFrame>& out) {
  const Bytes all(packet.bytes);
  wire::Decoded decoded;
  if (wire::decode(all, decoded) != wire::Malformed::kNone) return;
  for (std::size_t at; (at = wire::next_in_bundle(all, decoded)) != 0;) {
    std::vector<std::byte> frame(all.begin(), all.begin() + wire::kEthernetBytes);
    frame.insert(frame.end(), all.begin() + static_cast<std::ptrdiff_t>(at), all.end());
    const auto own = std::make_shared<const std::vector<std::byte>>(std::move(frame));
    out.push_back({*own, at, packet.length - at + wire::kEthernetBytes, 0, false, true, own});
    if (wire::decode_bundled(all, at, decoded) != wire::Malformed::kNone) return;
  }
}

}  // namespace

std::vector<FoundFrame> find_frames(const PacketView& packet, std::uint16_t ether_type) {
  std::vector<FoundFrame> out;
  const Bytes all(packet.bytes);
  if (all.size() < wire::kEthernetBytes) return out;
  std::size_t at = wire::kEthernetBytes;
  std::uint16_t type = wire::load16(&all[12]);
  if (type == ether_type) {
    out.push_back({all, 0, packet.length});
    find_bundled(packet, out);
    return out;
  }
  if (type == kVlan && all.size() >= at + kVlanBytes) {
    type = wire::load16(&all[at + 2]);
    at += kVlanBytes;
  }
  const std::size_t payload = udp_payload(all, type, at);
  if (payload != 0 && payload < all.size() && is_train_frame(all.subspan(payload), ether_type)) {
    find_segments(packet, payload, ether_type, out);
  }
  return out;
}

}  // namespace viaduct::dump
