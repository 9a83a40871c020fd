// Fuzz target of frames from the wire, behind the decoder: frames that a hostile host makes up, or that it has seen
// and changed, while two of its programs are connected. Two good programs, whose connection it has not seen, must go
// on undisturbed; it may write only to memory of connections that it is a part of; nothing may be left at the end.
#include <cstring>
#include <optional>
#include <vector>

#include "kagent/contract/wire.h"
#include "tests/fuzz/fuzz_hosts.h"

using namespace viaduct;  // NOLINT: one translation unit

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using fuzz::Input;

constexpr std::size_t kMostSteps = 200;
constexpr std::size_t kMostSeen = 64;
constexpr std::uint64_t kTimes[] = {0,          10'000,     100'000,       1'000'000,
                                    20'000'000, 600'000'000, 2'000'000'000, 4'000'000'000};
constexpr std::uint16_t kLevels[] = {vip::kUnreliable, vip::kReliableDelivery,
                                     vip::kReliableReception};

struct Wire {
  fuzz::Hosts hosts{1};
  std::vector<std::vector<std::byte>> seen;
  std::uint32_t here = 0, there = 0, handle = 0, peer_handle = 0;
  std::uint32_t fresh = 0, request = 0;  // the newest VI, the newest request

  explicit Wire(std::uint8_t shape) {
    // The good programs are connected and say nothing now: their key is not for the attacker's eyes.
    hosts.network.set_filter([&](const SimPort&, std::span<std::byte> frame) {
      if (seen.size() < kMostSeen) seen.emplace_back(frame.begin(), frame.end());
      return true;
    });
    const auto pair = hosts.connect_hostile(kLevels[shape % 3]);
    here = pair.first, there = pair.second;
    for (sim::Program* each : {hosts.hostile.get(), hosts.hostile_peer.get()}) {
      each->view().header().errors.wanted.store(1);
    }
    handle = hosts.hostile->register_memory(hosts.a.arena, 200'000, 0, true, true);
    peer_handle = hosts.hostile_peer->register_memory(hosts.b.arena, 200'000, 0, true, true);
    for (unsigned i = 0; i < 16; ++i) {
      hosts.hostile->post_receive(here, hosts.a.arena + 4096 * i, 4096, handle);
      hosts.hostile_peer->post_receive(there, hosts.b.arena + 4096 * i, 4096, peer_handle);
    }
    hosts.hostile->post_send(here, hosts.a.arena, 4000, handle, 0, 1);
    if (shape / 4 % 2) {
      hosts.hostile->post_rdma(here, layout::kOpRdmaWrite,
                               {reinterpret_cast<std::uint64_t>(hosts.a.arena), handle, 2000},
                               hosts.b.arena, peer_handle);
    }
    if (shape / 8 % 2 && shape % 3 != 0) {
      hosts.hostile->post_rdma(here, layout::kOpRdmaRead,
                               {reinterpret_cast<std::uint64_t>(hosts.a.arena), handle, 2000},
                               hosts.b.arena, peer_handle);
    }
    hosts.run_for(1'000'000);
    hosts.network.set_filter({});
  }

  // Behind the newest data frame that has been seen in the same direction.
  std::uint32_t next_psn(const wire::Decoded& like) const {
    std::uint32_t next = like.header.psn;
    for (const auto& each : seen) {
      wire::Decoded other;
      if (wire::decode(each, other) != wire::Malformed::kNone) continue;
      const bool same = other.destination == like.destination && other.header.key == like.header.key;
      if (!same || other.header.type != wire::Type::kData) continue;
      if (static_cast<std::int32_t>(other.header.psn - next) >= 0) next = other.header.psn + 1;
    }
    return next;
  }

  void inject(bool to_b, std::span<const std::byte> frame) {
    if (frame.empty()) return;
    hosts.network.inject(to_b ? hosts.b.port : hosts.a.port, frame);
  }
};

// A frame of the attacker's connection with other fields; `seen` gives key and VI.
void changed(Wire& wire, Input& input) {
  if (wire.seen.empty()) return;
  std::vector<std::byte> frame = wire.seen[input.byte() % wire.seen.size()];
  wire::Decoded decoded;
  if (wire::decode(frame, decoded) != wire::Malformed::kNone) return;
  wire::Header header = decoded.header;
  const std::uint8_t changes = input.byte(), more = input.byte();
  if (changes & 1) header.type = static_cast<wire::Type>(1 + input.byte() % wire::kLastType);
  if (changes & 2) header.flags = input.byte();
  // The next frame of the connection, which all others of it then come too late for, or near that.
  if (more & 64) header.psn = wire.next_psn(decoded);
  if (changes & 4) header.psn += static_cast<std::uint32_t>(static_cast<std::int8_t>(input.byte()));
  if (changes & 8) header.ack += static_cast<std::uint32_t>(static_cast<std::int8_t>(input.byte()));
  if (changes & 16) header.message_length = input.number();
  if (changes & 32) header.offset = input.number();
  if (changes & 64) header.window = input.number();
  if (changes & 128) header.vi = input.byte() == 0 ? input.word() : wire.there;
  if (more & 1) header.immediate = input.word();
  if (more & 2) header.key ^= input.byte();
  std::vector<std::byte> payload(decoded.payload.begin(), decoded.payload.end());
  if (more & 4) payload.resize(std::min<std::size_t>(input.number(), 1400));
  const auto bytes = more & 8 ? input.bytes(input.byte() % 64) : std::span<const std::uint8_t>();
  const std::size_t at = more & 8 && !payload.empty() ? input.number() % payload.size() : 0;
  std::copy_n(std::as_bytes(bytes).begin(), std::min(bytes.size(), payload.size() - at),
              payload.begin() + static_cast<std::ptrdiff_t>(at));
  if (more & 16 && payload.size() >= wire::kRdmaBytes) {
    wire::RdmaHeader rdma{};
    const bool to_b = decoded.destination == wire.hosts.b.port.address();
    // Memory that the connection may write to, memory beyond it, and the good program's.
    const std::uint16_t where = input.number();
    rdma.address = reinterpret_cast<std::uint64_t>(to_b ? wire.hosts.b.arena : wire.hosts.a.arena) +
                   (where < 0x8000 ? where * 16u : fuzz::ArenaHost::kGood + where % 0x4000u);
    rdma.handle = input.byte() % 4 ? (to_b ? wire.peer_handle : wire.handle) : input.word();
    wire::encode(rdma, payload.data());
  }
  header.payload_length = static_cast<std::uint16_t>(payload.size());
  constexpr std::size_t before = wire::kEthernetBytes + wire::kHeaderBytes;
  std::vector<std::byte> out(
      std::max(before + payload.size() + wire::kChecksumBytes, wire::kMinFrameBytes));
  if (!payload.empty()) std::memcpy(out.data() + before, payload.data(), payload.size());
  const MacAddress source = more & 32 ? MacAddress{2, 0, 0, 0, 0, input.byte()} : decoded.source;
  out.resize(wire::encode(header, decoded.destination, source, wire::kDefaultEtherType, out.data()));
  if (more & 128) {  // a bundle, with a frame of any type behind it
    const std::vector<std::byte>& behind = wire.seen[input.byte() % wire.seen.size()];
    out.resize(wire::end_of(out));
    out.insert(out.end(), behind.begin() + static_cast<std::ptrdiff_t>(wire::kEthernetBytes), behind.end());
  }
  wire.inject(decoded.destination == wire.hosts.b.port.address(), out);
}

// A whole RDMA write of the attacker's connection, in order and well made, to any address of the input: a malicious
// peer with the key can send it.
void write_somewhere(Wire& wire, Input& input) {
  for (const auto& each : wire.seen) {
    wire::Decoded like;
    if (wire::decode(each, like) != wire::Malformed::kNone) continue;
    if (like.header.type != wire::Type::kData) continue;
    wire::Header header = like.header;
    header.flags = wire::kFlagFirst | wire::kFlagLast | wire::kOpRdmaWrite;
    header.psn = wire.next_psn(like) + input.byte() % 4;
    header.offset = 0;
    header.message_length = 64;
    header.payload_length = wire::kRdmaBytes + 64;
    wire::RdmaHeader rdma{};
    rdma.address = reinterpret_cast<std::uint64_t>(wire.hosts.b.arena) + input.number() * 16u;
    rdma.handle = wire.peer_handle;
    constexpr std::size_t before = wire::kEthernetBytes + wire::kHeaderBytes;
    std::vector<std::byte> frame(before + header.payload_length + wire::kChecksumBytes);
    wire::encode(rdma, frame.data() + before);
    wire::encode(header, like.destination, like.source, wire::kDefaultEtherType, frame.data());
    return wire.inject(like.destination == wire.hosts.b.port.address(), frame);
  }
}

void raw(Wire& wire, Input& input) {
  const bool to_b = input.byte() % 2;
  const auto bytes = input.bytes(input.number() % 1600);
  std::vector<std::byte> frame(std::max<std::size_t>(bytes.size() + 14, 15));
  if (!bytes.empty()) std::memcpy(frame.data() + 14, bytes.data(), bytes.size());
  const MacAddress to = (to_b ? wire.hosts.b : wire.hosts.a).port.address();
  std::memcpy(frame.data(), to.data(), to.size());
  frame[6] = std::byte{2}, frame[11] = std::byte{9};
  wire::store16(frame.data() + 12, wire::kDefaultEtherType);
  // Or nothing would get past the checksum.
  if (bytes.size() % 8 != 0) wire::seal(frame);
  wire.inject(to_b, frame);
}

// Something for the good side of the attacked connection to have under way.
void work(Wire& wire, Input& input) {
  sim::Program& program = *wire.hosts.hostile;
  sim::Program& peer = *wire.hosts.hostile_peer;
  while (program.done(wire.here, false)) {}
  while (program.cq_entry(0)) {}
  while (peer.done(wire.there, true)) {
    peer.post_receive(wire.there, wire.hosts.b.arena, 4096, wire.peer_handle);
  }
  if (program.posted(wire.here, false) > 20) return;
  const std::uint16_t length = input.number() % 5000;
  switch (input.byte() % 4) {
    case 0:
      program.post_rdma(wire.here, layout::kOpRdmaWrite,
                        {reinterpret_cast<std::uint64_t>(wire.hosts.a.arena), wire.handle, length},
                        wire.hosts.b.arena + input.number(), wire.peer_handle);
      break;
    case 1:
      program.post_rdma(wire.here, layout::kOpRdmaRead,
                        {reinterpret_cast<std::uint64_t>(wire.hosts.a.arena), wire.handle, length},
                        wire.hosts.b.arena + input.number(), wire.peer_handle);
      break;
    case 2:  // several in a frame
      for (unsigned i = 0; i < 6; ++i) {
        program.post_send(wire.here, wire.hosts.a.arena, length % 200, wire.handle, 0);
      }
      break;
    default: program.post_send(wire.here, wire.hosts.a.arena, length, wire.handle, 0, 3); break;
  }
}

// A program that waits for requests, or asks, while the frames come.
void control(Wire& wire, Input& input) {
  sim::Program& program = input.byte() % 2 ? *wire.hosts.hostile : *wire.hosts.hostile_peer;
  layout::CommandBody body{};
  static constexpr layout::Op kOps[] = {layout::Op::kConnectWait, layout::Op::kConnectRequest,
                                        layout::Op::kPeerRequest, layout::Op::kDisconnect,
                                        layout::Op::kConnectAccept, layout::Op::kConnectReject,
                                        layout::Op::kDiscover, layout::Op::kHostByName,
                                        layout::Op::kPeerWait, layout::Op::kCreateVi};
  body.op = kOps[input.byte() % std::size(kOps)];
  body.timeout_ms = 1 + input.byte();
  body.vi = input.byte() % 4 == 0 ? wire.here : wire.fresh;
  body.handle = wire.request;
  body.vi_attributes.reliability = kLevels[input.byte() % 3];
  const MacAddress to = {2, 0, 0, 0, 0, static_cast<std::uint8_t>(1 + input.byte() % 3)};
  std::memcpy(body.remote.host, to.data(), to.size());
  body.local.discriminator_length = body.remote.discriminator_length = 4;
  body.local.discriminator[0] = body.remote.discriminator[0] = 9;
  body.name[0] = 'z';
  program.command(body, [&wire](const layout::CommandBody& answer) {
    if (answer.result != vip::kSuccess) return;
    if (answer.op == layout::Op::kConnectWait) wire.request = answer.handle;
    if (answer.op == layout::Op::kCreateVi) wire.fresh = answer.vi;
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  Wire wire(input.byte());
  unsigned controls = 0;
  for (std::size_t i = 0; i < kMostSteps && !input.empty(); ++i) {
    const std::uint8_t what = input.byte();
    switch (what % 8) {
      case 0:
      case 1:
      case 2:
      case 3: changed(wire, input); break;
      case 4:
        if (what & 128) {
          write_somewhere(wire, input);
        } else {
          raw(wire, input);
        }
        break;
      case 5: work(wire, input); break;
      case 6:
        if (++controls < 40) control(wire, input);
        break;
      default: {
        const std::uint64_t time = kTimes[what / 8 % std::size(kTimes)];
        if (what & 128) {
          wire.hosts.run_badly(time);
        } else {
          wire.hosts.run_for(time);
        }
      }
    }
  }
  wire.hosts.run_for(1'000'000);
  wire.hosts.exchange();
  wire.hosts.end();
  return 0;
}
