#include "kagent/tools/viadump/frame_reading.h"

#include <algorithm>

namespace viaduct::dump {
namespace {

constexpr std::size_t kBefore = wire::kEthernetBytes + wire::kHeaderBytes;

using Bytes = std::span<const std::byte>;

template <class Body>
bool is_body(Bytes payload) {
  Body body;
  return wire::decode(payload, body);
}

bool is_packed(Bytes payload) {
  unsigned messages = 0;
  for (wire::PackedHeader packed{}; !payload.empty(); ++messages) {
    if (!wire::decode(payload, packed)) return false;
    payload = payload.subspan(wire::kPackedBytes + packed.length);
  }
  return messages >= 2;
}

// Whether the payload is what its type says. A bitmap of another length is ignored, but its frame is not refused.
bool has_good_body(const wire::Decoded& decoded) {
  using wire::Type;
  const Bytes payload = decoded.payload;
  switch (decoded.header.type) {
    case Type::kConnectRequest:
    case Type::kConnectAccept: return is_body<wire::ConnectBody>(payload);
    case Type::kConnectMoved:
    case Type::kStoppedQuery:
    case Type::kStoppedReply: return is_body<MacAddress>(payload);
    case Type::kNameQuery:
    case Type::kNameReply: return is_body<wire::NameBody>(payload);
    case Type::kClaimQuery:
    case Type::kClaimReply: return is_body<wire::ClaimBody>(payload);
    case Type::kPath: return is_body<wire::PathBody>(payload);
    case Type::kData: return (decoded.header.flags & wire::kFlagPacked) == 0 || is_packed(payload);
    default: return true;
  }
}

Refusal refusal_of(wire::Malformed malformed) {
  switch (malformed) {
    case wire::Malformed::kNone: return Refusal::kNone;
    case wire::Malformed::kShort: return Refusal::kShort;
    case wire::Malformed::kVersion: return Refusal::kVersion;
    case wire::Malformed::kType: return Refusal::kType;
    case wire::Malformed::kLength: break;
  }
  return Refusal::kLength;
}

void judge_payload(Bytes frame, Reading& out) {
  const wire::Header& header = out.decoded.header;
  out.has_checksum = wire::has_checksum(header.type, header.flags);
  if (out.has_checksum) out.checksum = wire::load32(frame.data() + kBefore + header.payload_length);
  if (!wire::intact(out.decoded)) {
    out.refusal = Refusal::kChecksum;
  } else if (!has_good_body(out.decoded)) {
    out.refusal = Refusal::kBody;
  }
}

// The frame with zeros for bytes that were not captured, as far as its header says that there are some.
std::vector<std::byte> filled_up(Bytes captured, std::size_t length) {
  const std::byte* const header = captured.data() + wire::kEthernetBytes;
  const std::size_t needed = kBefore + wire::load16(header + 36) + wire::kChecksumBytes;
  std::vector<std::byte> out(captured.begin(), captured.end());
  out.resize(std::min(length, std::max(needed, captured.size())));
  return out;
}

}  // namespace

Reading read_frame(Bytes captured, std::size_t length) {
  Reading out;
  out.is_whole = captured.size() >= length;
  // Only the length is known of bytes that were not captured.
  std::vector<std::byte> filled;
  Bytes frame = captured;
  if (!out.is_whole && captured.size() >= kBefore) {
    filled = filled_up(captured, length);
    frame = filled;
  }
  out.refusal = refusal_of(wire::decode(frame, out.decoded));
  if (captured.size() < kBefore && captured.size() < length) out.refusal = Refusal::kNone;  // not known
  out.has_header = out.refusal == Refusal::kNone && frame.size() >= kBefore;
  if (!out.has_header) return out;
  const std::size_t there = std::min<std::size_t>(captured.size() - kBefore, out.decoded.header.payload_length);
  if (out.is_whole) judge_payload(frame, out);
  out.decoded.payload = captured.subspan(kBefore, there);
  return out;
}

const char* type_word(wire::Type type) {
  using wire::Type;
  switch (type) {
    case Type::kData: return "DATA";
    case Type::kAck: return "ACK";
    case Type::kConnectMoved: return "CONNECT_MOVED";
    case Type::kConnectRequest: return "CONNECT_REQUEST";
    case Type::kConnectAccept: return "CONNECT_ACCEPT";
    case Type::kConnectConfirm: return "CONNECT_CONFIRM";
    case Type::kConnectReject: return "CONNECT_REJECT";
    case Type::kConnectHeld: return "CONNECT_HELD";
    case Type::kDisconnect: return "DISCONNECT";
    case Type::kDisconnectAck: return "DISCONNECT_ACK";
    case Type::kProbe: return "PROBE";
    case Type::kProbeAck: return "PROBE_ACK";
    case Type::kReset: return "RESET";
    case Type::kNameQuery: return "NAME_QUERY";
    case Type::kNameReply: return "NAME_REPLY";
    case Type::kClaimQuery: return "CLAIM_QUERY";
    case Type::kClaimReply: return "CLAIM_REPLY";
    case Type::kStoppedQuery: return "STOPPED_QUERY";
    case Type::kStoppedReply: return "STOPPED_REPLY";
    case Type::kWake: return "WAKE";
    case Type::kPath: return "PATH";
  }
  return "?";
}

const char* refusal_word(Refusal refusal) {
  switch (refusal) {
    case Refusal::kNone: return "";
    case Refusal::kShort: return "short";
    case Refusal::kVersion: return "version";
    case Refusal::kType: return "type";
    case Refusal::kLength: return "length";
    case Refusal::kChecksum: return "checksum";
    case Refusal::kBody: return "body";
  }
  return "?";
}

const char* operation_word(std::uint16_t flags) {
  switch (flags & wire::kOpMask) {
    case wire::kOpRdmaWrite: return "write";
    case wire::kOpRdmaReadRequest: return "read request";
    case wire::kOpRdmaReadResponse: return "read response";
    default: return "send";
  }
}

}  // namespace viaduct::dump
