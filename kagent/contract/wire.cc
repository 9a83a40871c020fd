// The bodies of connection and name messages. The hot parts of the wire format are in wire.h.
#include "kagent/contract/wire.h"

#include <cassert>

namespace viaduct::wire {
namespace {

// Offsets in a ConnectBody; the discriminators follow, local first.
constexpr std::size_t kHost = kConnectHostOffset - kEthernetBytes - kHeaderBytes;
constexpr std::size_t kRequest = 6;
constexpr std::size_t kVi = 10;
constexpr std::size_t kKey = 14;
constexpr std::size_t kFirstPsn = 22;
constexpr std::size_t kMaxTransfer = 26;
constexpr std::size_t kReliability = 30;
constexpr std::size_t kMtu = 32;
constexpr std::size_t kRdmaFlags = 34;
constexpr std::size_t kLocalLength = 35;
constexpr std::size_t kRemoteLength = 36;
constexpr std::size_t kDiscriminators = 37;
static_assert(kHost == 0);
static_assert(kConnectBodyMaxBytes == kDiscriminators + 2 * kMaxDiscriminatorBytes);

constexpr std::uint8_t kKnownRdmaFlags =
    kRdmaWriteEnabled | kRdmaReadEnabled | kPeerToPeer | kAsksForChecksum | kTakesBundles |
    kTakesPlainTrains;

// Offsets in a NameBody.
constexpr std::size_t kNameLength = 4;
constexpr std::size_t kName = 5;
static_assert(kNameBodyMaxBytes == kName + kMaxNameBytes);

// Offsets in a ClaimBody.
constexpr std::size_t kAnswer = 4;
constexpr std::size_t kFamily = 5;
constexpr std::size_t kLocalPort = 6;
constexpr std::size_t kRemotePort = 8;
constexpr std::size_t kLocalAddress = 10;
constexpr std::size_t kRemoteAddress = 26;
constexpr std::size_t kToken = 42;
constexpr std::uint8_t kOfUdp = 0x80;  // in the byte of the family
static_assert(kClaimBodyBytes == kToken + sizeof(ClaimToken));

// Offsets in a PathBody; the step comes first, then a byte of 0.
constexpr std::size_t kPathPort = 2;
constexpr std::size_t kPathToken = 4;
constexpr std::size_t kPathV4 = 8;
constexpr std::size_t kPathV6 = 12;
static_assert(kPathBodyBytes == kPathV6 + sizeof(TrainAddress::v6));

}  // namespace

void seal(std::span<std::byte> frame) {
  Decoded decoded;
  if (decode(frame, decoded) != Malformed::kNone) return;
  if (!has_checksum(decoded.header.type, decoded.header.flags)) return;
  const std::size_t length = kEthernetBytes + kHeaderBytes + decoded.header.payload_length;
  store32(frame.data() + length,
          crc32c(frame.data() + kEthernetBytes, length - kEthernetBytes));
}

std::size_t encode(const ConnectBody& body, std::byte* payload) {
  assert(body.local_length <= kMaxDiscriminatorBytes);
  assert(body.remote_length <= kMaxDiscriminatorBytes);
  std::memcpy(payload + kHost, body.host.data(), body.host.size());
  store32(payload + kRequest, body.request);
  store32(payload + kVi, body.vi);
  store64(payload + kKey, body.key);
  store32(payload + kFirstPsn, body.first_psn);
  store32(payload + kMaxTransfer, body.max_transfer);
  store16(payload + kReliability, body.reliability);
  store16(payload + kMtu, body.mtu);
  payload[kRdmaFlags] = std::byte{body.rdma_flags};
  payload[kLocalLength] = std::byte{body.local_length};
  payload[kRemoteLength] = std::byte{body.remote_length};
  std::byte* const local = payload + kDiscriminators;
  std::memcpy(local, body.local.data(), body.local_length);
  std::memcpy(local + body.local_length, body.remote.data(), body.remote_length);
  return kDiscriminators + body.local_length + body.remote_length;
}

bool decode(std::span<const std::byte> payload, ConnectBody& out) {
  if (payload.size() < kDiscriminators) return false;
  const std::byte* const p = payload.data();
  const auto local_length = std::to_integer<std::uint8_t>(p[kLocalLength]);
  const auto remote_length = std::to_integer<std::uint8_t>(p[kRemoteLength]);
  const auto rdma_flags = std::to_integer<std::uint8_t>(p[kRdmaFlags]);
  if (local_length > kMaxDiscriminatorBytes || remote_length > kMaxDiscriminatorBytes) return false;
  if (payload.size() != kDiscriminators + local_length + remote_length) return false;
  if ((rdma_flags & ~kKnownRdmaFlags) != 0) return false;

  out = {};
  std::memcpy(out.host.data(), p + kHost, out.host.size());
  out.request = load32(p + kRequest);
  out.vi = load32(p + kVi);
  out.key = load64(p + kKey);
  out.first_psn = load32(p + kFirstPsn);
  out.max_transfer = load32(p + kMaxTransfer);
  out.reliability = load16(p + kReliability);
  out.mtu = load16(p + kMtu);
  out.rdma_flags = rdma_flags;
  out.local_length = local_length;
  out.remote_length = remote_length;
  std::memcpy(out.local.data(), p + kDiscriminators, local_length);
  std::memcpy(out.remote.data(), p + kDiscriminators + local_length, remote_length);
  return true;
}

std::size_t encode(const NameBody& body, std::byte* payload) {
  assert(body.name_length <= kMaxNameBytes);
  store32(payload, body.request);
  payload[kNameLength] = std::byte{body.name_length};
  std::memcpy(payload + kName, body.name.data(), body.name_length);
  return kName + body.name_length;
}

std::size_t encode(const ClaimBody& body, std::byte* payload) {
  const Flow& flow = body.flow;
  store32(payload, body.request);
  payload[kAnswer] = static_cast<std::byte>(body.answer);
  const unsigned of_udp = flow.protocol == Flow::kUdp ? kOfUdp : 0;
  payload[kFamily] = static_cast<std::byte>(flow.family | of_udp);
  store16(payload + kLocalPort, flow.local_port);
  store16(payload + kRemotePort, flow.remote_port);
  std::memcpy(payload + kLocalAddress, flow.local, sizeof flow.local);
  std::memcpy(payload + kRemoteAddress, flow.remote, sizeof flow.remote);
  std::memcpy(payload + kToken, body.token.data(), body.token.size());
  return kClaimBodyBytes;
}

bool decode(std::span<const std::byte> payload, ClaimBody& out) {
  if (payload.size() != kClaimBodyBytes) return false;
  const std::byte* const p = payload.data();
  const auto answer = std::to_integer<std::uint8_t>(p[kAnswer]);
  if (answer > static_cast<std::uint8_t>(ClaimAnswer::kBad)) return false;
  out = {};
  out.request = load32(p);
  out.answer = static_cast<ClaimAnswer>(answer);
  const auto family = std::to_integer<std::uint8_t>(p[kFamily]);
  out.flow.family = family & ~kOfUdp & 0xff;
  out.flow.protocol = (family & kOfUdp) != 0 ? Flow::kUdp : Flow::kTcp;
  out.flow.local_port = load16(p + kLocalPort);
  out.flow.remote_port = load16(p + kRemotePort);
  std::memcpy(out.flow.local, p + kLocalAddress, sizeof out.flow.local);
  std::memcpy(out.flow.remote, p + kRemoteAddress, sizeof out.flow.remote);
  std::memcpy(out.token.data(), p + kToken, out.token.size());
  return out.flow.valid();
}

bool decode(std::span<const std::byte> payload, NameBody& out) {
  if (payload.size() < kName) return false;
  const std::byte* const p = payload.data();
  const auto length = std::to_integer<std::uint8_t>(p[kNameLength]);
  if (length > kMaxNameBytes || payload.size() != kName + length) return false;
  out = {};
  out.request = load32(p);
  out.name_length = length;
  std::memcpy(out.name.data(), p + kName, length);
  return true;
}

void encode(const PathBody& body, std::byte* payload) {
  std::memset(payload, 0, kPathBodyBytes);
  payload[0] = static_cast<std::byte>(body.step);
  store16(payload + kPathPort, body.address.port);
  store32(payload + kPathToken, body.token);
  std::memcpy(payload + kPathV4, body.address.v4.data(), body.address.v4.size());
  std::memcpy(payload + kPathV6, body.address.v6.data(), body.address.v6.size());
}

bool decode(std::span<const std::byte> payload, PathBody& out) {
  if (payload.size() != kPathBodyBytes) return false;
  const auto step = std::to_integer<std::uint8_t>(payload[0]);
  if (step < static_cast<std::uint8_t>(PathStep::kTell) ||
      step > static_cast<std::uint8_t>(PathStep::kTried)) {
    return false;
  }
  out.step = static_cast<PathStep>(step);
  out.address.port = load16(payload.data() + kPathPort);
  out.token = load32(payload.data() + kPathToken);
  std::memcpy(out.address.v4.data(), payload.data() + kPathV4, out.address.v4.size());
  std::memcpy(out.address.v6.data(), payload.data() + kPathV6, out.address.v6.size());
  return true;
}

}  // namespace viaduct::wire
