#include "tests/unit/viadump/random_frames.h"

#include <algorithm>

namespace viaduct::dump {
namespace {

using Bytes = std::vector<std::byte>;
using wire::Type;

constexpr std::size_t kBefore = wire::kEthernetBytes + wire::kHeaderBytes;

// Small numbers and the largest ones come as often as any others.
template <class Number>
Number any(SimRandom& random) {
  switch (random.below(8)) {
    case 0: return static_cast<Number>(random.below(4));
    case 1: return static_cast<Number>(~random.below(4));
    default: return static_cast<Number>(random.next());
  }
}

template <class Array>
void fill(SimRandom& random, Array& out) {
  for (auto& each : out) each = static_cast<std::remove_reference_t<decltype(each)>>(random.next());
}

MacAddress unicast(SimRandom& random) {
  MacAddress out;
  fill(random, out);
  out[0] = static_cast<std::uint8_t>((out[0] & 0xfc) | 2);
  return out;
}

template <class Body>
Bytes encoded(const Body& body) {
  Bytes out(wire::kConnectBodyMaxBytes);
  out.resize(wire::encode(body, out.data()));
  return out;
}

Bytes bytes(SimRandom& random, std::size_t count) {
  Bytes out(count);
  fill(random, out);
  return out;
}

Bytes connect_body(SimRandom& random) {
  wire::ConnectBody body{};
  fill(random, body.host);
  body.request = any<std::uint32_t>(random);
  body.vi = any<std::uint32_t>(random);
  body.key = any<std::uint64_t>(random);
  body.first_psn = any<std::uint32_t>(random);
  body.max_transfer = any<std::uint32_t>(random);
  body.reliability = static_cast<std::uint16_t>(1u << random.below(4));
  body.mtu = any<std::uint16_t>(random);
  body.rdma_flags = static_cast<std::uint8_t>(random.below(64));
  body.local_length = static_cast<std::uint8_t>(random.below(wire::kMaxDiscriminatorBytes + 1));
  body.remote_length = static_cast<std::uint8_t>(random.below(wire::kMaxDiscriminatorBytes + 1));
  fill(random, body.local);
  fill(random, body.remote);
  return encoded(body);
}

Bytes name_body(SimRandom& random) {
  static constexpr char kLetters[] = "abcdefghijklmnopqrstuvwxyz0123456789.-";
  wire::NameBody body{};
  body.request = any<std::uint32_t>(random);
  body.name_length = static_cast<std::uint8_t>(random.below(wire::kMaxNameBytes + 1));
  for (char& letter : body.name) letter = kLetters[random.below(sizeof kLetters - 1)];
  return encoded(body);
}

Bytes claim_body(SimRandom& random) {
  wire::ClaimBody body{};
  body.request = any<std::uint32_t>(random);
  body.answer = static_cast<wire::ClaimAnswer>(random.below(3));
  body.flow.family = random.below(2) != 0 ? Flow::kIpv4 : Flow::kIpv6;
  body.flow.local_port = any<std::uint16_t>(random);
  body.flow.remote_port = any<std::uint16_t>(random);
  fill(random, body.flow.local);
  fill(random, body.flow.remote);
  fill(random, body.token);
  return encoded(body);
}

Bytes path_body(SimRandom& random) {
  wire::PathBody body{};
  body.step = static_cast<wire::PathStep>(1 + random.below(4));
  body.token = any<std::uint32_t>(random);
  body.address.port = any<std::uint16_t>(random);
  fill(random, body.address.v4);
  fill(random, body.address.v6);
  Bytes out(wire::kPathBodyBytes);
  wire::encode(body, out.data());
  return out;
}

Bytes packed_messages(SimRandom& random) {
  Bytes out;
  for (std::uint64_t left = 2 + random.below(6); left-- > 0;) {
    const auto length = static_cast<std::uint16_t>(random.below(60));
    const auto flags = static_cast<std::uint16_t>(random.below(2));
    const std::size_t at = out.size();
    out.resize(at + wire::kPackedBytes);
    wire::encode(wire::PackedHeader{length, flags, any<std::uint32_t>(random)}, &out[at]);
    const Bytes message = bytes(random, length);
    out.insert(out.end(), message.begin(), message.end());
  }
  return out;
}

Bytes data_payload(SimRandom& random, wire::Header& header) {
  header.flags = static_cast<std::uint16_t>(random.next() & wire::kKnownFlags);
  if ((header.flags & wire::kFlagPacked) != 0) {
    constexpr std::uint16_t kMay = wire::kFlagAckNow | wire::kFlagChecked;
    header.flags = static_cast<std::uint16_t>((header.flags & kMay) | wire::kFlagPacked | wire::kFlagFirst |
                                              wire::kFlagLast);
    Bytes out = packed_messages(random);
    header.message_length = static_cast<std::uint32_t>(out.size());
    header.offset = 0;
    return out;
  }
  if ((header.flags & wire::kOpMask) == wire::kOpRdmaReadRequest) header.flags |= wire::kFlagFirst | wire::kFlagLast;
  const bool read = (header.flags & wire::kOpMask) == wire::kOpRdmaReadRequest;
  const auto data = static_cast<std::uint32_t>(read || random.below(8) == 0 ? 0 : random.below(300));
  Bytes out = bytes(random, wire::rdma_bytes(header.flags) + data);
  if (out.size() != data) {
    wire::encode(wire::RdmaHeader{any<std::uint64_t>(random), any<std::uint32_t>(random)}, out.data());
  }
  header.message_length = data + static_cast<std::uint32_t>(random.below(0xffffff00));
  header.offset = static_cast<std::uint32_t>(random.below(header.message_length - data + 1ull));
  return out;
}

Bytes payload_of(SimRandom& random, wire::Header& header) {
  switch (header.type) {
    case Type::kData: return data_payload(random, header);
    case Type::kAck: return bytes(random, random.below(4) == 0 ? 0 : wire::kSackBits / 8);
    case Type::kConnectRequest:
    case Type::kConnectAccept: return connect_body(random);
    case Type::kNameQuery:
    case Type::kNameReply: return name_body(random);
    case Type::kClaimQuery:
    case Type::kClaimReply: return claim_body(random);
    case Type::kPath: return path_body(random);
    case Type::kConnectMoved:
    case Type::kStoppedQuery:
    case Type::kStoppedReply: return bytes(random, 6);
    default: return {};
  }
}

}  // namespace

Bytes random_frame(SimRandom& random, Type type) {
  wire::Header header{.type = type};
  header.vi = any<std::uint32_t>(random);
  header.key = any<std::uint64_t>(random);
  header.psn = any<std::uint32_t>(random);
  header.ack = any<std::uint32_t>(random);
  header.immediate = any<std::uint32_t>(random);
  header.window = any<std::uint16_t>(random);
  if (type != Type::kData) {
    header.message_length = any<std::uint32_t>(random);
    header.offset = any<std::uint32_t>(random);
  }
  const Bytes payload = payload_of(random, header);
  header.payload_length = static_cast<std::uint16_t>(payload.size());
  Bytes frame(std::max(kBefore + payload.size() + wire::kChecksumBytes, wire::kMinFrameBytes));
  std::copy(payload.begin(), payload.end(), frame.begin() + kBefore);
  const MacAddress to = type == Type::kNameQuery && random.below(2) != 0 ? kBroadcast : unicast(random);
  frame.resize(wire::encode(header, to, unicast(random), wire::kDefaultEtherType, frame.data()));
  return frame;
}

Bytes damaged_frame(SimRandom& random, Type type) {
  Bytes frame = random_frame(random, type);
  const std::size_t payload = wire::load16(&frame[wire::kEthernetBytes + 36]);
  switch (random.below(6)) {
    case 0:  // cut off
      frame.resize(wire::kEthernetBytes + random.below(frame.size() - wire::kEthernetBytes));
      break;
    case 1:  // version, type or flags
      frame[wire::kEthernetBytes + random.below(4)] = static_cast<std::byte>(random.next());
      break;
    case 2:  // lengths and offset
      frame[wire::kEthernetBytes + 24 + random.below(14)] = static_cast<std::byte>(random.next());
      break;
    case 3:  // the body, with a good checksum
      if (payload != 0) frame[kBefore + random.below(payload)] = static_cast<std::byte>(random.next());
      wire::seal(frame);
      break;
    case 4:  // the payload's length, with a good checksum
      if (payload != 0) wire::store16(&frame[wire::kEthernetBytes + 36], static_cast<std::uint16_t>(payload - 1));
      wire::seal(frame);
      break;
    default:  // any bit
      frame[wire::kEthernetBytes + random.below(frame.size() - wire::kEthernetBytes)] ^=
          static_cast<std::byte>(1u << random.below(8));
      break;
  }
  return frame;
}

}  // namespace viaduct::dump
