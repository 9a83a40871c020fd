// Hostile input: frames and session segments full of nonsense, beside programs that behave.
#include "tests/sim/pair.h"

namespace viaduct::sim {
namespace {

// Memory of programs is only touched inside an arena, as the real agent can only touch what the
// program has mapped.
class CheckedHost : public Host {
 public:
  using Host::Host;

  bool read_program(std::uint32_t session, const Reader& reader, std::span<const iovec> remote,
                    std::span<const iovec> local) override {
    return inside(remote) && Host::read_program(session, reader, remote, local);
  }
  bool write_program(std::uint32_t session, std::span<const iovec> remote,
                     std::span<const iovec> local) override {
    return inside(remote) && Host::write_program(session, remote, local);
  }

  std::vector<std::byte> arena = std::vector<std::byte>(1 << 20);

 private:
  bool inside(std::span<const iovec> pieces) const {
    const auto begin = reinterpret_cast<std::uintptr_t>(arena.data());
    for (const iovec& piece : pieces) {
      const auto at = reinterpret_cast<std::uintptr_t>(piece.iov_base);
      if (at < begin || at > begin + arena.size() || piece.iov_len > begin + arena.size() - at) {
        return false;
      }
    }
    return true;
  }
};

// A client and a server that exchange numbered messages for as long as they are asked to.
struct Exchange {
  Exchange(SimNetwork& network, std::span<Host* const> hosts, CheckedHost& a, CheckedHost& b)
      : client(a), server(b), out(a.arena.data()), in(b.arena.data()) {
    client_vi = client.create_vi(vip::kReliableDelivery);
    server_vi = server.create_vi(vip::kReliableDelivery);
    out_handle = client.register_memory(out, 4096);
    in_handle = server.register_memory(in, 4096);
    connected = connect(network, hosts, client, client_vi, server, server_vi, b.port.address());
  }

  bool step() {
    bool worked = false;
    if (idle) {
      for (unsigned i = 0; i < 3000; ++i) out[i] = pattern(number, i);
      server.post_receive(server_vi, in, 4096, in_handle);
      client.post_send(client_vi, out, 3000, out_handle, number, number);
      idle = false;
      worked = true;
    }
    if (const auto done = server.done(server_vi, true)) {
      right &= (done->status & vip::kErrorMask) == 0 && done->immediate == number;
      for (unsigned i = 0; i < 3000; ++i) right &= in[i] == pattern(number, i);
      received = true;
      worked = true;
    }
    if (const auto done = client.done(client_vi, false)) {
      right &= (done->status & vip::kErrorMask) == 0;
      sent = true;
      worked = true;
    }
    if (sent && received) {
      sent = received = false;
      idle = true;
      ++number;
    }
    return worked;
  }

