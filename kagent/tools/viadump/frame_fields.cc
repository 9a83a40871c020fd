// The fields of a frame by name, for frame_reading.h. Values come from the stack's decoder, none from
// the description that the dissector is made of (kagent/contract/wire.fields): a test compares the two.
#include <arpa/inet.h>

#include <cstdio>

#include "kagent/tools/viadump/frame_reading.h"

namespace viaduct::dump {
namespace {

using Bytes = std::span<const std::byte>;

std::string hex_bytes(const void* data, std::size_t bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(bytes * 2);
  for (std::size_t i = 0; i < bytes; ++i) {
    const unsigned value = static_cast<const unsigned char*>(data)[i];
    out += kDigits[value >> 4];
    out += kDigits[value & 15];
  }
  return out;
}

class List {
 public:
  void number(const char* name, std::uint64_t value) { fields_.push_back({name, std::to_string(value), true}); }
  // Adds a value in hexadecimal, with as many digits as the field has.
  template <class Value>
  void hex(const char* name, Value value) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%0*llx", static_cast<int>(sizeof value * 2),
                  static_cast<unsigned long long>(value));
    fields_.push_back({name, text});
  }
  void bytes(const char* name, const void* data, std::size_t count) {
    if (count != 0) fields_.push_back({name, hex_bytes(data, count)});
  }
  void text(const char* name, std::string value) { fields_.push_back({name, std::move(value)}); }
  void address(const char* name, const MacAddress& value) { fields_.push_back({name, address_text(value)}); }
  void ip(const char* name, int family, const void* value) {
    char out[INET6_ADDRSTRLEN] = "";
    inet_ntop(family, value, out, sizeof out);
    fields_.push_back({name, out});
  }
  std::vector<Field> take() { return std::move(fields_); }

 private:
  std::vector<Field> fields_;
};

void add_header(const wire::Header& header, List& out) {
  out.number("version", wire::kVersion);
  out.number("type", static_cast<unsigned>(header.type));
  out.hex("flags", header.flags);
  if (header.type == wire::Type::kData) {
    out.number("flags.first", (header.flags & wire::kFlagFirst) != 0);
    out.number("flags.last", (header.flags & wire::kFlagLast) != 0);
    out.number("flags.immediate", (header.flags & wire::kFlagImmediate) != 0);
    out.number("flags.ack_now", (header.flags & wire::kFlagAckNow) != 0);
    out.number("flags.packed", (header.flags & wire::kFlagPacked) != 0);
    out.number("flags.checked", (header.flags & wire::kFlagChecked) != 0);
    out.number("flags.operation", (header.flags & wire::kOpMask) >> 4);
  }
  out.number("vi", header.vi);
  out.hex("key", header.key);
  out.number("psn", header.psn);
  out.number("ack", header.ack);
  out.number("message_length", header.message_length);
  out.number("offset", header.offset);
  out.hex("immediate", header.immediate);
  out.number("payload_length", header.payload_length);
  out.number("window", header.window);
}

void add_packed(Bytes payload, List& out) {
  for (wire::PackedHeader packed{}; !payload.empty() && wire::decode(payload, packed);) {
    out.number("packed.length", packed.length);
    out.number("packed.flags", packed.flags);
    out.hex("packed.immediate", packed.immediate);
    out.bytes("data", payload.data() + wire::kPackedBytes, packed.length);
    payload = payload.subspan(wire::kPackedBytes + packed.length);
  }
}

void add_data(const wire::Header& header, Bytes payload, List& out) {
  if ((header.flags & wire::kFlagPacked) != 0) return add_packed(payload, out);
  if (wire::rdma_bytes(header.flags) != 0) {
    wire::RdmaHeader rdma;
    if (!wire::decode(payload, rdma)) return;
    out.hex("rdma.address", rdma.address);
    out.number("rdma.handle", rdma.handle);
    payload = payload.subspan(wire::kRdmaBytes);
  }
  out.bytes("data", payload.data(), payload.size());
}

void add_connect(Bytes payload, List& out) {
  wire::ConnectBody body{};
  if (!wire::decode(payload, body)) return;
  out.address("connect.host", body.host);
  out.number("connect.request", body.request);
  out.number("connect.vi", body.vi);
  out.hex("connect.key", body.key);
  out.number("connect.first_psn", body.first_psn);
  out.number("connect.max_transfer", body.max_transfer);
  out.number("connect.reliability", body.reliability);
  out.number("connect.mtu", body.mtu);
  out.hex("connect.rdma_flags", body.rdma_flags);
  out.number("connect.local_length", body.local_length);
  out.number("connect.remote_length", body.remote_length);
  out.bytes("connect.local", body.local.data(), body.local_length);
  out.bytes("connect.remote", body.remote.data(), body.remote_length);
}

void add_name(Bytes payload, List& out) {
  wire::NameBody body{};
  if (!wire::decode(payload, body)) return;
  out.number("name.request", body.request);
  out.number("name.length", body.name_length);
  if (body.name_length != 0) out.text("name.name", std::string(body.name.data(), body.name_length));
}

void add_claim(Bytes payload, List& out) {
  wire::ClaimBody body{};
  if (!wire::decode(payload, body)) return;
  out.number("claim.request", body.request);
  out.number("claim.answer", static_cast<unsigned>(body.answer));
  out.number("claim.ip_version", body.flow.family);
  out.number("claim.local_port", body.flow.local_port);
  out.number("claim.remote_port", body.flow.remote_port);
  out.bytes("claim.local", body.flow.local, sizeof body.flow.local);
  out.bytes("claim.remote", body.flow.remote, sizeof body.flow.remote);
  out.bytes("claim.token", body.token.data(), body.token.size());
}

void add_path(Bytes payload, List& out) {
  wire::PathBody body{};
  if (!wire::decode(payload, body)) return;
  out.number("path.step", static_cast<unsigned>(body.step));
  out.number("path.port", body.address.port);
  out.number("path.token", body.token);
  out.ip("path.ipv4", AF_INET, body.address.v4.data());
  out.ip("path.ipv6", AF_INET6, body.address.v6.data());
}

void add_payload(const wire::Header& header, Bytes payload, List& out) {
  using wire::Type;
  MacAddress address;
  switch (header.type) {
    case Type::kData: return add_data(header, payload, out);
    case Type::kAck: return out.bytes("bitmap", payload.data(), payload.size());
    case Type::kConnectRequest:
    case Type::kConnectAccept: return add_connect(payload, out);
    case Type::kNameQuery:
    case Type::kNameReply: return add_name(payload, out);
    case Type::kClaimQuery:
    case Type::kClaimReply: return add_claim(payload, out);
    case Type::kPath: return add_path(payload, out);
    case Type::kConnectMoved:
    case Type::kStoppedQuery:
    case Type::kStoppedReply:
      if (wire::decode(payload, address)) out.address("address", address);
      return;
    default: return;
  }
}

}  // namespace

std::string address_text(const MacAddress& address) {
  char text[18];
  std::snprintf(text, sizeof text, "%02x:%02x:%02x:%02x:%02x:%02x", address[0], address[1], address[2], address[3],
                address[4], address[5]);
  return text;
}

std::vector<Field> fields_of(const Reading& reading) {
  List out;
  if (reading.has_header) {
    add_header(reading.decoded.header, out);
    add_payload(reading.decoded.header, reading.decoded.payload, out);
    if (reading.has_checksum) out.hex("checksum", reading.checksum);
  }
  if (reading.refusal != Refusal::kNone) out.text("refused", refusal_word(reading.refusal));
  return out.take();
}

}  // namespace viaduct::dump
