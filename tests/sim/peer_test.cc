// Peer to peer connections, attributes, discovery: over the simulated network.
#include "tests/sim/pair.h"

namespace viaduct::sim {
namespace {

using layout::CommandBody;
using layout::Op;

CommandBody peer(Op op, std::uint32_t vi) {
  CommandBody body{};
  body.op = op;
  body.vi = vi;
  return body;
}

CommandBody peer_request(std::uint32_t vi, const MacAddress& to, std::uint32_t local,
                         std::uint32_t remote, std::uint64_t timeout_ms = 10'000) {
  CommandBody body = peer(Op::kPeerRequest, vi);
  body.timeout_ms = timeout_ms;
  std::memcpy(body.remote.host, to.data(), to.size());
  body.local.discriminator_length = body.remote.discriminator_length = 4;
  std::memcpy(body.local.discriminator, &local, 4);
  std::memcpy(body.remote.discriminator, &remote, 4);
  return body;
}

TEST(Peer, ConnectsWhoeverAsksFirstUnderFaults) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Pair pair(seed);
    SimFaults faults;
    faults.loss = 0.2;
    faults.duplication = 0.2;
    faults.reordering = 0.2;
    pair.network.set_faults(faults);
    SimRandom random(seed);
    EXPECT_EQ(pair.client->now(peer_request(pair.client_vi, pair.b.port.address(), 1, 2)).result,
              vip::kSuccess);
    EXPECT_EQ(pair.client->state(pair.client_vi), vip::kConnectPending);
    EXPECT_EQ(pair.client->now(peer(Op::kPeerDone, pair.client_vi)).result, vip::kNotDone);
    pair.wait(random.below(300) * kMillisecond);
    EXPECT_EQ(pair.server->now(peer_request(pair.server_vi, pair.a.port.address(), 2, 1)).result,
              vip::kSuccess);
    std::optional<CommandBody> waited;
    pair.server->command(peer(Op::kPeerWait, pair.server_vi),
                         [&](const CommandBody& b) { waited = b; });
    run(pair.network, pair.hosts, {},
        [&] { return waited && pair.client->state(pair.client_vi) == vip::kConnected; },
        pair.network.now() + 9 * kSecond);
    ASSERT_TRUE(waited.has_value())
        << "seed " << seed << ": " << pair.client->state(pair.client_vi) << " and "
        << pair.server->state(pair.server_vi);
    EXPECT_EQ(waited->result, vip::kSuccess) << "seed " << seed;
    // Finished once: the slot may already serve another command when it is written again.
    EXPECT_EQ(waited->op, Op::kPeerWait) << "seed " << seed;
    EXPECT_EQ(waited->vi_attributes.max_transfer, 65536u);
    EXPECT_EQ(pair.client->now(peer(Op::kPeerDone, pair.client_vi)).result, vip::kSuccess);
    EXPECT_EQ(pair.client->now(peer(Op::kPeerDone, pair.client_vi)).result, vip::kInvalidState);
    EXPECT_EQ(pair.server->state(pair.server_vi), vip::kConnected);
    pair.client.reset();
    pair.wait(10 * kSecond);
    EXPECT_EQ(pair.server->state(pair.server_vi), vip::kError);
    pair.server.reset();
    pair.wait(10 * kSecond);
    expect_nothing_left(pair.a);
    expect_nothing_left(pair.b);
  }
}

TEST(Peer, TimesOutAlone) {
  Pair pair;
  pair.client->now(peer_request(pair.client_vi, pair.b.port.address(), 1, 2, 200));
  pair.wait(kSecond);
  EXPECT_EQ(pair.client->state(pair.client_vi), vip::kIdle);
  EXPECT_EQ(pair.client->now(peer(Op::kPeerDone, pair.client_vi)).result, vip::kTimeout);
}

TEST(Peer, DoesNotMeetAnotherDiscriminatorOrAConnectWait) {
  Pair pair;
  std::optional<CommandBody> waited;
  CommandBody wait{};
  wait.op = Op::kConnectWait;
  wait.timeout_ms = 500;
  wait.local.discriminator_length = 4;
  wait.local.discriminator[0] = 2;
  pair.server->command(wait, [&](const CommandBody& b) { waited = b; });
  pair.client->now(peer_request(pair.client_vi, pair.b.port.address(), 1, 2, 400));
  pair.server->now(peer_request(pair.server_vi, pair.a.port.address(), 3, 1, 400));
  pair.wait(kSecond);
  ASSERT_TRUE(waited.has_value());
  EXPECT_EQ(waited->result, vip::kTimeout);
  EXPECT_EQ(pair.client->now(peer(Op::kPeerDone, pair.client_vi)).result, vip::kTimeout);
  EXPECT_EQ(pair.server->now(peer(Op::kPeerDone, pair.server_vi)).result, vip::kTimeout);
}