  Program client, server;
  std::byte* out;
  std::byte* in;
  std::uint32_t client_vi, server_vi, out_handle, in_handle;
  bool connected = false, idle = true, sent = false, received = false, right = true;
  std::uint32_t number = 0;
};

TEST(Hostile, FramesOfNonsenseHarmNobodyElse) {
  SimNetwork network(SimOptions{}, 1);
  CheckedHost a(network, 1, small_limits(), 1), b(network, 2, small_limits(), 1);
  Host* hosts[] = {&a, &b};
  Exchange good(network, hosts, a, b);
  ASSERT_TRUE(good.connected);
  // Seen on the wire by an attacker that can listen but must guess the key of the connection: it
  // has everything but that.
  std::vector<std::vector<std::byte>> seen;
  network.set_filter([&](const SimPort&, std::span<std::byte> frame) {
    if (seen.size() < 500) seen.emplace_back(frame.begin(), frame.end());
    return true;
  });
  SimRandom random(7);
  std::uint64_t last = 0;
  const auto logic = [&] {
    const bool worked = good.step();
    if (network.now() == last) return worked;  // once each time the clock moves
    last = network.now();
    for (int i = 0; i < 4; ++i) {
      std::vector<std::byte> frame;
      if (seen.empty() || random.below(3) == 0) {
        frame.resize(1 + random.below(1600));
        for (std::byte& byte : frame) byte = static_cast<std::byte>(random.next());
        if (frame.size() > 16) {
          std::memcpy(frame.data(), b.port.address().data(), 6);
          frame[14] = std::byte{wire::kVersion};
          frame[15] = static_cast<std::byte>(random.below(wire::kLastType + 2));
        }
      } else {
        frame = seen[random.below(seen.size())];
        wire::store64(frame.data() + 22, random.next());
        for (std::uint64_t flips = random.below(4); flips > 0; --flips) {
          const std::size_t at = random.below(frame.size());
          if (at < 22 || at >= 30) frame[at] = static_cast<std::byte>(random.next());
        }
        wire::seal(frame);  // so that the checksum is not all that protects
        if (random.below(4) == 0) frame.resize(1 + random.below(frame.size()));
      }
      network.inject(random.below(2) == 0 ? a.port : b.port, frame);
    }
    return worked;
  };
  run(network, hosts, logic, [&] { return good.number >= 2000; }, network.now() + 60 * kSecond);
  EXPECT_GE(good.number, 2000u);
  EXPECT_TRUE(good.right);
  EXPECT_EQ(good.server.state(good.server_vi), vip::kConnected);
  const StackCounters& count = b.stack->counters();
  EXPECT_GT(count.drop_wrong_key, 0u);
  EXPECT_GT(count.drop_unknown_vi, 0u);
  EXPECT_GT(count.drop_type + count.drop_length + count.drop_short, 0u);
}

// One program scribbles over its whole session segment, rings every doorbell and submits random
// commands, while two others talk through the same stacks.
TEST(Hostile, ProgramThatScribblesOverItsSegmentHarmsOnlyItself) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SimNetwork network(SimOptions{}, seed);
    CheckedHost a(network, 1, small_limits(), seed), b(network, 2, small_limits(), seed);
    Host* hosts[] = {&a, &b};
    Exchange good(network, hosts, a, b);
    ASSERT_TRUE(good.connected);
    auto bad = std::make_unique<Program>(a);
    auto bad_peer = std::make_unique<Program>(b);
    std::vector<std::uint32_t> vis;
    for (int i = 0; i < 4; ++i) {
      vis.push_back(bad->create_vi(i % 2 ? vip::kReliableDelivery : vip::kUnreliable));
      const std::uint32_t there =
          bad_peer->create_vi(i % 2 ? vip::kReliableDelivery : vip::kUnreliable);
      connect(network, hosts, *bad, vis.back(), *bad_peer, there, b.port.address());
    }
    const std::uint32_t handle = bad->register_memory(a.arena.data() + 8192, 100'000);
    SimRandom random(seed);
    const layout::View& view = bad->view();
    const layout::Offsets at(a.stack->capacity());
    std::uint64_t last = 0;
    const auto logic = [&] {
      const bool worked = good.step();
      if (network.now() == last) return worked;
      last = network.now();
      // Half-way sensible requests reach deeper than noise.
      const std::uint32_t vi = vis[random.below(vis.size())];
      const auto slot = static_cast<std::uint32_t>(random.below(a.limits.slots));
      layout::SlotRequest& request = view.slot(slot).request;
      request.op = static_cast<std::uint16_t>(random.below(6));
      request.flags = static_cast<std::uint16_t>(random.below(2) ? random.next() : 0);
      request.segment_count = static_cast<std::uint16_t>(random.below(30));
      request.length = static_cast<std::uint32_t>(random.below(70'000));
      request.descriptor = reinterpret_cast<std::uint64_t>(a.arena.data()) + 8192;
      request.descriptor_handle = handle;
      for (layout::Segment& segment : request.payload.segments) {
        segment = {reinterpret_cast<std::uint64_t>(a.arena.data()) + random.below(200'000),
                   random.below(4) ? handle : static_cast<std::uint32_t>(random.next()),
                   static_cast<std::uint32_t>(random.below(5000))};
      }
      for (std::uint32_t position = 0; position < 8; ++position) {
        view.send_ring(vi)[random.below(layout::kRingEntries)].word.store(random.next());
        view.send_ring(vi)[position].word.store(layout::ring_word(
            slot, position, view.vi(vi).status.generation.load()));
        view.receive_ring(vi)[position].word.store(layout::ring_word(
            slot, position, view.vi(vi).status.generation.load()));
      }
      layout::Command& command = view.command(static_cast<std::uint32_t>(
          random.below(layout::kCommands)));
      for (std::size_t i = 0; i < sizeof command.body; ++i) {
        reinterpret_cast<std::byte*>(&command.body)[i] = static_cast<std::byte>(
            random.below(2) ? random.next() : random.below(8));
      }
      command.body.op = static_cast<layout::Op>(random.below(30));
      command.state.store(layout::kSubmitted);
      for (std::size_t n = random.below(64); n > 0; --n) {
        view.base()[sizeof(layout::Header) + random.below(at.slots - sizeof(layout::Header))] =
            static_cast<std::byte>(random.next());
      }
      for (int i = 0; i < 8; ++i) {
        view.header().doorbells.ring(
            static_cast<std::uint32_t>(random.below(layout::Doorbells::kBits)));
      }
      view.header().doorbells.ring(layout::vi_bit(vi));
      view.header().errors.wanted.store(static_cast<std::uint32_t>(random.below(2)));
      view.header().errors.taken.store(static_cast<std::uint32_t>(random.next()));
      return worked;
    };
    run(network, hosts, logic, [&] { return good.number >= 300; }, network.now() + 30 * kSecond);
    EXPECT_GE(good.number, 300u) << "seed " << seed;
    EXPECT_TRUE(good.right) << "seed " << seed;
    // Its resources are free when it is gone.
    const std::uint32_t others = b.stack->usage().vis;
    bad.reset();
    bad_peer.reset();
    run(network, hosts, {}, [] { return false; }, network.now() + 10 * kSecond);
    EXPECT_EQ(a.stack->usage().vis, 1u) << "seed " << seed;
    EXPECT_EQ(a.stack->usage().regions, 2u);
    EXPECT_EQ(a.stack->usage().sessions, 1u);
    EXPECT_LT(b.stack->usage().vis, others);
    EXPECT_EQ(a.stack->usage().requests, 0u);
    EXPECT_EQ(a.stack->usage().goodbyes, 0u);
    EXPECT_EQ(a.stack->usage().held, 0u);
  }
}

}  // namespace
}  // namespace viaduct::sim
