// Connections between programs that may have stacks of their own: requests find their way from the
// host to the stack, and nothing is left behind when they do not.
#include <gtest/gtest.h>

#include "tests/sim/forward.h"

namespace viaduct::sim {
namespace {

TEST(Forward, ConnectsProgramsInAllPlaces) {
  for (const Places& places : all_places()) {
    for (std::uint64_t seed = 1; seed <= seeds(100); ++seed) {
      SCOPED_TRACE(name_of(places) + ", seed " + std::to_string(seed));
      Two two(seed, places, seed % 4 == 0 ? SimFaults{} : rough());
      SimRandom random(seed);
      std::optional<CommandBody> waited, accepted, asked;
      const auto serve = [&] {
        two.server.command(wait_for(7, 60'000), [&](const CommandBody& b) {
          waited = b;
          if (b.result != vip::kSuccess) return;
          two.server.command(with_handle(Op::kConnectAccept, b.handle, two.server_vi),
                             [&](const CommandBody& c) { accepted = c; });
        });
      };
      const auto ask = [&] {
        two.client.command(request(two.client_vi, two.server_host, 7, 60'000),
                           [&](const CommandBody& b) { asked = b; });
      };
      // Either may come first.
      const bool wait_first = random.below(2) == 0;
      wait_first ? serve() : ask();
      two.wait(random.below(4) == 0 ? random.below(1500 * kMillisecond) : random.below(30'000));
      wait_first ? ask() : serve();
      run(two.network, two.hosts, {}, [&] { return asked && accepted; },
          two.network.now() + 90 * kSecond);
      ASSERT_TRUE(asked && accepted);
      ASSERT_EQ(asked->result, vip::kSuccess);
      ASSERT_EQ(accepted->result, vip::kSuccess);
      // The host is named by the NIC's address, whatever the frames' source.
      EXPECT_EQ(std::memcmp(waited->remote.host, two.address(0).data(), 6), 0);
      talk(two, two.client, two.client_vi, two.server, two.server_vi);
      EXPECT_EQ(two.client.now(of_vi(Op::kDisconnect, two.client_vi)).result, vip::kSuccess);
      two.wait(10 * kSecond);
      EXPECT_EQ(two.server.state(two.server_vi), vip::kError);
      // No agent held requests for longer than needed.
      for (const auto& agent : two.agents) EXPECT_EQ(agent->stack->usage().requests, 0u);
      two.expect_clean_end();
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Forward, PeersMeetInAllPlaces) {
  for (const Places& places : all_places()) {
    for (std::uint64_t seed = 1; seed <= seeds(60); ++seed) {
      SCOPED_TRACE(name_of(places) + ", seed " + std::to_string(seed));
      Two two(seed, places, seed % 4 == 0 ? SimFaults{} : rough());
      SimRandom random(seed);
      two.client.now(peer_request(two.client_vi, two.server_host, 1, 2));
      two.wait(random.below(3) == 0 ? random.below(2000) * kMillisecond : random.below(30'000));
      two.server.now(peer_request(two.server_vi, two.address(0), 2, 1));
      std::optional<CommandBody> here, there;
      two.client.command(of_vi(Op::kPeerWait, two.client_vi),
                         [&](const CommandBody& b) { here = b; });
      two.server.command(of_vi(Op::kPeerWait, two.server_vi),
                         [&](const CommandBody& b) { there = b; });
      run(two.network, two.hosts, {}, [&] { return here && there; },
          two.network.now() + 40 * kSecond);
      ASSERT_TRUE(here && there);
      EXPECT_EQ(here->result, vip::kSuccess);
      EXPECT_EQ(there->result, vip::kSuccess);
      talk(two, two.client, two.client_vi, two.server, two.server_vi);
      two.expect_clean_end();
      if (HasFatalFailure()) return;
    }
  }
}

// Two programs of one host await the same host at the same discriminator, but with others there.
TEST(Forward, PeersFindTheirOwnHalfAmongSeveral) {
  for (std::uint64_t seed = 1; seed <= seeds(60); ++seed) {
    World world(seed, rough());
    Program* here[2];
    Program* there[2];
    std::uint32_t here_vi[2], there_vi[2];
    for (std::uint8_t n = 0; n < 2; ++n) {
      here[n] = &world.open(0, true);
      there[n] = &world.open(1, (seed & 1) != 0);
      here_vi[n] = here[n]->create_vi(vip::kReliableDelivery);
      there_vi[n] = there[n]->create_vi(vip::kReliableDelivery);
    }
    for (std::uint8_t n = 0; n < 2; ++n) {
      const auto remote = static_cast<std::uint8_t>(10 + n);
      here[n]->now(peer_request(here_vi[n], world.address(1), 1, remote));
      there[n]->now(peer_request(there_vi[n], world.address(0), remote, 1));
    }
    run(world.network, world.hosts, {},
        [&] {
          return here[0]->state(here_vi[0]) == vip::kConnected &&
                 here[1]->state(here_vi[1]) == vip::kConnected &&
                 there[0]->state(there_vi[0]) == vip::kConnected &&
                 there[1]->state(there_vi[1]) == vip::kConnected;
        },
        world.network.now() + 25 * kSecond);
    for (int n = 0; n < 2; ++n) {
      ASSERT_EQ(here[n]->state(here_vi[n]), vip::kConnected) << "seed " << seed;
      ASSERT_EQ(there[n]->state(there_vi[n]), vip::kConnected) << "seed " << seed;
      talk(world, *here[n], here_vi[n], *there[n], there_vi[n]);
    }
    world.expect_clean_end();
    if (HasFatalFailure()) return;
  }
}

// The result of a failed request, wherever the two are.
TEST(Forward, KeepsTheRulesOfNoMatchAndTimeout) {
  for (const Places& places : all_places()) {
    SCOPED_TRACE(name_of(places));
    {
      Two two(1, places);
      EXPECT_EQ(two.finish(two.client, request(two.client_vi, two.server_host, 7, 500)).result,
                vip::kNoMatch);
      EXPECT_EQ(two.client.state(two.client_vi), vip::kIdle);
      // A wait for something else does not change that.
      two.server.command(wait_for(8, 60'000), {});
      EXPECT_EQ(two.finish(two.client, request(two.client_vi, two.server_host, 7, 500)).result,
                vip::kNoMatch);
      EXPECT_EQ(two.finish(two.client, request(two.client_vi, {2, 0, 0, 0, 0, 99}, 7, 500)).result,
                vip::kTimeout);
      two.expect_clean_end();
    }
    {
      Two two(2, places);
      std::optional<CommandBody> waited;
      two.server.command(wait_for(7, 60'000), [&](const CommandBody& b) { waited = b; });
      EXPECT_EQ(two.finish(two.client, request(two.client_vi, two.server_host, 7, 500)).result,
                vip::kTimeout);
      ASSERT_TRUE(waited.has_value());
      EXPECT_EQ(waited->result, vip::kSuccess);
      two.wait(10 * kMillisecond);
      EXPECT_EQ(two.finish(two.server,
                           with_handle(Op::kConnectAccept, waited->handle, two.server_vi)).result,
                vip::kTimeout);
      two.expect_clean_end();
    }
    {
      Two two(3, places);
      std::optional<CommandBody> waited;
      two.server.command(wait_for(7, 60'000), [&](const CommandBody& b) { waited = b; });
      std::optional<CommandBody> asked;
      two.client.command(request(two.client_vi, two.server_host, 7, 10'000),
                         [&](const CommandBody& b) { asked = b; });
      two.wait(300 * kMillisecond);
      ASSERT_TRUE(waited.has_value());
      EXPECT_EQ(two.server.now(with_handle(Op::kConnectReject, waited->handle)).result,
                vip::kSuccess);
      two.wait(20 * kMillisecond);
      ASSERT_TRUE(asked.has_value());
      EXPECT_EQ(asked->result, vip::kReject);
      two.expect_clean_end();
    }
  }
}

TEST(Forward, RequestWaitsForAProgramThatComesLater) {
  for (const Places& places : all_places()) {
    SCOPED_TRACE(name_of(places));
    Two two(1, places);
    std::optional<CommandBody> asked;
    two.client.command(request(two.client_vi, two.server_host, 7, 20'000),
                       [&](const CommandBody& b) { asked = b; });
    two.wait(3 * kSecond);
    EXPECT_FALSE(asked.has_value());
    // A wait that only looks for a request.
    const std::uint64_t before = two.network.now();
    const CommandBody waited = two.finish(two.server, wait_for(7, 0));
    ASSERT_EQ(waited.result, vip::kSuccess);
    EXPECT_LE(two.network.now() - before, 6 * kMillisecond);
    EXPECT_EQ(two.finish(two.server,
                         with_handle(Op::kConnectAccept, waited.handle, two.server_vi)).result,
              vip::kSuccess);
    two.wait(10 * kMillisecond);
    EXPECT_TRUE(asked.has_value());
    two.expect_clean_end();
  }
}

// The wait ends while the request is on its way to it: the request must neither be lost nor be given to a wait that
// has ended.
TEST(Forward, WaitMayEndWhileTheRequestIsUnderWay) {
  unsigned missed = 0;
  for (const bool client_granted : {false, true}) {
    for (std::uint64_t at = 0; at < 40; ++at) {
      SCOPED_TRACE(at);
      Two two(at + 1, {client_granted, true, false, false});
      std::optional<CommandBody> waited, asked;
      two.server.command(wait_for(7, 2), [&](const CommandBody& b) { waited = b; });
      two.wait(2 * kMillisecond - at * 3'000);
      two.client.command(request(two.client_vi, two.server_host, 7, at % 2 ? 500 : 20'000),
                         [&](const CommandBody& b) { asked = b; });
      two.wait(100 * kMillisecond);
      ASSERT_TRUE(waited.has_value());
      if (waited->result == vip::kSuccess) continue;
      ++missed;
      EXPECT_FALSE(asked.has_value());
      if (at % 2) {
        two.wait(kSecond);
        ASSERT_TRUE(asked.has_value());
        EXPECT_EQ(asked->result, vip::kNoMatch);
      } else {
        const CommandBody again = two.finish(two.server, wait_for(7, 400));
        ASSERT_EQ(again.result, vip::kSuccess);
        EXPECT_EQ(two.finish(two.server,
                             with_handle(Op::kConnectAccept, again.handle, two.server_vi)).result,
                  vip::kSuccess);
        two.wait(10 * kMillisecond);
        ASSERT_TRUE(asked.has_value());
        EXPECT_EQ(asked->result, vip::kSuccess);
      }
      two.expect_clean_end();
    }
  }
  EXPECT_GT(missed, 5u);
}

TEST(Forward, SeveralProgramsThatWaitForTheSameGetARequestEach) {
  int missed = 0;
  for (std::uint64_t seed = 1; seed <= seeds(60); ++seed) {
    SCOPED_TRACE(seed);
    World world(seed, rough(), 3);
    constexpr int kServers = 3;
    int accepted = 0, connected = 0;
    std::uint32_t vis[kServers];
    std::function<void()> serve[kServers];
    for (int s = 0; s < kServers; ++s) {
      Program& server = world.open(0, s != 0 || seed % 2 == 0);
      vis[s] = server.create_vi(vip::kReliableDelivery);
      // A request that was given to two programs, because an answer was lost, is no longer there
      // for one of them.
      serve[s] = [&, s] {
        server.command(wait_for(7, 60'000), [&, s](const CommandBody& b) {
          ASSERT_EQ(b.result, vip::kSuccess);
          server.command(with_handle(Op::kConnectAccept, b.handle, vis[s]),
                         [&, s](const CommandBody& c) {
                           ++(c.result == vip::kSuccess ? accepted : missed);
                           if (c.result == vip::kTimeout) serve[s]();
                         });
        });
      };
      serve[s]();
    }
    for (int c = 0; c < kServers; ++c) {
      Program& client = world.open(static_cast<unsigned>(c), (seed >> c & 1) != 0);
      const std::uint32_t vi = client.create_vi(vip::kReliableDelivery);
      client.command(request(vi, world.address(0), 7, 60'000),
                     [&](const CommandBody& b) { connected += b.result == vip::kSuccess; });
    }
    run(
        world.network, world.hosts, {},
        [&] { return accepted == kServers && connected == kServers; },
        world.network.now() + 50 * kSecond);
    EXPECT_EQ(accepted, kServers);
    EXPECT_EQ(connected, kServers);
    world.expect_clean_end();
  }
  std::printf("%d requests were given to two\n", missed);
}

TEST(Forward, RequestToAProgramThatDiesFindsAnother) {
  for (std::uint64_t seed = 1; seed <= seeds(60); ++seed) {
    for (const bool other_granted : {false, true}) {
      SCOPED_TRACE(seed);
      World world(seed, rough());
      SimRandom random(seed);
      Program& client = world.open(0, seed % 2 == 0);
      Program& doomed = world.open(1, true);
      const std::uint32_t vi = client.create_vi(vip::kReliableDelivery);
      std::optional<CommandBody> asked, accepted;
      doomed.command(wait_for(7, 60'000), {});
      client.command(request(vi, world.address(1), 7, 60'000),
                     [&](const CommandBody& b) { asked = b; });
      world.wait(random.below(2) == 0 ? random.below(40'000) : random.below(500 * kMillisecond));
      world.kill(doomed);
      Program& other = world.open(1, other_granted);
      const std::uint32_t there = other.create_vi(vip::kReliableDelivery);
      world.wait(random.below(100) * kMillisecond);
      other.command(wait_for(7, 60'000), [&](const CommandBody& b) {
        ASSERT_EQ(b.result, vip::kSuccess);
        other.command(with_handle(Op::kConnectAccept, b.handle, there),
                      [&](const CommandBody& c) { accepted = c; });
      });
      run(world.network, world.hosts, {}, [&] { return asked && accepted; },
          world.network.now() + 50 * kSecond);
      ASSERT_TRUE(asked && accepted);
      EXPECT_EQ(asked->result, vip::kSuccess);
      EXPECT_EQ(accepted->result, vip::kSuccess);
      world.expect_clean_end();
    }
  }
}

TEST(Forward, RequestToAProgramThatDiesEndsWithNoMatch) {
  World world(1);
  Program& client = world.open(0, true);
  Program& doomed = world.open(1, true);
  const std::uint32_t vi = client.create_vi(vip::kReliableDelivery);
  std::optional<CommandBody> asked, waited;
  doomed.command(wait_for(7, 60'000), [&](const CommandBody& b) { waited = b; });
  client.command(request(vi, world.address(1), 7, 5'000), [&](const CommandBody& b) { asked = b; });
  world.wait(kMillisecond);
  ASSERT_TRUE(waited.has_value());
  world.kill(doomed);
  world.wait(10 * kSecond);
  ASSERT_TRUE(asked.has_value());
  EXPECT_EQ(asked->result, vip::kNoMatch);
  world.expect_clean_end();
}

// The agent says goodbye for a granted program that was killed.
TEST(Forward, DeathOfAGrantedProgramIsToldToItsPeers) {
  for (const bool same_host : {false, true}) {
    for (const bool client_granted : {false, true}) {
      Two two(1, {client_granted, true, same_host, false});
      ASSERT_TRUE(connect(two.network, two.hosts, two.client, two.client_vi, two.server,
                          two.server_vi, two.server_host));
      two.kill(two.server);
      two.wait(kMillisecond);
      EXPECT_EQ(two.client.state(two.client_vi), vip::kError);
      two.expect_clean_end();
    }
  }
}

}  // namespace
}  // namespace viaduct::sim