TEST(Peer, ConflictingAttributesFailOnBothSides) {
  Pair pair;
  const std::uint32_t other = pair.server->create_vi(vip::kUnreliable);
  pair.client->now(peer_request(pair.client_vi, pair.b.port.address(), 1, 2));
  pair.server->now(peer_request(other, pair.a.port.address(), 2, 1));
  pair.wait(kSecond);
  EXPECT_EQ(pair.client->now(peer(Op::kPeerDone, pair.client_vi)).result,
            vip::kInvalidReliabilityLevel);
  EXPECT_EQ(pair.server->now(peer(Op::kPeerDone, other)).result, vip::kInvalidReliabilityLevel);
}

TEST(Attributes, OfVisChangeInIdleOnly) {
  Pair pair;
  CommandBody set = peer(Op::kSetVi, pair.client_vi);
  set.vi_attributes = {vip::kUnreliable, 1000, 0, 1, 0};
  EXPECT_EQ(pair.client->now(set).result, vip::kSuccess);
  set.vi_attributes.enable_read = 1;
  EXPECT_EQ(pair.client->now(set).result, vip::kInvalidRdmaRead);
  set.vi_attributes = {3, 1000, 0, 0, 0};
  EXPECT_EQ(pair.client->now(set).result, vip::kInvalidReliabilityLevel);
  set.vi_attributes = {vip::kReliableDelivery, 0x7fffffff, 0, 0, 0};
  EXPECT_EQ(pair.client->now(set).result, vip::kInvalidMtu);
  set.vi_attributes = {vip::kReliableDelivery, 65536, 12345, 0, 0};
  EXPECT_EQ(pair.client->now(set).result, vip::kInvalidPtag);
  set.vi_attributes.ptag = 0;
  EXPECT_EQ(pair.client->now(set).result, vip::kSuccess);
  ASSERT_TRUE(pair.connect());
  EXPECT_EQ(pair.client->now(set).result, vip::kInvalidState);
}

TEST(Errors, AreReportedToProgramsThatWantThem) {
  Pair pair;
  ASSERT_TRUE(pair.connect());
  layout::Errors& errors = pair.server->view().header().errors;
  errors.wanted.store(1);
  pair.client.reset();
  pair.wait(10 * kMillisecond);
  EXPECT_EQ(errors.events[0].number.load(), 1u);
  EXPECT_EQ(errors.events[0].code, std::uint32_t{vip::kConnectionLost});
  EXPECT_EQ(errors.events[0].vi, pair.server_vi);
}

TEST(Discovery, FindsTheOtherHostsAndTheirNames) {
  SimNetwork network(SimOptions{}, 1);
  Host a(network, 1, small_limits(), 1), b(network, 2, small_limits(), 1),
      c(network, 3, small_limits(), 1);
  Host* hosts[] = {&a, &b, &c};
  Program program(a);
  std::optional<CommandBody> found;
  program.command(peer(Op::kDiscover, 0), [&](const CommandBody& x) { found = x; });
  run(network, hosts, {}, [&] { return found.has_value(); }, network.now() + kSecond);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->handle, 2u);
  for (std::uint32_t i = 0; i < 2; ++i) {
    CommandBody which = peer(Op::kDiscovered, 0);
    which.entries = i;
    which = program.now(which);
    EXPECT_EQ(which.result, vip::kSuccess);
    std::optional<CommandBody> named;
    CommandBody ask = peer(Op::kHostByAddress, 0);
    ask.remote = which.remote;
    program.command(ask, [&](const CommandBody& x) { named = x; });
    run(network, hosts, {}, [&] { return named.has_value(); }, network.now() + 2 * kSecond);
    ASSERT_TRUE(named);
    EXPECT_EQ(named->result, vip::kSuccess);
    EXPECT_EQ(named->name[0], 'a' + which.remote.host[5] - 1);
  }
}

}  // namespace
}  // namespace viaduct::sim
