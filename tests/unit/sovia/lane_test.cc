// How lanes come up, go down and end.
#include "sovia/lane/lane.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tests/unit/sovia/lane_pair.h"

namespace viaduct::sovia {
namespace {

using State = Lane::State;

// ---------------------------------------------------------------------------- greeting

TEST(LaneGreeting, BringsTheTokenAndTheWindow) {
  LanePair pair;
  pair.a.lane.greet(LanePair::kTokenA);
  EXPECT_FALSE(pair.b.lane.greeting.greeted());
  pair.pass();
  ASSERT_TRUE(pair.b.lane.greeting.greeted());
  EXPECT_FALSE(pair.a.lane.greeting.greeted());
  EXPECT_EQ(std::memcmp(pair.b.lane.greeting.peer_token(), LanePair::kTokenA, kTokenBytes), 0);
}

TEST(LaneGreeting, DataWaitsForTheWindow) {
  LanePair pair;
  pair.a.lane.greet(LanePair::kTokenA);
  ASSERT_TRUE(pair.a.go_up(17));
  EXPECT_EQ(pair.a.put(100), 100u);
  pair.pass();
  EXPECT_EQ(pair.a.transport.sent(PacketType::kData), 0u);
  pair.b.lane.greet(LanePair::kTokenB);
  pair.drain();
  EXPECT_EQ(pair.b.came_behind, 17u);
  EXPECT_EQ(pair.b.read, 100u);
}

TEST(LaneGreeting, NothingGoesBeforeTheOwnOne) {
  LanePair pair;
  pair.b.lane.greet(LanePair::kTokenB);
  pair.settle();
  pair.a.lane.ask_to_leave();
  pair.a.lane.finish(false);
  pair.settle();
  EXPECT_EQ(pair.a.transport.on_way(), 0u);
  pair.a.lane.greet(LanePair::kTokenA);
  pair.settle();
  EXPECT_TRUE(pair.b.lane.control.peer_leaves());
  EXPECT_EQ(pair.b.lane.control.receiving(), State::kEnded);
  EXPECT_EQ(pair.a.lane.control.sending(), State::kEnded);
  EXPECT_FALSE(pair.a.lane.control.broken() || pair.b.lane.control.broken());
}

// ---------------------------------------------------------------------------- states

TEST(LaneStates, OneDirectionComesAndEnds) {
  LanePair pair;
  pair.greet();
  ASSERT_TRUE(pair.a.go_up(5));
  EXPECT_EQ(pair.a.lane.control.sending(), State::kUp);
  pair.pass();
  EXPECT_EQ(pair.b.lane.control.receiving(), State::kIdle) << "nothing has been sent there yet";
  pair.a.put(10);
  pair.pass();
  EXPECT_EQ(pair.b.lane.control.receiving(), State::kUp);
  EXPECT_EQ(pair.b.lane.control.sending(), State::kIdle);
  pair.a.put(10);
  pair.a.lane.finish(true);
  EXPECT_EQ(pair.a.lane.control.sending(), State::kEnding);
  EXPECT_EQ(pair.a.put(10), 0u);
  pair.a.transport.deliver();
  pair.b.transport.take_in(pair.b.lane);
  EXPECT_EQ(pair.b.lane.control.receiving(), State::kUp);
  pair.pass();
  EXPECT_EQ(pair.b.lane.control.receiving(), State::kEnded);
  EXPECT_TRUE(pair.b.lane.control.peer_closed());
  EXPECT_EQ(pair.a.lane.control.sending(), State::kEnded);
  EXPECT_FALSE(pair.a.lane.control.over());
  EXPECT_EQ(pair.b.get(100), 20u);
}

// The beginning, FIN and LEAVE of both ends in all orders, with the packets passing between some of them.
TEST(LaneStates, AllOrdersEndWell) {
  enum Step { kStartA, kStartB, kFinishA, kFinishB, kLeaveA, kLeaveB, kSteps };
  int order[kSteps] = {0, 1, 2, 3, 4, 5};
  do {
    for (const unsigned passing : {0u, 0b111111u, 0b010101u, 0b101010u, 0b000011u, 0b001100u}) {
      LanePair pair(window(2, 1));
      pair.greet();
      for (int i = 0; i < kSteps; ++i) {
        switch (order[i]) {
          case kStartA: pair.a.go_up(); pair.a.put(7); break;
          case kStartB: pair.b.go_up(); pair.b.put(7); break;
          case kFinishA: pair.a.lane.finish(false); break;
          case kFinishB: pair.b.lane.finish(true); break;
          case kLeaveA: pair.a.lane.ask_to_leave(); break;
          case kLeaveB: pair.b.lane.ask_to_leave(); break;
        }
        if ((passing >> i & 1) != 0) pair.pass();
      }
      pair.drain();
      ASSERT_TRUE(pair.a.lane.control.over() && pair.b.lane.control.over());
      ASSERT_FALSE(pair.a.lane.control.broken() || pair.b.lane.control.broken());
      pair.expect_all_read();
      ASSERT_FALSE(::testing::Test::HasFailure());
    }
  } while (std::next_permutation(order, order + kSteps));
}

TEST(LaneStates, BothFinishAtOnce) {
  LanePair pair;
  pair.start();
  pair.a.put(1000);
  pair.b.put(2000);
  pair.a.lane.finish(true);
  pair.b.lane.finish(true);
  pair.settle();
  EXPECT_TRUE(pair.a.lane.control.over() && pair.b.lane.control.over());
  EXPECT_TRUE(pair.a.lane.control.peer_closed() && pair.b.lane.control.peer_closed());
  EXPECT_EQ(pair.a.lane.rx.unread(), 2000u);
  pair.drain();
  pair.expect_all_read();
}

TEST(LaneStates, LeaveIsSentOnceHoweverOftenItIsAskedFor) {
  LanePair pair;
  pair.start();
  for (int i = 0; i < 100; ++i) pair.a.lane.ask_to_leave();
  pair.settle();
  for (int i = 0; i < 100; ++i) pair.a.lane.ask_to_leave();
  pair.settle();
  EXPECT_EQ(pair.a.transport.sent(PacketType::kLeave), 1u);
  EXPECT_TRUE(pair.b.lane.control.peer_leaves());
  EXPECT_EQ(pair.b.lane.control.sending(), State::kUp) << "its socket decides";
  EXPECT_FALSE(pair.a.lane.control.broken());
}

TEST(LaneStates, WhoClosesBeforeItsEndHasGoneSaysSoInIt) {
  LanePair pair(window(1, 1));
  pair.start();
  while (pair.a.put(kChunkBytes) != 0) {
  }
  pair.a.lane.finish(false);
  pair.a.lane.finish(true);
  pair.drain();
  EXPECT_TRUE(pair.a.lane.control.is_finished());
  EXPECT_TRUE(pair.b.lane.control.peer_closed());
}

// A close behind it goes with LEAVE.
TEST(LaneStates, TheEndGoesOnce) {
  LanePair pair;
  pair.start();
  pair.a.put(10);
  for (int i = 0; i < 3; ++i) {
    pair.a.lane.finish(i != 0);
    pair.settle();
  }
  EXPECT_TRUE(pair.a.lane.control.is_finished());
  EXPECT_EQ(pair.a.transport.sent(PacketType::kFin), 1u);
  EXPECT_EQ(pair.a.transport.sent(PacketType::kLeave), 1u);
  EXPECT_TRUE(pair.b.lane.control.peer_closed());
}

// A program that writes without end must not keep its FIN from going.
TEST(LaneStates, NothingIsTakenOnceTheEndWaitsForCredits) {
  LanePair pair(window(2, 1));
  pair.start();
  while (pair.a.put(kChunkBytes) != 0) {
  }
  pair.pass();
  pair.a.lane.finish(false);
  const std::uint64_t written = pair.a.written;
  while (pair.a.lane.control.sending() != State::kEnded) {
    EXPECT_EQ(pair.a.put(1000), 0u);
    EXPECT_FALSE(pair.a.put_direct(1000));
    pair.b.get(kChunkBytes);
    pair.settle();
  }
  EXPECT_EQ(pair.a.written, written);
  pair.drain();
  pair.expect_all_read();
}

// ---------------------------------------------------------------------------- changes

TEST(LaneChanges, TellWhatHasChanged) {
  LanePair pair(window(1, 1));
  unsigned changes = 0;
  const auto next = [&](LaneSide& from, LaneSide& to) {
    changes = 0;
    from.transport.deliver();
    to.transport.take_in(to.lane, &changes);
    return changes;
  };
  pair.a.lane.greet(LanePair::kTokenA);
  pair.b.lane.greet(LanePair::kTokenB);
  EXPECT_NE(next(pair.a, pair.b) & LaneChange::kState, 0u);
  EXPECT_NE(next(pair.b, pair.a) & LaneChange::kState, 0u);
  EXPECT_NE(next(pair.a, pair.b) & LaneChange::kState, 0u);  // TRUST
  EXPECT_NE(next(pair.b, pair.a) & LaneChange::kState, 0u);
  pair.a.go_up();
  pair.a.put(10);
  EXPECT_EQ(next(pair.a, pair.b) & (LaneChange::kReadable | LaneChange::kTurn),
            LaneChange::kReadable | LaneChange::kTurn);
  pair.b.get(10);
  EXPECT_NE(next(pair.b, pair.a) & LaneChange::kWritable, 0u);  // ACK
  pair.a.put(10);
  EXPECT_EQ(next(pair.a, pair.b) & (LaneChange::kReadable | LaneChange::kTurn), unsigned{LaneChange::kReadable});
  pair.b.get(10);
  next(pair.b, pair.a);
  pair.a.lane.tx.go_down();
  EXPECT_EQ(next(pair.a, pair.b) & (LaneChange::kReadable | LaneChange::kTurn),
            LaneChange::kReadable | LaneChange::kTurn);
  pair.b.follow();
  next(pair.b, pair.a);
  pair.a.lane.finish(false);
  EXPECT_EQ(next(pair.a, pair.b) & (LaneChange::kReadable | LaneChange::kState),
            LaneChange::kReadable | LaneChange::kState);
  EXPECT_NE(next(pair.b, pair.a) & LaneChange::kState, 0u);  // FINACK
  pair.b.lane.finish(false);
  EXPECT_NE(next(pair.b, pair.a) & LaneChange::kReadable, 0u);
  EXPECT_EQ(pair.a.lane.cut(), unsigned{LaneChange::kReadable | LaneChange::kWritable | LaneChange::kState});
}

// ---------------------------------------------------------------------------- cut

TEST(LaneCut, InEveryStateLeavesWhatHasComeReadable) {
  for (int state = 0; state < 9; ++state) {
    LanePair pair(window(2, 2));
    if (state >= 1) pair.a.lane.greet(LanePair::kTokenA);
    if (state >= 2) pair.b.lane.greet(LanePair::kTokenB);
    pair.pass();
    if (state >= 3) pair.a.go_up();
    if (state >= 4) pair.b.go_up();
    pair.pass();
    if (state >= 5) {
      for (int i = 0; i < 10; ++i) pair.a.put(100);
      pair.b.put(100);
    }
    if (state >= 6) pair.pass();
    if (state >= 7) pair.a.lane.finish(true);
    if (state >= 8) pair.b.lane.ask_to_leave();
    for (LaneSide* const side : {&pair.a, &pair.b}) {
      side->transport.break_down();
      side->lane.cut();
      EXPECT_TRUE(side->lane.control.broken() && side->lane.control.over());
      EXPECT_EQ(side->put(100), 0u);
      EXPECT_FALSE(side->put_direct(100));
      EXPECT_FALSE(side->go_up());
      side->lane.tx.go_down();
      side->lane.ask_to_leave();
      side->lane.finish(true);
      side->lane.tx.flush();
      side->lane.poll();
      const std::size_t unread = side->lane.rx.unread();
      EXPECT_EQ(side->get(10'000, true), unread);
      EXPECT_EQ(side->get(10'000), unread);
      side->lane.rx.close_reading();
      side->lane.cut();
    }
  }
}

// The connection may be seen to be over by a send before what had come is taken in.
TEST(LaneCut, WhatCameBeforeAFailedSendStillCounts) {
  LanePair pair;
  pair.start();
  pair.a.put(1000);
  pair.a.lane.finish(true);
  while (pair.a.transport.deliver()) {
  }
  pair.b.transport.break_down();
  pair.b.put(10);
  EXPECT_TRUE(pair.b.lane.control.broken());
  while (pair.b.transport.take_in(pair.b.lane)) {
  }
  EXPECT_EQ(pair.b.lane.control.receiving(), State::kEnded);
  EXPECT_TRUE(pair.b.lane.control.peer_closed());
  EXPECT_EQ(pair.b.get(2000), 1000u);
}

// A NIC without descriptors refuses a send of a connection that lives: nothing comes that says so.
TEST(LaneCut, TellsTheOwnerOfARefusedPost) {
  LanePair pair;
  pair.start();
  EXPECT_EQ(pair.b.transport.failures(), 0u);
  pair.b.transport.break_down();
  pair.b.put(10);
  EXPECT_EQ(pair.b.transport.failures(), 1u);
}

// A direction that was not on the lane has lost nothing with it.
TEST(LaneCut, SomethingIsLostOnceADirectionIsThere) {
  for (const bool sends : {false, true}) {
    for (const bool receives : {false, true}) {
      LanePair pair;
      pair.greet();
      if (sends) pair.a.go_up();
      if (receives) pair.b.go_up();
      pair.a.put(10);
      pair.b.put(10);
      pair.settle();
      EXPECT_FALSE(pair.a.lane.control.is_lost());
      pair.a.transport.break_down();
      pair.a.lane.cut();
      EXPECT_EQ(pair.a.lane.control.is_lost(), sends || receives);
    }
  }
}

TEST(LaneCut, SomethingIsLostWhenAPacketIsKnownToBeMissing) {
  LanePair pair;
  pair.greet();
  pair.a.lane.control.miss();
  pair.a.lane.cut();
  EXPECT_TRUE(pair.a.lane.control.is_lost());
}

TEST(LaneCut, NothingIsLostBehindTheEnd) {
  LanePair pair;
  pair.start();
  pair.a.put(10);
  pair.b.put(10);
  pair.a.lane.finish(false);
  pair.b.lane.finish(false);
  pair.settle();
  pair.a.lane.cut();
  EXPECT_FALSE(pair.a.lane.control.is_lost());
}

}  // namespace
}  // namespace viaduct::sovia
