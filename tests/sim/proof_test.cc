// Forged connection requests for a service that a program waits for: the requester must prove that it hears the
// answer.
#include "kagent/stack/siphash.h"
#include "tests/sim/commands.h"
#include "tests/sim/pair.h"

namespace viaduct::sim {
namespace {

constexpr std::uint32_t kService = 7;

struct Forger : Pair {
  // A request for the service from an address without a host.
  void forge(std::uint64_t shown = 0) {
    std::byte frame[300];
    wire::ConnectBody body{};
    body.request = number++;
    body.key = number * 0x9e3779b97f4a7c15ull;
    body.reliability = vip::kReliableDelivery;
    body.max_transfer = 65536;
    body.mtu = 1500;
    body.remote_length = 4;
    std::memcpy(body.remote.data(), &kService, sizeof kService);
    wire::Header header{};
    header.type = wire::Type::kConnectRequest;
    header.vi = 0xffffffff;
    header.key = shown;
    header.payload_length = static_cast<std::uint16_t>(
        wire::encode(body, frame + wire::kEthernetBytes + wire::kHeaderBytes));
    MacAddress from{0x02, 1, 0, 0, 0, 0};
    std::memcpy(from.data() + 2, &number, sizeof number);
    const std::size_t length =
        wire::encode(header, b.port.address(), from, wire::kDefaultEtherType, frame);
    network.inject(b.port, {frame, length});
  }

  // The server's program: waits, accepts, and begins again without a confirmation.
  void serve() {
    server->command(wait_for(kService, 60'000), [this](const CommandBody& body) {
      if (over || body.result != vip::kSuccess) return;
      const std::uint32_t vi = free_vis.back();
      server->command(with_handle(Op::kConnectAccept, body.handle, vi),
                      [this](const CommandBody& accepted) {
                        if (accepted.result == vip::kSuccess) free_vis.pop_back();
                        if (!over) serve();
                      });
    });
  }

  // Lets time pass, with forged requests every `gap` ns of it.
  bool until(std::uint64_t ns, std::uint64_t gap, const std::function<bool()>& finished) {
    const std::uint64_t end = network.now() + ns;
    while (!finished() && network.now() < end) {
      forge();
      const std::uint64_t step = std::min(end, network.now() + gap);
      run(network, hosts, {}, finished, step);
      network.advance_to(step);
    }
    return finished();
  }

  std::uint32_t number = 1;
  std::vector<std::uint32_t> free_vis;
  bool over = false;
};

TEST(Proof, ForgedRequestsKeepNobodyOutOfAService) {
  Forger pair;
  constexpr std::uint32_t kClients = 3;
  for (std::uint32_t i = 0; i < kClients; ++i) {
    pair.free_vis.push_back(pair.server->create_vi(vip::kReliableDelivery));
  }
  pair.serve();
  constexpr std::uint64_t kGap = 10'000;  // 100,000 a second
  pair.until(100 * kMillisecond, kGap, [] { return false; });
  std::uint32_t connected = 0, refused = 0;
  for (std::uint32_t i = 0; i < kClients; ++i) {
    const std::uint32_t vi = pair.client->create_vi(vip::kReliableDelivery);
    pair.client->command(request(vi, pair.b.port.address(), kService, 5'000),
                         [&](const CommandBody& body) {
                           ++(body.result == vip::kSuccess ? connected : refused);
                         });
  }
  pair.until(5 * kSecond, kGap, [&] { return connected + refused == kClients; });
  EXPECT_EQ(connected, kClients);
  EXPECT_GT(pair.b.stack->counters().proofs_asked, 1000u);
  pair.over = true;
  // No trace is left, and after some time no requester has to prove anything.
  pair.wait(12 * kSecond);
  EXPECT_EQ(pair.b.stack->usage().requests, 0u);
  const std::uint64_t asked = pair.b.stack->counters().proofs_asked;
  pair.forge();
  pair.wait(kMillisecond);
  EXPECT_EQ(pair.b.stack->usage().requests, 1u);
  EXPECT_EQ(pair.b.stack->counters().proofs_asked, asked);
}

TEST(Proof, IsNotAskedForInPeace) {
  Forger pair;
  ASSERT_TRUE(pair.connect());
  EXPECT_EQ(pair.b.stack->counters().proofs_asked, 0u);
}

TEST(Proof, CannotBeGuessed) {
  Forger pair;
  // No host is behind the first request that is accepted.
  pair.free_vis.push_back(pair.server->create_vi(vip::kReliableDelivery));
  pair.serve();
  pair.forge();
  pair.wait(3 * kSecond);
  const std::uint32_t before = pair.b.stack->usage().requests;
  for (std::uint64_t shown = 1; shown < 1000; ++shown) pair.forge(shown);
  pair.wait(kMillisecond);
  EXPECT_LE(pair.b.stack->usage().requests, before);
  EXPECT_GE(pair.b.stack->counters().proofs_asked, 900u);
  pair.over = true;
}

// The reference's vector for 15 bytes: key 00..0f, message 00..0e.
TEST(Proof, TheHashIsTheReferences) {
  const std::uint64_t key[2] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
  const std::uint64_t words[] = {0x0706050403020100, 0xff0e0d0c0b0a0908};
  EXPECT_EQ(siphash(key, words), 0xa129ca6149be45e5u);
}

}  // namespace
}  // namespace viaduct::sim
