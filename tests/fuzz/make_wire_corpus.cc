// Writes the seed corpus of fuzz_wire: one good frame of each kind, a file for each, into a folder
// that exists.
//
//   make_wire_corpus FOLDER
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "kagent/contract/wire.h"

using namespace viaduct;  // NOLINT: one translation unit

namespace {

using Bytes = std::vector<std::byte>;

constexpr MacAddress kTo{0x02, 0, 0, 0, 0, 0x0b};
constexpr MacAddress kFrom{0x02, 0, 0, 0, 0, 0x0a};

std::string folder;
bool failed = false;

void write(const std::string& name, wire::Header header, const Bytes& payload = {}) {
  constexpr std::size_t before = wire::kEthernetBytes + wire::kHeaderBytes;
  header.vi = 7;
  header.key = 0x0123456789abcdef;
  header.psn = 1000;
  header.ack = 2000;
  header.window = 256;
  header.payload_length = static_cast<std::uint16_t>(payload.size());
  Bytes frame(std::max(before + payload.size() + wire::kChecksumBytes, wire::kMinFrameBytes));
  std::copy(payload.begin(), payload.end(), frame.begin() + before);
  frame.resize(wire::encode(header, kTo, kFrom, wire::kDefaultEtherType, frame.data()));

  const std::string path = folder + "/" + name;
  std::FILE* file = std::fopen(path.c_str(), "wb");
  const bool written =
      file != nullptr && std::fwrite(frame.data(), 1, frame.size(), file) == frame.size();
  if (file == nullptr || std::fclose(file) != 0 || !written) {
    std::perror(path.c_str());
    failed = true;
  }
}

wire::Header header_of(wire::Type type) {
  wire::Header header{};
  header.type = type;
  return header;
}

wire::Header data(std::uint16_t flags, std::uint32_t message_length, std::uint32_t offset) {
  wire::Header header = header_of(wire::Type::kData);
  header.flags = flags;
  header.message_length = message_length;
  header.offset = offset;
  header.immediate = 0xfeedface;
  return header;
}

Bytes connect_body(std::size_t discriminator) {
  wire::ConnectBody body{};
  body.host = kFrom;
  body.request = 3;
  body.vi = 9;
  body.key = 0xfedcba9876543210;
  body.first_psn = 5;
  body.max_transfer = 65536;
  body.reliability = 2;
  body.mtu = 1500;
  body.rdma_flags = wire::kRdmaWriteEnabled;
  body.local_length = body.remote_length = static_cast<std::uint8_t>(discriminator);
  std::fill_n(body.local.begin(), discriminator, std::byte{'a'});
  std::fill_n(body.remote.begin(), discriminator, std::byte{'b'});
  Bytes bytes(wire::kConnectBodyMaxBytes);
  bytes.resize(wire::encode(body, bytes.data()));
  return bytes;
}

Bytes name_body(const std::string& name) {
  wire::NameBody body{};
  body.request = 3;
  body.name_length = static_cast<std::uint8_t>(name.size());
  std::copy(name.begin(), name.end(), body.name.begin());
  Bytes bytes(wire::kNameBodyMaxBytes);
  bytes.resize(wire::encode(body, bytes.data()));
  return bytes;
}

Bytes rdma_header(std::size_t data_bytes) {
  Bytes bytes(wire::kRdmaBytes + data_bytes, std::byte{0x5a});
  wire::encode(wire::RdmaHeader{0x7f0000001000, 77}, bytes.data());
  return bytes;
}

Bytes packed_messages() {
  Bytes bytes(3 * wire::kPackedBytes + 30, std::byte{0x5a});
  std::size_t at = 0;
  for (std::uint16_t i = 0; i < 3; ++i) {
    const auto length = static_cast<std::uint16_t>(5 + 5 * i);
    wire::encode(wire::PackedHeader{length, static_cast<std::uint16_t>(i % 2), i}, &bytes[at]);
    at += wire::kPackedBytes + length;
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  folder = argv[1];
  const Bytes some(40, std::byte{0x5a});
  using namespace wire;
  write("data-empty", data(kFlagFirst | kFlagLast | kFlagAckNow, 0, 0));
  write("data-whole", data(kFlagFirst | kFlagLast | kFlagImmediate, 40, 0), some);
  write("data-first", data(kFlagFirst, 120, 0), some);
  write("data-middle", data(0, 120, 40), some);
  write("data-last", data(kFlagLast | kFlagAckNow, 120, 80), some);
  write("data-packed", data(kFlagFirst | kFlagLast | kFlagPacked, 54, 0), packed_messages());
  write("rdma-write-first", data(kFlagFirst | kOpRdmaWrite, 80, 0), rdma_header(40));
  write("rdma-write-last", data(kFlagLast | kOpRdmaWrite, 80, 40), some);
  write("rdma-read-request", data(kFlagFirst | kFlagLast | kOpRdmaReadRequest, 80, 0),
        rdma_header(0));
  write("rdma-read-response", data(kFlagFirst | kFlagLast | kOpRdmaReadResponse, 40, 0), some);
  write("ack", header_of(Type::kAck), Bytes(kSackBits / 8, std::byte{0x81}));
  write("connect-request", header_of(Type::kConnectRequest), connect_body(4));
  write("connect-request-long", header_of(Type::kConnectRequest),
        connect_body(kMaxDiscriminatorBytes));
  write("connect-accept", header_of(Type::kConnectAccept), connect_body(0));
  write("connect-confirm", header_of(Type::kConnectConfirm));
  write("connect-reject", header_of(Type::kConnectReject));
  write("connect-held", header_of(Type::kConnectHeld));
  write("connect-moved", header_of(Type::kConnectMoved), Bytes(6, std::byte{0x0a}));
  write("disconnect", header_of(Type::kDisconnect));
  write("disconnect-ack", header_of(Type::kDisconnectAck));
  write("probe", header_of(Type::kProbe));
  write("probe-ack", header_of(Type::kProbeAck));
  write("reset", header_of(Type::kReset));
  write("name-query", header_of(Type::kNameQuery), name_body("192.0.2.7"));
  std::vector<std::byte> claim(kClaimBodyBytes);
  encode(ClaimBody{1, ClaimAnswer::kGood, {Flow::kIpv4, 80, 8080, 0, {127, 0, 0, 1}, {127}}, {}},
         claim.data());
  write("claim-reply", header_of(Type::kClaimReply), claim);
  write("name-reply", header_of(Type::kNameReply), name_body(std::string(kMaxNameBytes, 'n')));
  return failed ? 1 : 0;
}
