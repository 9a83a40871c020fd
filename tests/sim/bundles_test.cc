// Frames of several connections in one Ethernet frame.
#include <algorithm>

#include "tests/sim/pair.h"

namespace viaduct::sim {
namespace {

// Connections between the two programs of a pair, over which numbered messages go both ways.
struct Crowd {
  static constexpr unsigned kConnections = 12;
  static constexpr std::uint32_t kBytes = 40;
  struct End {
    Program* program;
    std::uint32_t vi, handle, in_handle;
    std::vector<std::byte> out, in;
    unsigned sent = 0, received = 0;
  };

  explicit Crowd(std::uint64_t seed, std::uint16_t level = vip::kReliableDelivery, bool takes_bundles = true)
      : pair(seed, level) {
    if (!takes_bundles) pair.network.set_filter(deny_bundles);
    for (unsigned c = 0; c < kConnections; ++c) {
      const std::uint32_t vis[] = {pair.client->create_vi(level), pair.server->create_vi(level)};
      connected &= connect(pair.network, pair.hosts, *pair.client, vis[0], *pair.server, vis[1], pair.b.port.address());
      for (unsigned e = 0; e < 2; ++e) {
        Program* const program = e == 0 ? pair.client.get() : pair.server.get();
        ends.push_back({program, vis[e], 0, 0, std::vector<std::byte>(kBytes), std::vector<std::byte>(kBytes)});
      }
    }
    for (End& end : ends) {
      for (std::uint32_t i = 0; i < kBytes; ++i) end.out[i] = pattern(static_cast<std::uint64_t>(&end - ends.data()), i);
      end.handle = end.program->register_memory(end.out.data(), end.out.size());
      end.in_handle = end.program->register_memory(end.in.data(), end.in.size());
      for (unsigned i = 0; i < 16; ++i) end.program->post_receive(end.vi, end.in.data(), kBytes, end.in_handle);
    }
  }

  static bool deny_bundles(const SimPort&, std::span<std::byte> frame) {
    wire::Decoded d;
    const bool good = wire::decode(frame, d) == wire::Malformed::kNone;
    if (!good || (d.header.type != wire::Type::kConnectRequest && d.header.type != wire::Type::kConnectAccept)) return true;
    constexpr std::size_t kFlags = wire::kConnectHostOffset + 34;
    frame[kFlags] &= ~std::byte{wire::kTakesBundles};
    wire::seal(frame);
    return true;
  }

  // Each client sends, all at once, and each server answers, `rounds` times; `at_once`: requests of one client under way.
  bool exchange(unsigned rounds, unsigned at_once = 1) {
    const auto done = [&] {
      return std::all_of(ends.begin(), ends.end(), [&](const End& end) { return end.received == rounds; });
    };
    const auto step = [&] {
      bool worked = false;
      for (End& end : ends) {
        while (const auto got = end.program->done(end.vi, true)) {
          // Each end has data of its own.
          const End& peer = ends[static_cast<std::size_t>(&end - ends.data()) ^ 1];
          right &= (got->status & vip::kErrorMask) == 0 && got->immediate == end.received && end.in == peer.out;
          ++end.received;
          end.program->post_receive(end.vi, end.in.data(), kBytes, end.in_handle);
          worked = true;
        }
        while (end.program->done(end.vi, false)) worked = true;
        const bool is_client = end.program == pair.client.get();
        const bool may = end.sent < end.received + (is_client ? at_once : 0);
        if (!may || end.sent == rounds) continue;
        end.program->post_send(end.vi, end.out.data(), kBytes, end.handle, end.sent, end.sent);
        ++end.sent;
        worked = true;
      }
      return worked;
    };
    run(pair.network, pair.hosts, step, done, pair.network.now() + 60 * kSecond);
    return done() && right;
  }

