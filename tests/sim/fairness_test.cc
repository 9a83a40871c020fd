// A round's work for one session is bounded, so that no program can hold up another one's: here by counting, not by
// the clock.
#include "tests/sim/pair.h"

namespace viaduct::sim {
namespace {

using layout::CommandBody;
using layout::Op;

constexpr std::uint32_t kGreedyPosted = 512;  // on each of the greedy program's queues
constexpr std::uint32_t kVis = 16;
constexpr std::uint32_t kMostFlushed = 1024;  // of a session in a round

StackLimits roomy() {
  StackLimits limits = small_limits();
  limits.slots = 32768;
  limits.vis = 64;
  limits.cqs = 4;
  return limits;
}

// The greedy program's session comes first.
struct Greedy : Pair {
  Greedy() : Pair(1, vip::kReliableDelivery, {}, roomy()), modest(a) {}

  // Completions of the greedy program's since the last call.
  std::uint32_t completed(bool receive) {
    std::uint32_t count = 0;
    for (const std::uint32_t vi : vis) {
      while (client->done(vi, receive)) ++count;
    }
    return count;
  }

  // Rounds until all have completed, of which none may do too much.
  void expect_in_portions(bool receive, std::uint32_t all) {
    for (std::uint32_t left = all, rounds = 0; left != 0; ++rounds) {
      ASSERT_LT(rounds, 10000u) << left << " are left";
      a.stack->progress(network.now());
      const std::uint32_t now = completed(receive);
      ASSERT_LE(now, kMostFlushed);
      left -= now;
    }
    EXPECT_EQ(completed(receive), 0u);
  }

  // Another program's command is answered in the round in which it is given.
  void expect_room_for_others() {
    bool answered = false;
    CommandBody body{};
    body.op = Op::kCreatePtag;
    modest.command(body, [&](const CommandBody&) { answered = true; });
    a.step();
    EXPECT_TRUE(answered);
  }

  void make_vis(std::uint16_t level) {
    for (std::uint32_t i = 0; i < kVis; ++i) vis.push_back(client->create_vi(level));
  }

