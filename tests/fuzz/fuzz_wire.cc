// Fuzz target of the wire format: any bytes as a frame, and its payload as every kind of body. An accepted frame must
// encode to the same bytes again.
//
// With clang's fuzzer:  clang++ -fsanitize=fuzzer,address ... fuzz_wire.cc kagent/contract/wire.cc
// Without it:           link replay_main.cc and name corpus files or folders
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "kagent/contract/wire.h"

using namespace viaduct;  // NOLINT: one translation unit

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz_wire: %s\n", what);
  std::abort();
}

template <class Body>
void try_body(std::span<const std::byte> payload) {
  Body body;
  if (!wire::decode(payload, body)) return;
  std::byte again[wire::kConnectBodyMaxBytes];
  const std::size_t length = wire::encode(body, again);
  require(length == payload.size(), "a body has another length when encoded again");
  require(std::memcmp(again, payload.data(), length) == 0, "a body changes when encoded again");
}

void try_bodies(std::span<const std::byte> bytes) {
  // A copy of its own, so that reads behind the payload are reads behind an allocation.
  auto copy = std::make_unique<std::byte[]>(bytes.size());
  if (!bytes.empty()) std::memcpy(copy.get(), bytes.data(), bytes.size());
  const std::span<const std::byte> payload{copy.get(), bytes.size()};
  try_body<wire::ConnectBody>(payload);
  try_body<wire::NameBody>(payload);
  try_body<wire::ClaimBody>(payload);
  MacAddress address;
  if (wire::decode(payload, address)) {
    require(payload.size() == 6 && std::memcmp(address.data(), payload.data(), 6) == 0,
            "an address changes");
  }
  wire::PackedHeader packed;
  if (wire::decode(payload, packed)) {
    require(packed.length + wire::kPackedBytes <= payload.size(), "a packed message is too long");
    std::byte again[wire::kPackedBytes];
    wire::encode(packed, again);
    require(std::memcmp(again, payload.data(), sizeof again) == 0, "a packed header changes");
  }
  wire::RdmaHeader rdma;
  if (wire::decode(payload, rdma)) {
    std::byte again[wire::kRdmaBytes];
    wire::encode(rdma, again);
    require(std::memcmp(again, payload.data(), 12) == 0, "an RDMA header changes");
  }
}

// Each frame of a bundle lies behind the one before, and within it.
void try_bundle(std::span<const std::byte> frame, wire::Decoded d) {
  std::size_t before = wire::kEthernetBytes;
  for (std::size_t at; (at = wire::next_in_bundle(frame, d)) != 0; before = at) {
    require(at >= before + wire::kHeaderBytes, "a frame of a bundle begins in the one before");
    if (wire::decode_bundled(frame, at, d) != wire::Malformed::kNone) return;
    require(d.header.type == wire::Type::kData || d.header.type == wire::Type::kAck, "a type that can't be in a bundle");
    require(d.payload.data() == frame.data() + at + wire::kHeaderBytes, "a payload in a bundle begins elsewhere");
    require(d.payload.size() <= frame.size() - at - wire::kHeaderBytes, "a payload ends behind its bundle");
    wire::intact(d);
  }
}

void try_frame(std::span<const std::byte> bytes) {
  auto copy = std::make_unique<std::byte[]>(bytes.size());
  if (!bytes.empty()) std::memcpy(copy.get(), bytes.data(), bytes.size());
  const std::span<const std::byte> frame{copy.get(), bytes.size()};
  wire::Decoded d;
  if (wire::decode(frame, d) != wire::Malformed::kNone) return;

  constexpr std::size_t before = wire::kEthernetBytes + wire::kHeaderBytes;
  require(d.payload.data() == frame.data() + before, "the payload begins elsewhere");
  require(d.payload.size() <= frame.size() - before, "the payload is longer than its frame");
  require(d.payload.size() == d.header.payload_length, "the payload has another length");
  if (d.header.type == wire::Type::kData) {
    const std::size_t rdma = wire::rdma_bytes(d.header.flags);
    require(d.payload.size() >= rdma, "no room for the RDMA header");
    require(d.payload.size() - rdma <= d.header.message_length, "more data than the message has");
    require(d.header.offset <= d.header.message_length - (d.payload.size() - rdma),
            "data behind the end of its message");
  }

  const bool checked = wire::has_checksum(d.header.type, d.header.flags);
  std::vector<std::byte> again(std::max(
      before + d.payload.size() + (checked ? wire::kChecksumBytes : 0), wire::kMinFrameBytes));
  const std::size_t length = wire::encode(d.header, d.destination, d.source,
                                          wire::load16(frame.data() + 12), again.data());
  require(length == again.size(), "a frame has another length when encoded again");
  require(std::memcmp(again.data(), frame.data(), before) == 0,
          "a header changes when encoded again");
  try_bodies(d.payload);
  try_bundle(frame, d);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try_frame(bytes);
  try_bodies(bytes);
  return 0;
}
