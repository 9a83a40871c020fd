#include "sovia/lane.h"

#include <endian.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/unit/sovia_lane_pair.h"

namespace viaduct::sovia {
namespace {

using State = Lane::State;

LaneOptions window(std::uint32_t w, std::uint32_t t, bool combine = true) {
  return {w, t, combine};
}

// ---------------------------------------------------------------------------- greeting

TEST(LaneGreeting, BringsTheTokenAndTheWindow) {
  LanePair pair;
  pair.a.lane.greet(LanePair::kTokenA);
  EXPECT_FALSE(pair.b.lane.greeted());
  pair.pass();
  ASSERT_TRUE(pair.b.lane.greeted());
  EXPECT_FALSE(pair.a.lane.greeted());
  EXPECT_EQ(std::memcmp(pair.b.lane.peer_token(), LanePair::kTokenA, kTokenBytes), 0);
}

TEST(LaneGreeting, DataWaitsForTheWindow) {
  LanePair pair;
  pair.a.lane.greet(LanePair::kTokenA);
  pair.a.lane.start(17);
  EXPECT_EQ(pair.a.put(100), 100u);
  pair.pass();
  EXPECT_EQ(pair.a.wire.sent(PacketType::kData), 0u);
  EXPECT_TRUE(pair.b.lane.started());
  EXPECT_EQ(pair.b.lane.peer_kernel_bytes(), 17u);
  pair.b.lane.greet(LanePair::kTokenB);
  pair.drain();
  EXPECT_EQ(pair.b.read, 100u);
}

TEST(LaneGreeting, NothingGoesBeforeTheOwnOne) {
  LanePair pair;
  pair.b.lane.greet(LanePair::kTokenB);
  pair.settle();
  pair.a.lane.start(0);
  EXPECT_EQ(pair.a.lane.sending(), State::kIdle);
  pair.a.lane.ask_to_leave();
  pair.a.lane.finish(false);
  pair.settle();
  EXPECT_EQ(pair.a.wire.on_way(), 0u);
  pair.a.lane.greet(LanePair::kTokenA);
  pair.settle();
  EXPECT_TRUE(pair.a.lane.over());
  EXPECT_FALSE(pair.a.lane.broken() || pair.b.lane.broken());
}

// ---------------------------------------------------------------------------- states

TEST(LaneStates, OneDirectionGoesUpAndDown) {
  LanePair pair;
  pair.greet();
  pair.a.lane.start(5);
  EXPECT_EQ(pair.a.lane.sending(), State::kUp);
  pair.pass();
  EXPECT_EQ(pair.b.lane.receiving(), State::kUp);
  EXPECT_EQ(pair.b.lane.sending(), State::kIdle);
  pair.a.put(10);
  pair.a.lane.finish(true);
  EXPECT_EQ(pair.a.lane.sending(), State::kEnding);
  EXPECT_EQ(pair.a.put(10), 0u);
  pair.a.wire.deliver();
  pair.b.wire.take_in(pair.b.lane);
  EXPECT_EQ(pair.b.lane.receiving(), State::kUp);
  pair.pass();
  EXPECT_EQ(pair.b.lane.receiving(), State::kEnded);
  EXPECT_TRUE(pair.b.lane.peer_closed());
  EXPECT_EQ(pair.a.lane.sending(), State::kEnded);
  EXPECT_FALSE(pair.a.lane.over());
  EXPECT_EQ(pair.b.get(100), 10u);
}

// START, FIN and LEAVE of both ends in all orders, with the packets passing between some of them.
TEST(LaneStates, AllOrdersEndWell) {
  enum Step { kStartA, kStartB, kFinishA, kFinishB, kLeaveA, kLeaveB, kSteps };
  int order[kSteps] = {0, 1, 2, 3, 4, 5};
  do {
    for (const unsigned passing : {0u, 0b111111u, 0b010101u, 0b101010u, 0b000011u, 0b001100u}) {
      LanePair pair(window(2, 1));
      pair.greet();
      for (int i = 0; i < kSteps; ++i) {
        switch (order[i]) {
          case kStartA: pair.a.lane.start(0); pair.a.put(7); break;
          case kStartB: pair.b.lane.start(0); pair.b.put(7); break;
          case kFinishA: pair.a.lane.finish(false); break;
          case kFinishB: pair.b.lane.finish(true); break;
          case kLeaveA: pair.a.lane.ask_to_leave(); break;
          case kLeaveB: pair.b.lane.ask_to_leave(); break;
        }
        if ((passing >> i & 1) != 0) pair.pass();
      }
      pair.drain();
      ASSERT_TRUE(pair.a.lane.over() && pair.b.lane.over());
      ASSERT_FALSE(pair.a.lane.broken() || pair.b.lane.broken());
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
  EXPECT_TRUE(pair.a.lane.over() && pair.b.lane.over());
  EXPECT_TRUE(pair.a.lane.peer_closed() && pair.b.lane.peer_closed());
  EXPECT_EQ(pair.a.lane.unread(), 2000u);
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
  EXPECT_EQ(pair.a.wire.sent(PacketType::kLeave), 1u);
  EXPECT_TRUE(pair.b.lane.peer_leaves());
  EXPECT_EQ(pair.b.lane.sending(), State::kEnded);
  EXPECT_FALSE(pair.a.lane.broken());
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
  while (pair.a.lane.sending() != State::kEnded) {
    EXPECT_EQ(pair.a.put(1000), 0u);
    EXPECT_FALSE(pair.a.put_direct(1000));
    pair.b.get(kChunkBytes);
    pair.settle();
  }
  EXPECT_EQ(pair.a.written, written);
  pair.drain();
  pair.expect_all_read();
}

// Who leaves does not wait for its program to read, nor for the peer's.
TEST(LaneStates, LeavingNeedsNoReader) {
  LanePair pair(window(4, 2));
  pair.start();
  while (pair.a.put(kChunkBytes) != 0) {
  }
  while (pair.b.put(kChunkBytes) != 0) {
  }
  pair.settle();
  EXPECT_FALSE(pair.a.lane.over());
  pair.a.lane.finish(false);
  pair.a.lane.ask_to_leave();
  pair.settle();
  EXPECT_TRUE(pair.a.lane.over() && pair.b.lane.over());
  EXPECT_FALSE(pair.a.lane.broken() || pair.b.lane.broken());
  EXPECT_EQ(pair.a.lane.unread(), pair.b.written);
  EXPECT_EQ(pair.b.lane.unread(), pair.a.written);
  pair.drain();
  pair.expect_all_read();
}

TEST(LaneStates, LeavingNeedsNoReaderAfterThePeersFinEither) {
  LanePair pair(window(4, 2));
  pair.start();
  pair.b.lane.finish(false);
  while (pair.a.put(kChunkBytes) != 0) {
  }
  pair.settle();
  pair.a.lane.finish(false);
  pair.a.lane.ask_to_leave();
  pair.settle();
  EXPECT_TRUE(pair.a.lane.over() && pair.b.lane.over());
  pair.drain();
  pair.expect_all_read();
}

// ---------------------------------------------------------------------------- credits

TEST(LaneCredits, OneWayStreamCostsOneAckForEachThreshold) {
  const LaneOptions all[] = {window(1, 1),   window(32, 1),   window(32, 16),
                             window(32, 32), window(8, 3),    window(256, 128),
                             window(256, 8), window(256, 256)};
  for (const LaneOptions& options : all) {
    LanePair pair(options);
    pair.start();
    constexpr std::uint32_t kPackets = 1024;
    for (std::uint32_t i = 0; i < kPackets; ++i) {
      ASSERT_EQ(pair.a.put(64, false), 64u);
      pair.settle();
      ASSERT_EQ(pair.b.get(64), 64u);
      pair.settle();
    }
    EXPECT_EQ(pair.a.wire.sent(PacketType::kData), kPackets);
    EXPECT_EQ(pair.b.wire.sent(PacketType::kAck), kPackets / options.ack_threshold);
    EXPECT_EQ(pair.b.lane.stalls().acks, kPackets / options.ack_threshold);
    EXPECT_EQ(pair.a.lane.stalls().packets, kPackets);
    EXPECT_EQ(pair.a.lane.stalls().credits, 0u);
  }
}

TEST(LaneCredits, PingPongNeedsNoAck) {
  LanePair pair;
  pair.start();
  for (int i = 0; i < 1000; ++i) {
    pair.a.put(4);
    pair.settle();
    ASSERT_EQ(pair.b.get(100), 4u);
    pair.b.put(4);
    // What was read is given back after the answer, so the next one tells of it.
    EXPECT_EQ(credits_of(pair.b.wire.last_immediate()), i == 0 ? 0u : 1u);
    pair.settle();
    ASSERT_EQ(pair.a.get(100), 4u);
  }
  EXPECT_EQ(pair.a.wire.sent(PacketType::kAck), 0u);
  EXPECT_EQ(pair.b.wire.sent(PacketType::kAck), 0u);
}

TEST(LaneCredits, WindowIsThePeersAndBoundsWhatIsOnItsWay) {
  for (const auto& [w_a, w_b] : {std::pair{1u, 256u}, {256u, 1u}, {3u, 7u}, {32u, 5u}}) {
    LanePair pair(window(w_a, 1), window(w_b, w_b));
    pair.start();
    for (int i = 0; i < 1000; ++i) {
      pair.a.put(1);
      pair.b.put(1);
      pair.settle();
    }
    EXPECT_EQ(pair.a.wire.sent(PacketType::kData), w_b);
    EXPECT_EQ(pair.b.wire.sent(PacketType::kData), w_a);
    pair.drain();
    pair.expect_all_read();
  }
}

TEST(LaneCredits, ZeroWindowTakesWhatThereIsRoomFor) {
  for (const LaneOptions& options : {window(1, 1), window(32, 16), window(256, 100)}) {
    LanePair pair(options);
    pair.start();
    EXPECT_TRUE(pair.a.lane.has_room());
    std::size_t taken;
    do {
      taken = pair.a.put(100'000);
      pair.settle();
    } while (taken == 100'000);
    EXPECT_EQ(pair.a.put(1), 0u);
    EXPECT_FALSE(pair.a.lane.has_room());
    EXPECT_EQ(pair.a.wire.sent(PacketType::kData), options.window);
    EXPECT_EQ(pair.b.lane.unread(), pair.a.wire.data_bytes());
    EXPECT_GT(pair.a.written, pair.b.lane.unread());
    EXPECT_EQ(pair.a.lane.unsent(), pair.a.written - pair.b.lane.unread());
    EXPECT_GE(pair.a.lane.stalls().credits, 1u);
    EXPECT_TRUE(pair.a.lane.flush());
    pair.drain();
    EXPECT_TRUE(pair.a.lane.has_room());
    EXPECT_EQ(pair.a.lane.unsent(), 0u);
    pair.expect_all_read();
  }
}

TEST(LaneCredits, BothEndsSendMoreThanTheWindowBeforeEitherReads) {
  LanePair pair(window(4, 4), window(8, 2));
  pair.start();
  while (pair.a.put(50'000) != 0) pair.settle();
  while (pair.b.put(50'000) != 0) pair.settle();
  EXPECT_FALSE(pair.a.lane.has_room() || pair.b.lane.has_room());
  pair.drain();
  pair.expect_all_read();
  pair.a.lane.finish(false);
  pair.b.lane.finish(false);
  pair.settle();
  EXPECT_TRUE(pair.a.lane.over() && pair.b.lane.over());
}

// Acknowledgements find no place to be sent from as long as sends do not complete; they go later.
TEST(LaneCredits, AckThatFoundNoPlaceIsSentLater) {
  LanePair pair(window(32, 1));
  pair.start();
  std::uint64_t acks = 0;
  for (int i = 0; i < 500; ++i) {
    pair.a.put(1);
    pair.pass();
    pair.b.get(1);
    pair.pass();
    while (pair.a.wire.complete()) pair.a.lane.turn();
    if (pair.b.wire.sent(PacketType::kAck) == acks) break;
    acks = pair.b.wire.sent(PacketType::kAck);
  }
  ASSERT_LT(acks, 100u) << "there is no end of places";
  while (pair.a.put(kChunkBytes) != 0) {
    pair.pass();
    while (pair.a.wire.complete()) pair.a.lane.turn();
    pair.b.get(kChunkBytes);
  }
  EXPECT_TRUE(pair.b.lane.wants_turn());
  pair.drain();
  EXPECT_FALSE(pair.b.lane.wants_turn());
  pair.expect_all_read();
  EXPECT_TRUE(pair.a.lane.has_room());
}

// ... and so do the packets of the end.
TEST(LaneCredits, EndThatFoundNoPlaceIsSentLater) {
  LanePair pair(window(32, 1));
  pair.start();
  for (int i = 0; i < 60; ++i) {
    pair.a.put(1);
    pair.pass();
    pair.b.get(1);
    pair.pass();
    while (pair.a.wire.complete()) pair.a.lane.turn();
  }
  pair.a.lane.finish(false);
  pair.b.lane.ask_to_leave();
  pair.b.lane.finish(false);
  pair.settle();
  EXPECT_TRUE(pair.a.lane.over() && pair.b.lane.over());
  EXPECT_FALSE(pair.a.lane.broken() || pair.b.lane.broken());
}

// ---------------------------------------------------------------------------- combining

TEST(LaneCombining, SmallWritesJoinWhileSomethingIsOnItsWay) {
  LanePair pair;
  pair.start();
  EXPECT_EQ(pair.a.put(10, true), 10u);
  EXPECT_EQ(pair.a.wire.sent(PacketType::kData), 1u) << "nothing was on its way";
  EXPECT_FALSE(pair.a.lane.holds());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(pair.a.put(10, true), 10u);
  EXPECT_EQ(pair.a.wire.sent(PacketType::kData), 1u);
  EXPECT_TRUE(pair.a.lane.holds());
  EXPECT_EQ(pair.a.lane.stalls().combined, 19u);
  pair.pass();
  pair.a.lane.turn();
  EXPECT_TRUE(pair.a.lane.holds()) << "it has arrived, but not completed";
  pair.a.wire.complete();
  EXPECT_NE(pair.a.lane.turn() & Lane::kWritable, 0u);
  EXPECT_FALSE(pair.a.lane.holds());
  EXPECT_EQ(pair.a.wire.sent(PacketType::kData), 2u);
  pair.drain();
  pair.expect_all_read();
}

TEST(LaneCombining, IsLeftOutWhenItIsOff) {
  for (const bool by_option : {false, true}) {
    LanePair pair(window(32, 16, !by_option));
    pair.start();
    for (int i = 0; i < 20; ++i) pair.a.put(10, by_option);
    EXPECT_EQ(pair.a.wire.sent(PacketType::kData), 20u);
    EXPECT_FALSE(pair.a.lane.holds());
    EXPECT_EQ(pair.a.lane.stalls().combined, 0u);
    pair.drain();
    pair.expect_all_read();
  }
}

TEST(LaneCombining, EndsWithALargeWriteAFlushOrAFullChunk) {
  LanePair pair;
  pair.start();
  pair.a.put(10, true);
  pair.a.put(10, true);
  pair.a.put(kSmallBytes + 1, true);
  EXPECT_EQ(pair.a.wire.sent(PacketType::kData), 2u);
  pair.a.put(10, true);
  EXPECT_FALSE(pair.a.lane.flush());
  EXPECT_EQ(pair.a.wire.sent(PacketType::kData), 3u);
  EXPECT_FALSE(pair.a.lane.holds());
  for (std::uint32_t i = 0; i < kChunkBytes / kSmallBytes; ++i) pair.a.put(kSmallBytes, true);
  EXPECT_EQ(pair.a.wire.sent(PacketType::kData), 4u);
  EXPECT_EQ(pair.a.wire.data_bytes(), pair.a.written);
  EXPECT_FALSE(pair.a.lane.holds());
  pair.a.put(10, true);
  pair.a.lane.finish(false);
  EXPECT_EQ(pair.a.wire.data_bytes(), pair.a.written);
  pair.drain();
  pair.expect_all_read();
}

TEST(LaneCombining, WhatWaitsForCreditsJoinsAndGoesWithThem) {
  LanePair pair(window(2, 1));
  pair.start();
  for (int i = 0; i < 50; ++i) pair.a.put(100, false);
  pair.settle();
  EXPECT_EQ(pair.a.wire.sent(PacketType::kData), 2u);
  EXPECT_FALSE(pair.a.lane.holds()) << "it does not wait for more";
  pair.b.get(100);
  pair.settle();
  EXPECT_EQ(pair.a.wire.sent(PacketType::kData), 3u);
  EXPECT_EQ(pair.b.lane.unread(), 4900u);
  pair.drain();
  pair.expect_all_read();
}

// ---------------------------------------------------------------------------- from own memory

TEST(LaneDirect, MixesWithCopiedData) {
  LanePair pair(window(8, 3));
  pair.start();
  for (int i = 0; i < 300; ++i) {
    pair.a.put(100 + i, true);
    const bool direct = pair.a.put_direct(kChunkBytes - i);
    EXPECT_TRUE(direct || i >= 3);
    pair.a.put(10, true);
    if (i % 3 == 0) pair.pass();
    if (i % 5 == 0) pair.drain();
    pair.a.free_directs();
  }
  pair.drain();
  pair.a.free_directs();
  EXPECT_EQ(pair.a.directs(), 0u);
  pair.expect_all_read();
}

TEST(LaneDirect, TicketCompletesWithItsPacketOnly) {
  LanePair pair;
  pair.start();
  pair.a.put(10);
  std::uint64_t ticket;
  const std::byte data[100] = {};
  ASSERT_TRUE(pair.a.lane.write_direct(data, sizeof data, 0, ticket));
  EXPECT_EQ(pair.a.lane.unsent(), 110u);
  pair.pass();
  EXPECT_FALSE(pair.a.lane.has_completed(ticket));
  pair.a.wire.complete();
  EXPECT_FALSE(pair.a.lane.has_completed(ticket));
  pair.a.wire.complete();
  EXPECT_TRUE(pair.a.lane.has_completed(ticket));
}

TEST(LaneDirect, IsRefusedWithoutCreditsAndBehindDataThatWaits) {
  LanePair pair(window(1, 1));
  pair.start();
  EXPECT_TRUE(pair.a.put_direct(100));
  EXPECT_FALSE(pair.a.put_direct(100));
  pair.a.put(5);
  pair.settle();
  EXPECT_FALSE(pair.a.put_direct(100));
  pair.drain();
  EXPECT_TRUE(pair.a.put_direct(100));
  pair.drain();
  pair.expect_all_read();
  pair.a.lane.cut();
  EXPECT_FALSE(pair.a.put_direct(100));
}

// ---------------------------------------------------------------------------- reading

TEST(LaneReading, PeekShowsAllPacketsAndLeavesThem) {
  LanePair pair;
  pair.start();
  for (int i = 1; i < 20; ++i) pair.a.put(i * 50);
  pair.settle();
  pair.b.get(70);
  const std::size_t unread = pair.b.lane.unread();
  EXPECT_EQ(pair.b.get(unread + 100, true), unread);
  EXPECT_EQ(pair.b.get(333, true), 333u);
  EXPECT_EQ(pair.b.lane.unread(), unread);
  EXPECT_EQ(pair.b.wire.sent(PacketType::kAck), 0u);
  pair.b.lane.set_aside();
  EXPECT_EQ(pair.b.wire.sent(PacketType::kAck), 1u);
  pair.a.put(100);
  pair.settle();
  EXPECT_EQ(pair.b.get(unread + 200, true), unread + 100);
  EXPECT_EQ(pair.b.get(10), 10u);
  EXPECT_EQ(pair.b.get(unread + 200, true), unread + 90);
  pair.drain();
  pair.expect_all_read();
}

TEST(LaneReading, DiscardDropsAcrossPackets) {
  LanePair pair;
  pair.start();
  for (int i = 0; i < 10; ++i) pair.a.put(100);
  pair.settle();
  EXPECT_EQ(pair.b.drop(250), 250u);
  EXPECT_EQ(pair.b.get(100), 100u);
  pair.b.lane.set_aside();
  for (int i = 0; i < 3; ++i) pair.a.put(100);
  pair.settle();
  EXPECT_EQ(pair.b.drop(700), 700u);
  EXPECT_EQ(pair.b.get(10), 10u);
  EXPECT_EQ(pair.b.drop(10'000), 240u);
  EXPECT_EQ(pair.b.drop(10'000), 0u);
  pair.expect_all_read();
}

TEST(LaneReading, SetAsideLetsThePeerGoOn) {
  LanePair pair(window(2, 1));
  pair.start();
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(pair.a.put(kChunkBytes - i), kChunkBytes - i);
    pair.settle();
    if (i % 7 == 0) pair.b.get(1000);
    pair.b.lane.set_aside();
    pair.settle();
  }
  EXPECT_EQ(pair.b.lane.unread(), pair.a.written - pair.b.read);
  pair.drain();
  pair.expect_all_read();
  pair.b.lane.set_aside();
  EXPECT_EQ(pair.b.lane.unread(), 0u);
}

TEST(LaneReading, DeafEndDropsWhatComes) {
  LanePair pair(window(2, 1));
  pair.start();
  pair.a.put(1000);
  pair.settle();
  pair.b.lane.set_aside();
  pair.a.put(1000);
  pair.settle();
  pair.b.lane.deafen();
  EXPECT_EQ(pair.b.lane.unread(), 0u);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(pair.a.put(kChunkBytes), kChunkBytes);
    pair.settle();
  }
  EXPECT_EQ(pair.b.lane.unread(), 0u);
  pair.a.lane.finish(false);
  pair.settle();
  EXPECT_EQ(pair.a.lane.sending(), State::kEnded);
}

// ---------------------------------------------------------------------------- changes

TEST(LaneChanges, TellWhatHasChanged) {
  LanePair pair(window(1, 1));
  unsigned changes = 0;
  const auto next = [&](LaneSide& from, LaneSide& to) {
    changes = 0;
    from.wire.deliver();
    to.wire.take_in(to.lane, &changes);
    return changes;
  };
  pair.a.lane.greet(LanePair::kTokenA);
  pair.b.lane.greet(LanePair::kTokenB);
  EXPECT_NE(next(pair.a, pair.b) & Lane::kState, 0u);
  EXPECT_NE(next(pair.b, pair.a) & Lane::kState, 0u);
  EXPECT_NE(next(pair.a, pair.b) & Lane::kState, 0u);  // TRUST
  EXPECT_NE(next(pair.b, pair.a) & Lane::kState, 0u);
  pair.a.lane.start(0);
  EXPECT_NE(next(pair.a, pair.b) & Lane::kState, 0u);
  pair.a.put(10);
  EXPECT_NE(next(pair.a, pair.b) & Lane::kReadable, 0u);
  pair.b.get(10);
  EXPECT_NE(next(pair.b, pair.a) & Lane::kWritable, 0u);  // ACK
  pair.a.lane.finish(false);
  EXPECT_EQ(next(pair.a, pair.b) & (Lane::kReadable | Lane::kState),
            Lane::kReadable | Lane::kState);
  EXPECT_NE(next(pair.b, pair.a) & Lane::kState, 0u);  // FINACK
  pair.b.lane.finish(false);
  EXPECT_NE(next(pair.b, pair.a) & Lane::kReadable, 0u);
  EXPECT_EQ(pair.a.lane.cut(), unsigned{Lane::kReadable | Lane::kWritable | Lane::kState});
}

// ---------------------------------------------------------------------------- cut

TEST(LaneCut, InEveryStateLeavesWhatHasComeReadable) {
  for (int state = 0; state < 9; ++state) {
    LanePair pair(window(2, 2));
    if (state >= 1) pair.a.lane.greet(LanePair::kTokenA);
    if (state >= 2) pair.b.lane.greet(LanePair::kTokenB);
    pair.pass();
    if (state >= 3) pair.a.lane.start(0);
    if (state >= 4) pair.b.lane.start(0);
    pair.pass();
    if (state >= 5) {
      for (int i = 0; i < 10; ++i) pair.a.put(100);
      pair.b.put(100);
    }
    if (state >= 6) pair.pass();
    if (state >= 7) pair.a.lane.finish(true);
    if (state >= 8) pair.b.lane.ask_to_leave();
    for (LaneSide* const side : {&pair.a, &pair.b}) {
      side->wire.break_down();
      side->lane.cut();
      EXPECT_TRUE(side->lane.broken() && side->lane.over());
      EXPECT_EQ(side->put(100), 0u);
      EXPECT_FALSE(side->put_direct(100));
      side->lane.start(0);
      side->lane.ask_to_leave();
      side->lane.finish(true);
      side->lane.flush();
      side->lane.turn();
      side->lane.set_aside();
      const std::size_t unread = side->lane.unread();
      EXPECT_EQ(side->get(10'000, true), unread);
      EXPECT_EQ(side->get(10'000), unread);
      side->lane.deafen();
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
  while (pair.a.wire.deliver()) {
  }
  pair.b.wire.break_down();
  pair.b.put(10);
  EXPECT_TRUE(pair.b.lane.broken());
  while (pair.b.wire.take_in(pair.b.lane)) {
  }
  EXPECT_EQ(pair.b.lane.receiving(), State::kEnded);
  EXPECT_TRUE(pair.b.lane.peer_closed());
  EXPECT_EQ(pair.b.get(2000), 1000u);
}

// ---------------------------------------------------------------------------- hostile peers

// A packet of a peer that does as it likes, and where the lane is when it comes.
enum class At { kBeforeHello, kGreeted, kUp, kFinished };

class Hostile : public ::testing::Test {
 protected:
  void bring(At at) {
    if (at == At::kBeforeHello) {
      pair_.a.lane.greet(LanePair::kTokenA);
      return;
    }
    pair_.greet();
    if (at == At::kGreeted) return;
    pair_.a.lane.start(0);
    pair_.b.lane.start(0);
    pair_.settle();
    if (at == At::kUp) return;
    pair_.b.lane.finish(false);
    pair_.settle();
  }
  bool take(std::uint32_t immediate, const void* body = nullptr, std::uint32_t bytes = 0) {
    if (!pair_.a.wire.inject(immediate, body, bytes)) return false;
    unsigned changes = 0;
    pair_.a.wire.take_in(pair_.a.lane, &changes);
    if (pair_.a.lane.broken() && !cut_) {
      EXPECT_NE(changes & Lane::kState, 0u);
      cut_ = true;
    }
    return true;
  }
  void expect_cut(At at, std::uint32_t immediate, const void* body = nullptr,
                  std::uint32_t bytes = 0) {
    bring(at);
    take(immediate, body, bytes);
    EXPECT_TRUE(pair_.a.lane.broken());
    EXPECT_EQ(pair_.a.lane.unread(), 0u);
  }

  Hello hello_{htobe32(kProtocolVersion), htobe32(8), {}};
  std::byte bytes_[kChunkBytes] = {};
  LanePair pair_{window(4, 2)};
  bool cut_ = false;
};

#define CUTS(name, ...) \
  TEST_F(Hostile, name) { expect_cut(__VA_ARGS__); }

CUTS(HelloTooShort, At::kBeforeHello, immediate(PacketType::kWakeup, 0), &hello_, 23)
CUTS(HelloTooLong, At::kBeforeHello, immediate(PacketType::kWakeup, 0), bytes_, 25)
CUTS(HelloWithoutBody, At::kBeforeHello, immediate(PacketType::kWakeup, 0))
CUTS(HelloOfAnotherVersion, At::kBeforeHello, immediate(PacketType::kWakeup, 0), bytes_, 24)
CUTS(HelloWithCredits, At::kBeforeHello, immediate(PacketType::kWakeup, 1), &hello_, 24)
CUTS(SecondHello, At::kGreeted, immediate(PacketType::kWakeup, 0), &hello_, 24)
CUTS(StartBeforeHello, At::kBeforeHello, immediate(PacketType::kStart, 0), bytes_, 8)
CUTS(DataBeforeHello, At::kBeforeHello, immediate(PacketType::kData, 0), bytes_, 8)
CUTS(AckBeforeHello, At::kBeforeHello, immediate(PacketType::kAck, 1))
CUTS(FinBeforeHello, At::kBeforeHello, immediate(PacketType::kFin, 0))
CUTS(LeaveBeforeHello, At::kBeforeHello, immediate(PacketType::kLeave, 0))
CUTS(DataBeforeStart, At::kGreeted, immediate(PacketType::kData, 0), bytes_, 8)
CUTS(StartTooShort, At::kGreeted, immediate(PacketType::kStart, 0), bytes_, 7)
CUTS(StartTooLong, At::kGreeted, immediate(PacketType::kStart, 0), bytes_, 9)
CUTS(SecondStart, At::kUp, immediate(PacketType::kStart, 0), bytes_, 8)
CUTS(StartAfterFin, At::kFinished, immediate(PacketType::kStart, 0), bytes_, 8)
CUTS(DataAfterFin, At::kFinished, immediate(PacketType::kData, 0), bytes_, 8)
CUTS(SecondFin, At::kFinished, immediate(PacketType::kFin, 0))
CUTS(FinAckWithoutFin, At::kUp, immediate(PacketType::kFinAck, 0))
CUTS(DataWithoutBytes, At::kUp, immediate(PacketType::kData, 0))
CUTS(AckWithBody, At::kUp, immediate(PacketType::kAck, 0), bytes_, 1)
CUTS(FinWithBody, At::kUp, immediate(PacketType::kFin, 0), bytes_, kChunkBytes)
CUTS(LeaveWithBody, At::kUp, immediate(PacketType::kLeave, 0), bytes_, 24)
CUTS(TypeZero, At::kUp, 0)
CUTS(UnknownType, At::kUp, 0xf)
CUTS(UnknownFlags, At::kUp, immediate(PacketType::kFin, 0, 0x80))
CUTS(BitsThatMeanNothing, At::kUp, immediate(PacketType::kAck, 0) | 0x100)
CUTS(CreditsForNothing, At::kUp, immediate(PacketType::kAck, 1))
CUTS(AllCreditsThereAre, At::kUp, immediate(PacketType::kAck, 0xffff))

#undef CUTS

// Whoever may be there: nothing of it counts, and nothing of it is kept.
TEST(LaneTrust, NothingStartsBeforeIt) {
  FakeWire wire(places_for({})), other(places_for({}));
  wire.connect(other);
  other.connect(wire);
  Lane lane(wire, {});
  lane.greet(LanePair::kTokenA);
  const Hello hello{htobe32(kProtocolVersion), htobe32(8), {}};
  const Start start{0};
  ASSERT_TRUE(wire.inject(immediate(PacketType::kWakeup, 0), &hello, sizeof hello));
  while (wire.take_in(lane)) continue;
  EXPECT_FALSE(lane.broken() || lane.greeted());
  ASSERT_TRUE(wire.inject(immediate(PacketType::kStart, 0), &start, sizeof start));
  while (wire.take_in(lane)) continue;
  EXPECT_TRUE(lane.broken());
  EXPECT_FALSE(lane.started());
  lane.trust();  // comes too late to make a loss of it
  EXPECT_FALSE(lane.lost() || lane.may_start());
}

TEST_F(Hostile, WindowOutOfBounds) {
  for (const std::uint32_t w : {0u, kMostWindow + 1, 0xffffffffu}) {
    LanePair pair;
    hello_.window = htobe32(w);
    pair.a.wire.inject(immediate(PacketType::kWakeup, 0), &hello_, sizeof hello_);
    pair.a.wire.take_in(pair.a.lane);
    EXPECT_TRUE(pair.a.lane.broken());
  }
}

TEST_F(Hostile, SecondFinAckOrLeave) {
  bring(At::kUp);
  EXPECT_TRUE(take(immediate(PacketType::kLeave, 0)));
  EXPECT_FALSE(pair_.a.lane.broken());
  EXPECT_TRUE(take(immediate(PacketType::kFinAck, 0)));
  EXPECT_FALSE(pair_.a.lane.broken());
  EXPECT_TRUE(take(immediate(PacketType::kLeave, 0)));
  EXPECT_TRUE(pair_.a.lane.broken());
}

TEST_F(Hostile, FinAckBeforeTheFinThatWaits) {
  bring(At::kUp);
  for (int i = 0; i < 5; ++i) pair_.a.put(10);
  pair_.a.lane.finish(false);
  EXPECT_EQ(pair_.a.wire.sent(PacketType::kFin), 0u);
  take(immediate(PacketType::kFinAck, 0));
  EXPECT_TRUE(pair_.a.lane.broken());
}

TEST_F(Hostile, MoreDataThanTheWindow) {
  bring(At::kUp);
  for (int i = 0; i < 4; ++i) take(immediate(PacketType::kData, 0), bytes_, 8);
  EXPECT_FALSE(pair_.a.lane.broken());
  take(immediate(PacketType::kData, 0), bytes_, 8);
  EXPECT_TRUE(pair_.a.lane.broken());
  EXPECT_EQ(pair_.a.lane.unread(), 32u);
}

TEST_F(Hostile, CreditsOneByOneBeyondTheWindow) {
  bring(At::kUp);
  pair_.a.put(10);
  pair_.a.put(10);
  for (int i = 0; i < 2; ++i) take(immediate(PacketType::kAck, 1));
  EXPECT_FALSE(pair_.a.lane.broken());
  take(immediate(PacketType::kAck, 1));
  EXPECT_TRUE(pair_.a.lane.broken());
}

TEST_F(Hostile, NothingCountsAfterTheCut) {
  bring(At::kUp);
  take(immediate(PacketType::kData, 0), bytes_, 8);
  take(0);
  ASSERT_TRUE(pair_.a.lane.broken());
  take(immediate(PacketType::kData, 0), bytes_, 8);
  take(immediate(PacketType::kFin, 0, kFlagCloses));
  EXPECT_EQ(pair_.a.lane.unread(), 8u);
  EXPECT_EQ(pair_.a.lane.receiving(), State::kUp);
  EXPECT_FALSE(pair_.a.lane.peer_closed());
}

// A peer that is asked to leave and sends on and on must not fill the memory.
TEST_F(Hostile, EndlessDataForOneWhoLeaves) {
  bring(At::kUp);
  pair_.a.lane.ask_to_leave();
  std::uint64_t sent = 0;
  while (!pair_.a.lane.broken() && sent < 1ull << 30 &&
         take(immediate(PacketType::kData, 0), bytes_, kChunkBytes)) {
    sent += kChunkBytes;
    while (pair_.a.wire.swallow() || pair_.a.wire.complete()) {
    }
  }
  EXPECT_TRUE(pair_.a.lane.broken());
  EXPECT_LT(pair_.a.lane.unread(), 256u << 20);
}

}  // namespace
}  // namespace viaduct::sovia
