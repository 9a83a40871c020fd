// A VI outlives the lane of a connection, and becomes the next one's.
#include <gtest/gtest.h>

#include <memory>

#include "tests/unit/sovia/lane_pair.h"

namespace viaduct::sovia {
namespace {

// Two ends whose VI is used by one lane after the other.
class LanePark : public testing::Test {
 protected:
  void SetUp() override {
    a_.connect(b_);
    b_.connect(a_);
    begin();
  }
  void begin() {
    one_ = std::make_unique<Lane>(a_, options_);
    other_ = std::make_unique<Lane>(b_, options_);
  }
  void open() {
    one_->greet(LanePair::kTokenA);
    other_->greet(LanePair::kTokenB);
    settle();
    one_->trust();
    other_->trust();
    settle();
    EXPECT_TRUE(one_->tx.go_up(0));
  }
  void finish() {
    one_->finish(false);
    other_->finish(false);
    settle();
  }
  void settle() {
    for (bool any = true; any;) {
      any = false;
      while (a_.deliver() || b_.deliver() || a_.take_in(*one_) || b_.take_in(*other_) || a_.complete() ||
             b_.complete()) {
        any = true;
      }
      one_->poll();
      other_->poll();
    }
  }
  std::size_t pass(std::size_t bytes) {
    const std::string text(bytes, 'x');
    const iovec from{const_cast<char*>(text.data()), bytes};
    EXPECT_EQ(one_->tx.write(&from, 1, 0, false), bytes);
    settle();
    std::string read(bytes + 1, 0);
    const iovec to{read.data(), read.size()};
    if (other_->rx.first()) other_->rx.go_up();
    const std::size_t got = other_->rx.read(&to, 1, 0, false);
    settle();
    return got;
  }

  const LaneOptions options_ = window(4, 2);
  FakeTransport a_{places_for(options_)}, b_{places_for(options_)};
  std::unique_ptr<Lane> one_, other_;
};

TEST_F(LanePark, IsForLanesThatHaveEndedInGoodOrder) {
  open();
  EXPECT_FALSE(one_->may_park());
  EXPECT_EQ(pass(100), 100u);
  one_->finish(false);
  settle();
  EXPECT_FALSE(one_->may_park());
  other_->finish(false);
  settle();
  EXPECT_TRUE(one_->may_park());
  one_->cut();
  EXPECT_FALSE(one_->may_park());
}

TEST_F(LanePark, WaitsUntilAllHasBeenRead) {
  open();
  const iovec from{const_cast<char*>("abc"), 3};
  ASSERT_EQ(one_->tx.write(&from, 1, 0, false), 3u);
  finish();
  EXPECT_TRUE(one_->may_park());
  EXPECT_FALSE(other_->may_park());
  other_->rx.go_up();
  other_->rx.discard(3);
  EXPECT_TRUE(other_->may_park());
}

TEST_F(LanePark, LeavesTheWireAsItWas) {
  const std::size_t receives = a_.free_receives();
  for (int life = 0; life < 20; ++life) {
    open();
    for (int n = 0; n < 7; ++n) ASSERT_EQ(pass(100), 100u);
    finish();
    ASSERT_TRUE(one_->park());
    settle();
    EXPECT_TRUE(other_->control.peer_parked());
    EXPECT_FALSE(one_->control.peer_parked());
    ASSERT_TRUE(other_->park());
    settle();
    ASSERT_TRUE(one_->control.peer_parked());
    EXPECT_EQ(one_->ring.outstanding() + other_->ring.outstanding(), 0u);
    EXPECT_EQ(a_.free_receives(), receives);
    EXPECT_EQ(b_.free_receives(), receives);
    a_.begin_again();
    b_.begin_again();
    begin();
  }
}

TEST_F(LanePark, IsForVisThatWereNeverUsed) {
  ASSERT_TRUE(one_->park());
  settle();
  EXPECT_TRUE(other_->control.peer_parked());
  ASSERT_TRUE(other_->park());
  settle();
  EXPECT_TRUE(one_->control.peer_parked());
}

TEST_F(LanePark, IsNotForThoseThatOneEndHasGreetedOn) {
  other_->greet(LanePair::kTokenB);
  EXPECT_FALSE(other_->may_park());
  ASSERT_TRUE(one_->park());
  settle();
  EXPECT_TRUE(other_->control.broken());
}

TEST_F(LanePark, IsNotForLanesOfMessages) {
  LaneOptions messages = options_;
  messages.messages = true;
  FakeTransport a(places_for(messages));
  Lane lane(a, messages, a.remote());
  EXPECT_TRUE(lane.control.is_unused());
  EXPECT_FALSE(lane.may_park());
}

TEST_F(LanePark, APeerThatParksALaneInUseLosesIt) {
  open();
  ASSERT_TRUE(b_.inject(immediate(PacketType::kPark, 0)));
  while (b_.take_in(*other_)) continue;
  EXPECT_TRUE(other_->control.broken());
}

TEST_F(LanePark, WhatFollowsIsNoneOfThisLanes) {
  open();
  finish();
  ASSERT_TRUE(one_->park());
  settle();
  ASSERT_FALSE(other_->control.broken());
  ASSERT_TRUE(b_.inject(immediate(PacketType::kAck, 1)));
  while (b_.take_in(*other_)) continue;
  EXPECT_TRUE(other_->control.broken());
}

}  // namespace
}  // namespace viaduct::sovia