  Program modest;
  std::vector<std::uint32_t> vis;
};

TEST(Fairness, SendsOnIdleVisAreFlushedInPortions) {
  Greedy pair;
  pair.make_vis(vip::kUnreliable);
  for (const std::uint32_t vi : pair.vis) {
    for (std::uint32_t i = 0; i < kGreedyPosted; ++i) pair.client->post_send(vi, nullptr, 0, 0);
  }
  pair.expect_room_for_others();
  EXPECT_LE(pair.completed(false), kMostFlushed);
  std::uint32_t left = 0;
  for (const std::uint32_t vi : pair.vis) left += pair.client->posted(vi, false);
  pair.expect_in_portions(false, left);
}

TEST(Fairness, ReceivesAreFlushedInPortionsWhenAPeerLeaves) {
  Greedy pair;
  pair.make_vis(vip::kReliableDelivery);
  for (const std::uint32_t vi : pair.vis) {
    const std::uint32_t its = pair.server->create_vi(vip::kReliableDelivery);
    ASSERT_TRUE(sim::connect(pair.network, pair.hosts, *pair.client, vi, *pair.server, its,
                             pair.b.port.address()));
    for (std::uint32_t i = 0; i < kGreedyPosted; ++i) pair.client->post_receive(vi, nullptr, 0, 0);
  }
  pair.server.reset();
  pair.network.advance_to(pair.network.now() + kMillisecond);
  // Two portions of 64 for each, besides what the doorbells bring.
  for (std::uint32_t left = kVis * kGreedyPosted, rounds = 0; left != 0; ++rounds) {
    ASSERT_LT(rounds, 10000u) << left << " are left";
    pair.a.stack->progress(pair.network.now());
    const std::uint32_t now = pair.completed(true);
    ASSERT_LE(now, kMostFlushed + kVis * 128);
    left -= now;
  }
}

TEST(Fairness, ADisconnectFlushesAllAndTheSessionPays) {
  Greedy pair;
  pair.make_vis(vip::kReliableDelivery);
  for (const std::uint32_t vi : pair.vis) {
    const std::uint32_t its = pair.server->create_vi(vip::kReliableDelivery);
    ASSERT_TRUE(sim::connect(pair.network, pair.hosts, *pair.client, vi, *pair.server, its,
                             pair.b.port.address()));
    for (std::uint32_t i = 0; i < kGreedyPosted; ++i) pair.client->post_receive(vi, nullptr, 0, 0);
  }
  std::uint32_t answered = 0;
  for (const std::uint32_t vi : pair.vis) {
    CommandBody body{};
    body.op = Op::kDisconnect;
    body.vi = vi;
    pair.client->command(body, [&answered](const CommandBody&) { ++answered; });
  }
  pair.expect_room_for_others();
  EXPECT_LE(answered, 2u);
  pair.wait(10 * kMillisecond);
  EXPECT_EQ(answered, kVis);
  EXPECT_EQ(pair.completed(true), kVis * kGreedyPosted);
}

TEST(Fairness, ACompletionQueueIsFilledInPortions) {
  Greedy pair;
  CommandBody body{};
  body.op = Op::kCreateCq;
  body.entries = 1;
  const std::uint32_t cq = pair.client->now(body).handle;
  for (std::uint32_t i = 0; i < 2 * kVis; ++i) {
    pair.vis.push_back(pair.client->create_vi(vip::kUnreliable, cq + 1));
  }
  for (std::uint32_t n = 0; n < kGreedyPosted; ++n) {
    for (const std::uint32_t vi : pair.vis) pair.client->post_send(vi, nullptr, 0, 0);
  }
  pair.expect_in_portions(false, 2 * kVis * kGreedyPosted);
  // Twice what its ring has room for; half of them wait. All room is given at once.
  std::uint32_t shown = 0;
  while (pair.client->cq_entry(cq)) ++shown;
  EXPECT_EQ(shown, layout::kCqRingEntries);
  for (unsigned rounds = 0; shown != 2 * kVis * kGreedyPosted; ++rounds) {
    ASSERT_LT(rounds, 10000u);
    pair.a.stack->progress(pair.network.now());
    std::uint32_t now = 0;
    while (pair.client->cq_entry(cq)) ++now;
    ASSERT_LE(now, kMostFlushed);
    shown += now;
  }
  // And what waits there can be destroyed.
  for (const std::uint32_t vi : pair.vis) {
    CommandBody destroy{};
    destroy.op = Op::kDestroyVi;
    destroy.vi = vi;
    EXPECT_EQ(pair.client->now(destroy).result, std::uint32_t{vip::kSuccess});
  }
}

TEST(Fairness, ClaimsAreMadeOneInARound) {
  Greedy pair;
  pair.a.owned.insert({pair.client->session(), 80});
  std::uint32_t made = 0;
  for (std::uint32_t i = 0; i < 100; ++i) {
    CommandBody body{};
    body.op = Op::kClaim;
    body.flow = {Flow::kIpv4, 80, 40'000, 0, {10, 0, 0, 2}, {10, 0, 0, 1}};
    pair.client->command(body, [&made](const CommandBody&) { ++made; });
  }
  pair.expect_room_for_others();
  for (unsigned rounds = 0; made != 100; ++rounds) {
    const std::uint32_t before = made;
    ASSERT_LT(rounds, 1000u);
    pair.a.step();
    ASSERT_LE(made, before + 1);
  }
}

TEST(Fairness, FramesOfOneSessionLeaveRoomForAnothers) {
  Greedy pair;
  pair.make_vis(vip::kUnreliable);
  std::vector<std::byte> data(65536);
  const std::uint32_t handle = pair.client->register_memory(data.data(), data.size());
  const std::uint32_t its_handle = pair.modest.register_memory(data.data(), data.size());
  for (const std::uint32_t vi : pair.vis) {
    const std::uint32_t its = pair.server->create_vi(vip::kUnreliable);
    ASSERT_TRUE(sim::connect(pair.network, pair.hosts, *pair.client, vi, *pair.server, its,
                             pair.b.port.address()));
  }
  const std::uint32_t vi = pair.modest.create_vi(vip::kUnreliable);
  const std::uint32_t its = pair.server->create_vi(vip::kUnreliable);
  ASSERT_TRUE(sim::connect(pair.network, pair.hosts, pair.modest, vi, *pair.server, its,
                           pair.b.port.address()));
  for (const std::uint32_t greedy : pair.vis) {
    pair.client->post_send(greedy, data.data(), 65536, handle);
  }
  pair.modest.post_send(vi, data.data(), 1000, its_handle);
  const std::uint64_t before = pair.a.stack->counters().data_frames_sent;
  pair.a.stack->progress(pair.network.now());
  EXPECT_LE(pair.a.stack->counters().data_frames_sent - before, 200u);
  EXPECT_TRUE(pair.modest.done(vi, false));
}

}  // namespace
}  // namespace viaduct::sim
