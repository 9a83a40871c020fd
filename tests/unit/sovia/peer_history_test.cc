// When a connection is worth a lane, by what others with the same peer have made of theirs.
#include "sovia/socket/peer_history.h"

#include <gtest/gtest.h>

#include <cstring>

namespace viaduct::sovia {
namespace {

constexpr std::uint64_t kNow = 1'000'000'000;

FlowEnd end(unsigned char host, unsigned port) {
  FlowEnd made{};
  made.address[0] = host;
  made.port[0] = static_cast<std::uint8_t>(port >> 8);
  made.port[1] = static_cast<std::uint8_t>(port);
  return made;
}

class PeerHistoryTest : public testing::Test {
 protected:
  void learn(bool used, unsigned times = 1) {
    for (unsigned n = 0; n < times; ++n) peers_.learn(peer_, used, kNow);
  }
  std::uint32_t calls(std::uint64_t later = 0) const {
    return peers_.calls_before_lane(peer_, kNow + later);
  }

  PeerHistory peers_;
  const FlowEnd peer_ = end(1, 80);
};

TEST_F(PeerHistoryTest, NothingIsKnownAtFirst) {
  EXPECT_TRUE(peers_.empty());
  EXPECT_EQ(calls(), PeerHistory::kAsUsual);
}

TEST_F(PeerHistoryTest, WhereALaneWasUsedTheNextIsAskedForAtOnce) {
  learn(true);
  EXPECT_EQ(calls(), 0u);
  EXPECT_EQ(peers_.calls_before_lane(end(1, 81), kNow), PeerHistory::kAsUsual);
  EXPECT_EQ(peers_.calls_before_lane(end(2, 80), kNow), PeerHistory::kAsUsual);
}

TEST_F(PeerHistoryTest, LanesInVainHaveToBeDeservedMoreAndMore) {
  learn(true);
  learn(false);
  EXPECT_EQ(calls(), PeerHistory::kAsUsual);
  std::uint32_t before = 4;
  for (unsigned n = 0; n < 3; ++n) {
    learn(false);
    EXPECT_GT(calls(), before);
    before = calls();
  }
  learn(false, 10);
  EXPECT_EQ(calls(), before);
  learn(true, 3);
  EXPECT_EQ(calls(), PeerHistory::kAsUsual);
  learn(true, 10);
  EXPECT_EQ(calls(), 0u);
  learn(false);
  EXPECT_EQ(calls(), PeerHistory::kAsUsual);
}

TEST_F(PeerHistoryTest, ItIsForgotten) {
  learn(true);
  EXPECT_EQ(calls(PeerHistory::kKnownNs - 1), 0u);
  EXPECT_EQ(calls(PeerHistory::kKnownNs), PeerHistory::kAsUsual);
  peers_.learn(peer_, false, kNow + PeerHistory::kKnownNs);
  EXPECT_GT(calls(PeerHistory::kKnownNs), 4u) << "of what was before nothing counts";
  peers_.forget(peer_);
  EXPECT_EQ(calls(), PeerHistory::kAsUsual);
  EXPECT_TRUE(peers_.empty());
}

TEST_F(PeerHistoryTest, AHostWithManyPortsTakesNoMemory) {
  learn(true);
  for (unsigned port = 1; port <= PeerHistory::kMostPeers; ++port) {
    peers_.learn(end(3, port), true, kNow);
  }
  EXPECT_EQ(calls(), PeerHistory::kAsUsual) << "all were forgotten";
  EXPECT_EQ(peers_.calls_before_lane(end(3, PeerHistory::kMostPeers), kNow), 0u);
}

TEST(PeerOf, HasThePortOfTheEndThatListens) {
  const Flow flow{false, end(1, 7000), end(2, 50000)};
  EXPECT_EQ(peer_of(flow, Role::kAccepted), end(2, 7000));
  EXPECT_EQ(peer_of(flow, Role::kCaller), end(2, 50000));
  EXPECT_EQ(peer_of(flow, Role::kNeither), end(2, 7000));
  const Flow other{false, end(2, 50000), end(1, 7000)};
  EXPECT_EQ(peer_of(other, Role::kCaller), end(1, 7000));
  EXPECT_EQ(peer_of(other, Role::kNeither), end(1, 7000));
}

}  // namespace
}  // namespace viaduct::sovia