  Pair pair;
  std::vector<End> ends;
  bool connected = true, right = true;
};

std::uint64_t bundled(const Host& host) { return host.stack->counters().frames_bundled; }

TEST(Bundles, HaveTheFramesOfARound) {
  Crowd crowd(1);
  ASSERT_TRUE(crowd.connected);
  const std::uint64_t before = crowd.pair.a.port.counters().tx_frames;
  ASSERT_TRUE(crowd.exchange(20));
  const std::uint64_t frames = crowd.pair.a.port.counters().tx_frames - before;
  EXPECT_GT(bundled(crowd.pair.a), 20u * Crowd::kConnections / 2);
  EXPECT_LT(frames, 20u * Crowd::kConnections / 2) << "messages, and acknowledgements, share frames";
}

TEST(Bundles, AreCompleteAndInOrderUnderFaults) {
  for (const std::uint16_t level : {vip::kReliableDelivery, vip::kReliableReception}) {
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      SCOPED_TRACE(seed);
      Crowd crowd(seed, level);
      ASSERT_TRUE(crowd.connected);
      SimFaults faults;
      faults.loss = 0.1;
      faults.duplication = 0.1;
      faults.reordering = 0.2;
      crowd.pair.network.set_faults(faults);
      EXPECT_TRUE(crowd.exchange(40));
      EXPECT_GT(bundled(crowd.pair.a), 0u);
    }
  }
}

// A frame that must be kept for the gap before it is kept from the midst of a bundle, too.
TEST(Bundles, HaveFramesThatAreKept) {
  Crowd crowd(3);
  ASSERT_TRUE(crowd.connected);
  SimFaults faults;
  faults.loss = 0.2;
  faults.reordering = 0.5;
  crowd.pair.network.set_faults(faults);
  EXPECT_TRUE(crowd.exchange(100, 6));
  EXPECT_GT(crowd.pair.a.stack->counters().frames_held + crowd.pair.b.stack->counters().frames_held, 0u);
}

// A peer of an older version gets each frame by itself.
TEST(Bundles, AreForPeersThatTakeThem) {
  Crowd crowd(5, vip::kReliableDelivery, false);
  ASSERT_TRUE(crowd.connected);
  EXPECT_TRUE(crowd.exchange(20));
  EXPECT_EQ(bundled(crowd.pair.a) + bundled(crowd.pair.b), 0u);
}

// What follows a frame in a bundle is judged as if it had come by itself.
TEST(Bundles, OfAnAttackerHarmNobody) {
  Crowd crowd(7);
  ASSERT_TRUE(crowd.connected);
  std::vector<std::byte> seen;
  crowd.pair.network.set_filter([&](const SimPort&, std::span<std::byte> frame) {
    wire::Decoded d;
    const bool data = wire::decode(frame, d) == wire::Malformed::kNone && d.header.type == wire::Type::kData &&
                      d.destination == crowd.pair.b.port.address();
    if (data && seen.empty()) seen.assign(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(wire::end_of(frame)));
    return true;
  });
  ASSERT_TRUE(crowd.exchange(2));
  ASSERT_FALSE(seen.empty());
  const StackCounters before = crowd.pair.b.stack->counters();
  SimRandom random(7);
  for (unsigned n = 0; n < 3000; ++n) {
    std::vector<std::byte> frame = seen;
    frame.insert(frame.end(), seen.begin() + static_cast<std::ptrdiff_t>(wire::kEthernetBytes), seen.end());
    // The second one: another type, other lengths, another key, no sum, cut.
    const std::size_t at = seen.size() + random.below(wire::kHeaderBytes);
    frame[at] = static_cast<std::byte>(random.next());
    if (random.below(2) == 0) frame.resize(seen.size() + random.below(frame.size() - seen.size()));
    crowd.pair.network.inject(crowd.pair.b.port, frame);
    if (n % 64 == 0) crowd.pair.wait(kMillisecond);
  }
  crowd.pair.wait(10 * kMillisecond);
  const StackCounters after = crowd.pair.b.stack->counters();
  EXPECT_GT(after.drop_duplicate, before.drop_duplicate) << "the first ones";
  EXPECT_GT(after.drop_checksum + after.drop_type + after.drop_length, before.drop_checksum + before.drop_type + before.drop_length);
  EXPECT_EQ(after.connections_lost, before.connections_lost);
  EXPECT_TRUE(crowd.exchange(10));
}

// A frame with the header of `like`, but for these fields.
std::vector<std::byte> frame_like(const wire::Decoded& like, std::uint32_t ahead, std::uint16_t flags, std::uint32_t length,
                                  std::uint32_t offset, std::span<const std::byte> payload) {
  wire::Header header = like.header;
  header.psn += ahead;
  header.flags = static_cast<std::uint16_t>(flags | (like.header.flags & wire::kFlagChecked));
  header.message_length = length;
  header.offset = offset;
  header.payload_length = static_cast<std::uint16_t>(payload.size());
  std::vector<std::byte> out(2000);
  std::copy(payload.begin(), payload.end(), out.begin() + wire::kEthernetBytes + wire::kHeaderBytes);
  out.resize(wire::encode(header, like.destination, like.source, wire::kDefaultEtherType, out.data()));
  return out;
}

// A frame that is kept moves over those before it, whose data may be on its way to a program.
TEST(Bundles, HaveDataThatIsWrittenBeforeAFrameIsKept) {
  Pair pair(9);
  ASSERT_TRUE(pair.connect());
  const std::uint32_t vis[] = {pair.client->create_vi(vip::kReliableDelivery), pair.server->create_vi(vip::kReliableDelivery)};
  ASSERT_TRUE(connect(pair.network, pair.hosts, *pair.client, vis[0], *pair.server, vis[1], pair.b.port.address()));
  std::vector<std::byte> out(200), in(200), other(40, std::byte{0xee});
  for (std::uint32_t i = 0; i < out.size(); ++i) out[i] = pattern(1, i);
  const std::uint32_t here = pair.client->register_memory(out.data(), out.size());
  const std::uint32_t there = pair.server->register_memory(in.data(), in.size());
  for (const std::uint32_t vi : {pair.server_vi, vis[1]}) pair.server->post_receive(vi, in.data(), 200, there);
  std::vector<wire::Decoded> seen;
  pair.network.set_filter([&](const SimPort&, std::span<std::byte> frame) {
    wire::Decoded d;
    if (wire::decode(frame, d) != wire::Malformed::kNone || d.header.type != wire::Type::kData) return true;
    if (seen.empty() || (seen.size() == 1 && d.header.vi != seen[0].header.vi)) seen.push_back(d);
    return false;
  });
  for (const std::uint32_t vi : {pair.client_vi, vis[0]}) {
    pair.client->post_send(vi, out.data(), 8, here);
    pair.wait(kMillisecond / 10);
  }
  ASSERT_EQ(seen.size(), 2u);
  const std::span<const std::byte> data(out);
  std::vector<std::byte> bundle = frame_like(seen[0], 0, wire::kFlagFirst, 200, 0, data.first(100));
  const std::vector<std::byte> kept = frame_like(seen[1], 1, wire::kFlagFirst | wire::kFlagLast, 40, 0, other);
  bundle.insert(bundle.end(), kept.begin() + static_cast<std::ptrdiff_t>(wire::kEthernetBytes), kept.end());
  pair.network.inject(pair.b.port, bundle);
  pair.wait(kMillisecond / 10);
  EXPECT_EQ(pair.b.stack->counters().frames_held, 1u);
  pair.network.inject(pair.b.port, frame_like(seen[0], 1, wire::kFlagLast, 200, 100, data.subspan(100)));
  pair.wait(kMillisecond / 10);
  const auto done = pair.server->done(pair.server_vi, true);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->length, 200u);
  EXPECT_EQ(in, out);
}

}  // namespace
}  // namespace viaduct::sim
