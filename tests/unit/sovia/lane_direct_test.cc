// Packets that go straight to the memory of a reader that waits.
#include <gtest/gtest.h>

#include <vector>

#include "sovia/lane/lane.h"
#include "tests/unit/sovia/lane_pair.h"

namespace viaduct::sovia {
namespace {

using State = Lane::State;

constexpr std::uint32_t kRoom = 1000;

TEST(LaneDirect, AWaitingReaderGetsThePacketIntoItsOwnMemory) {
  LanePair pair;
  pair.start_with_a_byte();
  ASSERT_TRUE(pair.b.wait_direct(kRoom));
  EXPECT_FALSE(pair.b.direct_is_there());
  pair.a.put(700);
  pair.settle();
  EXPECT_TRUE(pair.b.direct_is_there());
  EXPECT_EQ(pair.b.lane.rx.unread(), 0u);
  pair.a.put(70);
  pair.settle();
  EXPECT_EQ(pair.b.lane.rx.unread(), 70u) << "only the first one";
  EXPECT_EQ(pair.b.end_direct(), 700u);
  EXPECT_EQ(pair.b.get(100), 70u);
  pair.expect_all_read();
}

TEST(LaneDirect, ALongerPacketComesAsAlways) {
  LanePair pair;
  pair.start_with_a_byte();
  ASSERT_TRUE(pair.b.wait_direct(kRoom));
  pair.a.put(kRoom + 1);
  pair.settle();
  EXPECT_FALSE(pair.b.direct_is_there());
  EXPECT_EQ(pair.b.end_direct(), 0u);
  pair.drain();
  pair.expect_all_read();
}

// The kernel goes on: what comes when the direction is on the lane again is not for that reader.
TEST(LaneDirect, EndsWhenTheDirectionGoesDown) {
  LanePair pair;
  pair.start_with_a_byte();
  ASSERT_TRUE(pair.b.wait_direct(kRoom));
  EXPECT_TRUE(pair.a.lane.tx.go_down());
  pair.settle();
  ASSERT_TRUE(pair.a.go_up(100));
  pair.a.put(50);
  pair.settle();
  EXPECT_FALSE(pair.b.direct_is_there());
  EXPECT_EQ(pair.b.end_direct(), 0u);
  EXPECT_EQ(pair.b.get(kRoom), 50u);
  pair.expect_all_read();
}

// The reader gives up when the packet is in its memory and not taken in yet.
TEST(LaneDirect, WhatHasComeWhenTheReaderGivesUpIsItsOwn) {
  LanePair pair;
  pair.start_with_a_byte();
  ASSERT_TRUE(pair.b.wait_direct(kRoom));
  pair.a.put(700);
  ASSERT_TRUE(pair.a.transport.deliver());
  EXPECT_FALSE(pair.b.direct_has_ended());
  EXPECT_EQ(pair.b.end_direct(), 700u);
  pair.settle();
  pair.expect_all_read();
}

TEST(LaneDirect, ControlPacketsEndIt) {
  LanePair pair;
  pair.start_with_a_byte();
  ASSERT_TRUE(pair.b.wait_direct(kRoom));
  pair.a.lane.finish(true);
  pair.settle();
  EXPECT_FALSE(pair.b.direct_is_there());
  EXPECT_EQ(pair.b.end_direct(), 0u);
  EXPECT_EQ(pair.b.lane.control.receiving(), State::kEnded);
}

// Two threads wait: a packet without data ends the first one's, and what comes next is the second one's.
TEST(LaneDirect, WhatComesForOneReaderIsNotAnothers) {
  LanePair pair(window(4, 1));
  pair.start_with_a_byte();
  std::vector<std::byte> first(kRoom);
  const LaneRx::DirectNumber number = pair.b.lane.rx.begin_direct(first.data(), kRoom, 7);
  ASSERT_NE(number, LaneRx::kNoDirect);
  pair.b.put(10);
  pair.settle();
  pair.a.get(10);
  pair.settle();
  ASSERT_TRUE(pair.b.wait_direct(kRoom)) << "the ACK has ended the first one's";
  pair.a.put(700);
  pair.settle();
  std::uint32_t bytes = 1;
  EXPECT_FALSE(pair.b.lane.rx.direct_is_there(number));
  EXPECT_TRUE(pair.b.lane.rx.end_direct(number, bytes));
  EXPECT_EQ(bytes, 0u);
  EXPECT_TRUE(pair.b.direct_is_there());
  EXPECT_EQ(pair.b.end_direct(), 700u);
  pair.expect_all_read();
}

TEST(LaneDirect, NotWhenSomethingIsUnreadOrTheLaneIsLeft) {
  LanePair pair;
  EXPECT_FALSE(pair.b.wait_direct(kRoom)) << "before the direction has come to the lane";
  pair.start_with_a_byte();
  pair.a.put(10);
  pair.settle();
  EXPECT_FALSE(pair.b.wait_direct(kRoom)) << "something is unread";
  pair.b.get(10);
  ASSERT_TRUE(pair.b.wait_direct(kRoom));
  EXPECT_EQ(pair.b.end_direct(), 0u);
  pair.a.lane.tx.go_down();
  pair.settle();
  EXPECT_FALSE(pair.b.wait_direct(kRoom)) << "the direction has left the lane";
}

TEST(LaneDirect, CreditsComeBackForWhatCameDirectly) {
  LanePair pair(LaneOptions{4, 2});
  pair.start_with_a_byte();
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(pair.b.wait_direct(kRoom));
    ASSERT_EQ(pair.a.put(500), 500u);
    pair.settle();
    ASSERT_EQ(pair.b.end_direct(), 500u);
  }
  pair.expect_all_read();
}

TEST(LaneDirect, AnEndOfTheLaneKeepsWhatCame) {
  for (const bool came : {false, true}) {
    LanePair pair;
    pair.start_with_a_byte();
    ASSERT_TRUE(pair.b.wait_direct(kRoom));
    pair.a.put(500);
    if (came) pair.settle();
    pair.b.transport.break_down();
    pair.b.lane.cut();
    EXPECT_EQ(pair.b.end_direct(), came ? 500u : 0u);
  }
}

}  // namespace
}  // namespace viaduct::sovia
