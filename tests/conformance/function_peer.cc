// VipConnectPeerRequest, VipConnectPeerDone, VipConnectPeerWait.
#include "suite.h"

namespace conformance {
namespace {

using FunctionPeer = Conformance;
constexpr VIP_RELIABILITY_LEVEL kPeerLevel = VIP_SERVICE_RELIABLE_DELIVERY;

struct Pair {
  Vi a, b;
  Address address_a, address_b;
};

Pair pair_of(const Nic& near, const Nic& far, const std::string& name) {
  return {near.vi(kPeerLevel), far.vi(kPeerLevel), near.address("a" + name), far.address("b" + name)};
}

TEST_F(FunctionPeer, BothSidesAskAndAreConnected) {
  const Pair p = pair_of(near, far, fresh());
  EXPECT_EQ(p.a.connect_peer_request(p.address_a, p.address_b, kSoon).code, VIP_SUCCESS);
  EXPECT_EQ(p.a.state(), VIP_STATE_CONNECT_PENDING);
  EXPECT_EQ(p.a.connect_peer_done().code, VIP_NOT_DONE);
  EXPECT_EQ(p.b.connect_peer_request(p.address_b, p.address_a, kInfinite).code, VIP_SUCCESS);
  const Outgoing told = must(p.a.connect_peer_wait());
  EXPECT_EQ(told.attributes.level, kPeerLevel);
  EXPECT_EQ(told.attributes.max_transfer_size, far.attributes().max_transfer_size);
  must(p.b.connect_peer_wait());
  EXPECT_EQ(p.a.state(), VIP_STATE_CONNECTED);
  EXPECT_EQ(p.b.state(), VIP_STATE_CONNECTED);

  const Region out = near.memory(5000), in = far.memory(5000);
  out.fill(9);
  must(p.b.post_recv({.segments = {in.all()}}));
  must(p.a.post_send({.segments = {out.all()}}));
  must(p.b.recv_wait());
  EXPECT_TRUE(in.matches(9));
}

TEST_F(FunctionPeer, DoneTellsItOnce) {
  const Pair p = pair_of(near, far, fresh());
  must(p.a.connect_peer_request(p.address_a, p.address_b, kSoon));
  must(p.b.connect_peer_request(p.address_b, p.address_a, kSoon));
  Outgoing done;
  while ((done = p.a.connect_peer_done()).code == VIP_NOT_DONE) continue;
  EXPECT_EQ(done.code, VIP_SUCCESS);
  EXPECT_EQ(done.attributes.level, kPeerLevel);
  EXPECT_EQ(p.a.connect_peer_done().code, VIP_INVALID_STATE) << "told before";
  must(p.b.connect_peer_wait());
}

TEST_F(FunctionPeer, ManyConnectInAnyOrder) {
  std::vector<Pair> pairs;
  const std::string name = fresh();
  for (int i = 0; i < 20; ++i) pairs.push_back(pair_of(near, far, name + std::to_string(i)));
  for (int i = 0; i < 20; ++i) {
    must(pairs[i].a.connect_peer_request(pairs[i].address_a, pairs[i].address_b, kInfinite));
    const Pair& other = pairs[19 - i];
    must(other.b.connect_peer_request(other.address_b, other.address_a, kInfinite));
  }
  for (const Pair& p : pairs) {
    must(p.a.connect_peer_wait());
    must(p.b.connect_peer_wait());
  }
}

TEST_F(FunctionPeer, WaitStaysUntilTheOtherSideAsks) {
  const Pair p = pair_of(near, far, fresh());
  must(p.a.connect_peer_request(p.address_a, p.address_b, kInfinite));
  auto waiting = start([a = p.a] { return a.connect_peer_wait(); });
  EXPECT_FALSE(waiting.returned_within(100));
  must(p.b.connect_peer_request(p.address_b, p.address_a, kSoon));
  EXPECT_EQ(waiting.get().code, VIP_SUCCESS);
  must(p.b.connect_peer_wait());
}

TEST_F(FunctionPeer, TheWholeAttemptTimesOut) {
  const Pair p = pair_of(near, far, fresh());
  const Region in = near.memory(64);
  must(p.a.post_recv({.segments = {in.all()}}));
  must(p.a.connect_peer_request(p.address_a, p.address_b, 100));
  const Outgoing waited = p.a.connect_peer_wait();
  EXPECT_EQ(waited.code, VIP_TIMEOUT);
  EXPECT_EQ(p.a.state(), VIP_STATE_IDLE);
  EXPECT_EQ(must(p.a.query()).recv_empty, VIP_FALSE) << "receives stay posted";
  must(p.a.connect_peer_request(p.address_a, p.address_b, 100));
  Outgoing done;
  while ((done = p.a.connect_peer_done()).code == VIP_NOT_DONE) continue;
  EXPECT_EQ(done.code, VIP_TIMEOUT);
}

TEST_F(FunctionPeer, AddressesMustMatchOnBothSides) {
  const Pair p = pair_of(near, far, fresh());
  const Address elsewhere = near.address("somebody else");
  must(p.a.connect_peer_request(p.address_a, p.address_b, 300));
  must(p.b.connect_peer_request(p.address_b, elsewhere, 300));
  EXPECT_EQ(p.a.connect_peer_wait().code, VIP_TIMEOUT);
  EXPECT_EQ(p.b.connect_peer_wait().code, VIP_TIMEOUT);
}

TEST_F(FunctionPeer, AConflictOfAttributesIsToldToBoth) {
  struct {
    VIP_RELIABILITY_LEVEL level;
    std::uint64_t size;
    VIP_RETURN code;
  } const kinds[] = {{VIP_SERVICE_UNRELIABLE, 50000, VIP_INVALID_RELIABILITY_LEVEL},
                     {kPeerLevel, 40000, VIP_INVALID_MTU}};
  for (const auto& kind : kinds) {
    for (const bool poll : {false, true}) {
      Pair p = pair_of(near, far, fresh());
      ViAttributes mine = near.vi_attributes(kPeerLevel), theirs = far.vi_attributes(kind.level);
      mine.max_transfer_size = 50000;
      theirs.max_transfer_size = kind.size;
      p.a = must(near.create_vi(mine));
      p.b = must(far.create_vi(theirs));
      must(p.a.connect_peer_request(p.address_a, p.address_b, kSoon));
      must(p.b.connect_peer_request(p.address_b, p.address_a, kSoon));
      const auto result = [poll](const Vi& vi) {
        if (!poll) return vi.connect_peer_wait().code;
        VIP_RETURN code;
        while ((code = vi.connect_peer_done().code) == VIP_NOT_DONE) continue;
        return code;
      };
      EXPECT_EQ(result(p.a), kind.code);
      EXPECT_EQ(result(p.b), kind.code);
      EXPECT_EQ(p.a.state(), VIP_STATE_IDLE);
      EXPECT_EQ(p.b.state(), VIP_STATE_IDLE);
    }
  }
}

TEST_F(FunctionPeer, WhereNoHostCanBeIsNotReachable) {
  const Vi vi = near.vi(kPeerLevel);
  const Address nowhere{.host = std::vector<std::uint8_t>(6, 0xff), .discriminator = {1}};
  must(vi.connect_peer_request(near.address("c"), nowhere, kSoon));
  EXPECT_EQ(vi.connect_peer_wait().code, VIP_NOT_REACHABLE);
  must(vi.connect_peer_request(near.address("c"), nowhere, kSoon));
  Outgoing done;
  while ((done = vi.connect_peer_done()).code == VIP_NOT_DONE) continue;
  EXPECT_EQ(done.code, VIP_NOT_REACHABLE);
  EXPECT_EQ(vi.state(), VIP_STATE_IDLE);
}

TEST_F(FunctionPeer, RefuseNonsense) {
  const Pair p = pair_of(near, far, fresh());
  for (const unsigned argument : {2U, 3U}) {
    EXPECT_EQ(p.a.connect_peer_request(p.address_a, p.address_b, 10, null(argument)).code,
              VIP_INVALID_PARAMETER);
  }
  EXPECT_EQ(here->call<op::connect_peer_request>(ViHandle{}, p.address_a, p.address_b,
                                                 std::uint64_t{10}, Nulls{})
                .code,
            VIP_INVALID_PARAMETER);
  EXPECT_EQ(here->call<op::connect_peer_done>(ViHandle{}, Nulls{}).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(here->call<op::connect_peer_wait>(ViHandle{}, Nulls{}).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(p.a.connect_peer_done(null(2)).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(p.a.connect_peer_wait(null(2)).code, VIP_INVALID_PARAMETER);
}

TEST_F(FunctionPeer, WantAnIdleViAndAnAttempt) {
  const auto [a, b] = connected(kPeerLevel);
  EXPECT_EQ(a.connect_peer_request(near.address("a"), far.address("b"), 10).code,
            VIP_INVALID_STATE);
  EXPECT_EQ(a.connect_peer_done().code, VIP_INVALID_STATE) << "nothing was begun";
  EXPECT_EQ(near.vi(kPeerLevel).connect_peer_wait().code, VIP_INVALID_STATE);
}

TEST_F(FunctionPeer, DisconnectEndsAnAttempt) {
  const Pair p = pair_of(near, far, fresh());
  must(p.a.connect_peer_request(p.address_a, p.address_b, kInfinite));
  auto waiting = start([a = p.a] { return a.connect_peer_wait(); });
  EXPECT_FALSE(waiting.returned_within(20));
  EXPECT_EQ(p.a.disconnect().code, VIP_SUCCESS);
  EXPECT_NE(waiting.get().code, VIP_SUCCESS);
  EXPECT_EQ(p.a.state(), VIP_STATE_IDLE);
}

}  // namespace
}  // namespace conformance
