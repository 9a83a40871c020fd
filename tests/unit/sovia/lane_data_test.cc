// How data goes over lanes: credits, combining, writing from own memory, reading.
#include "sovia/lane/lane.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "tests/unit/sovia/lane_pair.h"

namespace viaduct::sovia {
namespace {

using State = Lane::State;

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
    EXPECT_EQ(pair.a.transport.sent(PacketType::kData), kPackets);
    EXPECT_EQ(pair.b.transport.sent(PacketType::kAck), kPackets / options.ack_threshold);
    EXPECT_EQ(pair.b.lane.stalls().acks, kPackets / options.ack_threshold);
    EXPECT_EQ(pair.a.lane.stalls().packets, kPackets);
    EXPECT_EQ(pair.a.lane.stalls().credits, 0u);
  }
}

// Data that was copied waits for nothing while there are credits; what others wait for completes at once.
TEST(LaneCredits, AreWaitedForByALaneThatHasUsedHalfOfThem) {
  LanePair pair(window(32, 16, false));
  pair.start();
  for (std::uint32_t i = 0; i < 32; ++i) {
    ASSERT_EQ(pair.a.put(64, false), 64u);
    EXPECT_EQ(pair.a.transport.is_patient(), i < 16) << i;
  }
  pair.settle();
  ASSERT_EQ(pair.b.get(32 * 64), 32u * 64);
  EXPECT_FALSE(pair.b.transport.is_patient()) << "an ACK";
  pair.settle();
  ASSERT_EQ(pair.a.put(64, false), 64u);
  EXPECT_TRUE(pair.a.transport.is_patient());
}

TEST(LaneCredits, PingPongNeedsNoAck) {
  LanePair pair;
  pair.start();
  for (int i = 0; i < 1000; ++i) {
    pair.a.put(4);
    pair.settle();
    ASSERT_EQ(pair.b.get(100), 4u);
    pair.b.put(4);
    // The credit for the read packet comes after the answer, so the next one carries it.
    EXPECT_EQ(credits_of(pair.b.transport.last_immediate()), i == 0 ? 0u : 1u);
    pair.settle();
    ASSERT_EQ(pair.a.get(100), 4u);
  }
  EXPECT_EQ(pair.a.transport.sent(PacketType::kAck), 0u);
  EXPECT_EQ(pair.b.transport.sent(PacketType::kAck), 0u);
}

TEST(LaneCredits, WindowIsThePeersAndBoundsWhatIsOnItsWay) {
  for (const auto& [w_a, w_b] : {std::pair{1u, 256u}, {256u, 1u}, {3u, 7u}, {32u, 5u}}) {
    LanePair pair(window(w_a, 1), window(w_b, w_b));
    pair.start();
    for (int i = 0; i < 1000; ++i) {
      pair.a.put(5000);
      pair.b.put(5000);
      pair.settle();
    }
    EXPECT_EQ(pair.a.transport.sent(PacketType::kData), w_b);
    EXPECT_EQ(pair.b.transport.sent(PacketType::kData), w_a);
    pair.drain();
    pair.expect_all_read();
  }
}

TEST(LaneCredits, ZeroWindowTakesWhatThereIsRoomFor) {
  for (const LaneOptions& options : {window(1, 1), window(32, 16), window(256, 100)}) {
    LanePair pair(options);
    pair.start();
    EXPECT_TRUE(pair.a.lane.tx.has_room());
    std::size_t taken;
    do {
      taken = pair.a.put(100'000);
      pair.settle();
    } while (taken == 100'000);
    EXPECT_EQ(pair.a.put(1), 0u);
    EXPECT_FALSE(pair.a.lane.tx.has_room());
    EXPECT_EQ(pair.a.transport.sent(PacketType::kData), options.window);
    EXPECT_EQ(pair.b.lane.rx.unread(), pair.a.transport.data_bytes());
    EXPECT_GT(pair.a.written, pair.b.lane.rx.unread());
    EXPECT_EQ(pair.a.lane.ring.unsent(), pair.a.written - pair.b.lane.rx.unread());
    EXPECT_GE(pair.a.lane.stalls().credits, 1u);
    EXPECT_TRUE(pair.a.lane.tx.flush());
    pair.drain();
    EXPECT_TRUE(pair.a.lane.tx.has_room());
    EXPECT_EQ(pair.a.lane.ring.unsent(), 0u);
    pair.expect_all_read();
  }
}

TEST(LaneCredits, BothEndsSendMoreThanTheWindowBeforeEitherReads) {
  LanePair pair(window(4, 4), window(8, 2));
  pair.start();
  while (pair.a.put(50'000) != 0) pair.settle();
  while (pair.b.put(50'000) != 0) pair.settle();
  EXPECT_FALSE(pair.a.lane.tx.has_room() || pair.b.lane.tx.has_room());
  pair.drain();
  pair.expect_all_read();
  pair.a.lane.finish(false);
  pair.b.lane.finish(false);
  pair.settle();
  EXPECT_TRUE(pair.a.lane.control.over() && pair.b.lane.control.over());
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
    while (pair.a.transport.complete()) pair.a.lane.poll();
    if (pair.b.transport.sent(PacketType::kAck) == acks) break;
    acks = pair.b.transport.sent(PacketType::kAck);
  }
  ASSERT_LT(acks, 100u) << "there is no end of places";
  while (pair.a.put(kChunkBytes) != 0) {
    pair.pass();
    while (pair.a.transport.complete()) pair.a.lane.poll();
    pair.b.get(kChunkBytes);
  }
  EXPECT_TRUE(pair.b.lane.wants_poll());
  pair.drain();
  EXPECT_FALSE(pair.b.lane.wants_poll());
  pair.expect_all_read();
  EXPECT_TRUE(pair.a.lane.tx.has_room());
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
    while (pair.a.transport.complete()) pair.a.lane.poll();
  }
  pair.a.lane.finish(false);
  pair.b.lane.ask_to_leave();
  pair.b.lane.finish(false);
  pair.settle();
  EXPECT_TRUE(pair.a.lane.control.over() && pair.b.lane.control.over());
  EXPECT_FALSE(pair.a.lane.control.broken() || pair.b.lane.control.broken());
}

// ---------------------------------------------------------------------------- the window's growth

LaneOptions growing(std::uint32_t first, std::uint32_t w, std::uint32_t t) {
  LaneOptions options = window(w, t);
  options.first_window = first;
  return options;
}

// A connection whose reader keeps up has no more receives than it began with.
TEST(LaneWindow, StaysSmallWhileFewPacketsAreOnTheirWay) {
  LanePair pair(growing(8, 32, 16));
  pair.start();
  const std::uint32_t before = pair.b.transport.receives_used();
  EXPECT_LT(before, 30u);
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(pair.a.put(100), 100u);
    pair.settle();
    ASSERT_EQ(pair.b.get(100), 100u);
    ASSERT_EQ(pair.b.put(10), 10u);
    pair.settle();
    ASSERT_EQ(pair.a.get(10), 10u);
  }
  EXPECT_EQ(pair.b.transport.receives_used(), before);
  EXPECT_EQ(pair.b.transport.sent(PacketType::kGrow), 0u);
}

TEST(LaneWindow, GrowsToItsSizeWhenItIsUsedUp) {
  LanePair pair(growing(8, 32, 16));
  pair.start();
  for (int i = 0; i < 200; ++i) {
    pair.a.put(kChunkBytes);
    pair.settle();
  }
  EXPECT_EQ(pair.b.transport.sent(PacketType::kGrow), 2u);
  EXPECT_EQ(pair.a.transport.sent(PacketType::kData), 32u) << "as many packets as the window has";
  EXPECT_EQ(pair.b.lane.rx.unread(), 31u * kChunkBytes) << "two of them share what the first one has no room for";
  pair.drain();
  pair.expect_all_read();
}

// One end of 32 credits with an ACK for each, of the other one with few ACKs.
TEST(LaneWindow, LeavesPlacesForThePeersAcks) {
  LanePair pair(growing(8, 32, 16), window(32, 1));
  pair.start();
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 40; ++i) {
      pair.a.put(10);
      pair.b.put(10);
    }
    pair.settle();
    pair.drain();
  }
  EXPECT_FALSE(pair.a.lane.control.broken());
  EXPECT_FALSE(pair.b.lane.control.broken());
}

// Their sends complete late, while the peer, which has them already, sends more.
TEST(LaneAcks, WaitForAPlaceWhereAllAreOnTheirWay) {
  constexpr int kRounds = 100;
  LanePair pair(window(4, 1));
  pair.start();
  pair.settle();
  for (int round = 0; round < kRounds; ++round) {
    pair.b.put(5);
    while (pair.b.transport.deliver()) pair.a.transport.take_in(pair.a.lane);
    while (pair.b.transport.complete()) continue;
    pair.a.get(5);
    pair.a.lane.poll();
    while (pair.a.transport.deliver()) pair.b.transport.take_in(pair.b.lane);
  }
  EXPECT_LT(pair.a.transport.sent(PacketType::kAck), std::uint32_t{kRounds});
  pair.settle();
  pair.drain();
  EXPECT_EQ(pair.a.read, 5u * kRounds);
  EXPECT_FALSE(pair.a.lane.control.broken() || pair.b.lane.control.broken());
}

// For the observer of a killed process.
TEST(LaneHolding, IsToldToTheWireWhileDataWaits) {
  LanePair pair(window(1, 1));
  pair.start();
  ASSERT_EQ(pair.a.put(64), 64u);
  pair.settle();
  EXPECT_FALSE(pair.a.transport.holds());
  ASSERT_EQ(pair.a.put(64), 64u);
  EXPECT_TRUE(pair.a.transport.holds()) << "there is no credit";
  ASSERT_EQ(pair.a.put(kChunkBytes), kChunkBytes);
  EXPECT_TRUE(pair.a.transport.holds());
  pair.drain();
  EXPECT_FALSE(pair.a.transport.holds());
  EXPECT_EQ(pair.a.put(10, true), 10u);
  EXPECT_FALSE(pair.a.transport.holds());
  EXPECT_EQ(pair.a.put(10, true), 10u);
  EXPECT_TRUE(pair.a.transport.holds()) << "small data waits for more";
  pair.drain();
  EXPECT_FALSE(pair.a.transport.holds());
}

// ---------------------------------------------------------------------------- combining

TEST(LaneCombining, SmallWritesJoinWhileSomethingIsOnItsWay) {
  LanePair pair;
  pair.start();
  EXPECT_EQ(pair.a.put(10, true), 10u);
  EXPECT_EQ(pair.a.transport.sent(PacketType::kData), 1u) << "nothing was on its way";
  EXPECT_FALSE(pair.a.lane.tx.holds());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(pair.a.put(10, true), 10u);
  EXPECT_EQ(pair.a.transport.sent(PacketType::kData), 1u);
  EXPECT_TRUE(pair.a.lane.tx.holds());
  EXPECT_EQ(pair.a.lane.stalls().combined, 19u);
  pair.pass();
  pair.a.lane.poll();
  EXPECT_TRUE(pair.a.lane.tx.holds()) << "it has arrived, but not completed";
  pair.a.transport.complete();
  EXPECT_NE(pair.a.lane.poll() & LaneChange::kWritable, 0u);
  EXPECT_FALSE(pair.a.lane.tx.holds());
  EXPECT_EQ(pair.a.transport.sent(PacketType::kData), 2u);
  pair.drain();
  pair.expect_all_read();
}

TEST(LaneCombining, IsLeftOutWhenItIsOff) {
  for (const bool by_option : {false, true}) {
    LanePair pair(window(32, 16, !by_option));
    pair.start();
    for (int i = 0; i < 20; ++i) pair.a.put(10, by_option);
    EXPECT_EQ(pair.a.transport.sent(PacketType::kData), 20u);
    EXPECT_FALSE(pair.a.lane.tx.holds());
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
  EXPECT_EQ(pair.a.transport.sent(PacketType::kData), 2u);
  pair.a.put(10, true);
  EXPECT_FALSE(pair.a.lane.tx.flush());
  EXPECT_EQ(pair.a.transport.sent(PacketType::kData), 3u);
  EXPECT_FALSE(pair.a.lane.tx.holds());
  for (std::uint32_t i = 0; i < kChunkBytes / kSmallBytes; ++i) pair.a.put(kSmallBytes, true);
  EXPECT_EQ(pair.a.transport.sent(PacketType::kData), 4u);
  EXPECT_EQ(pair.a.transport.data_bytes(), pair.a.written);
  EXPECT_FALSE(pair.a.lane.tx.holds());
  pair.a.put(10, true);
  pair.a.lane.finish(false);
  EXPECT_EQ(pair.a.transport.data_bytes(), pair.a.written);
  pair.drain();
  pair.expect_all_read();
}

TEST(LaneCombining, WhatWaitsForCreditsJoinsAndGoesWithThem) {
  LanePair pair(window(2, 1));
  pair.start();
  for (int i = 0; i < 2; ++i) pair.a.put(5000, false);
  for (int i = 0; i < 50; ++i) pair.a.put(100, false);
  pair.settle();
  EXPECT_EQ(pair.a.transport.sent(PacketType::kData), 2u);
  EXPECT_FALSE(pair.a.lane.tx.holds()) << "it does not wait for more";
  pair.b.get(5000);
  pair.settle();
  EXPECT_EQ(pair.a.transport.sent(PacketType::kData), 3u);
  EXPECT_EQ(pair.b.lane.rx.unread(), 10'000u);
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
  ASSERT_TRUE(pair.a.lane.tx.write_direct(data, sizeof data, 0, ticket));
  EXPECT_EQ(pair.a.lane.ring.unsent(), 110u);
  pair.pass();
  EXPECT_FALSE(pair.a.lane.ring.has_completed(ticket));
  pair.a.transport.complete();
  EXPECT_FALSE(pair.a.lane.ring.has_completed(ticket));
  pair.a.transport.complete();
  EXPECT_TRUE(pair.a.lane.ring.has_completed(ticket));
}

TEST(LaneDirect, IsRefusedWithoutCreditsAndBehindDataThatWaits) {
  LanePair pair(window(1, 1));
  pair.start_with_a_byte();
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
  const std::size_t unread = pair.b.lane.rx.unread();
  EXPECT_EQ(pair.b.get(unread + 100, true), unread);
  EXPECT_EQ(pair.b.get(333, true), 333u);
  EXPECT_EQ(pair.b.lane.rx.unread(), unread);
  EXPECT_EQ(pair.b.transport.sent(PacketType::kAck), 0u);
  pair.a.put(100);
  pair.settle();
  EXPECT_EQ(pair.b.get(unread + 200, true), unread + 100);
  EXPECT_EQ(pair.b.get(10), 10u);
  EXPECT_EQ(pair.b.get(unread + 200, true), unread + 90);
  pair.drain();
  pair.expect_all_read();
}

TEST(LaneReading, SmallPacketsThatNobodyReadsAreNotBoundByTheWindow) {
  for (const LaneOptions& options : {window(2, 1), window(32, 16), window(256, 100)}) {
    LanePair pair(options);
    pair.start();
    for (int i = 0; i < 600; ++i) {
      pair.a.put(50);
      pair.settle();
    }
    EXPECT_EQ(pair.b.lane.rx.unread(), 30'000u);
    EXPECT_EQ(pair.b.get(60'000, true), 30'000u);
    EXPECT_EQ(pair.b.get(777), 777u);
    pair.a.put(50);
    pair.settle();
    pair.drain();
    pair.expect_all_read();
  }
}

TEST(LaneReading, DiscardDropsAcrossPackets) {
  LanePair pair;
  pair.start();
  for (int i = 0; i < 10; ++i) pair.a.put(100);
  pair.settle();
  EXPECT_EQ(pair.b.drop(250), 250u);
  EXPECT_EQ(pair.b.get(100), 100u);
  for (int i = 0; i < 3; ++i) pair.a.put(100);
  pair.settle();
  EXPECT_EQ(pair.b.drop(700), 700u);
  EXPECT_EQ(pair.b.get(10), 10u);
  EXPECT_EQ(pair.b.drop(10'000), 240u);
  EXPECT_EQ(pair.b.drop(10'000), 0u);
  pair.expect_all_read();
}

TEST(LaneReading, DeafEndDropsWhatComes) {
  LanePair pair(window(2, 1));
  pair.start();
  pair.a.put(1000);
  pair.settle();
  pair.b.lane.rx.close_reading();
  EXPECT_EQ(pair.b.lane.rx.unread(), 0u);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(pair.a.put(kChunkBytes), kChunkBytes);
    pair.settle();
  }
  EXPECT_EQ(pair.b.lane.rx.unread(), 0u);
  pair.a.lane.finish(false);
  pair.settle();
  EXPECT_EQ(pair.a.lane.control.sending(), State::kEnded);
}

// If the lane broke with both on their way, the peer could not tell new bytes from old ones.
TEST(LaneData, FinOfALaneThatIsLeftWaitsUntilTheFirstPacketHasArrived) {
  for (const bool peer_leaves : {false, true}) {
    LanePair pair{window(4, 2)};
    pair.start();
    (peer_leaves ? pair.b : pair.a).lane.ask_to_leave();
    pair.pass();
    pair.a.put(10);
    pair.a.lane.finish(false);
    pair.pass();
    pair.a.lane.poll();
    EXPECT_EQ(pair.a.transport.sent(PacketType::kFin), 0u) << peer_leaves;
    EXPECT_FALSE(pair.a.lane.control.has_finished());
    EXPECT_EQ(pair.a.transport.sent(PacketType::kLeave) + pair.a.transport.sent(PacketType::kAck), 1u)
        << "which asks for the acknowledgement";
    pair.settle();
    EXPECT_EQ(pair.a.transport.sent(PacketType::kFin), 1u) << peer_leaves;
    EXPECT_EQ(pair.b.get(10), 10u);
  }
}

TEST(LaneData, LeaveTellsForHowLongTheKernelIsFaster) {
  LanePair pair{window(4, 2)};
  pair.start();
  EXPECT_FALSE(pair.b.lane.control.slower_for_ms());
  pair.a.lane.finish(false);
  pair.a.lane.ask_to_leave(8'000);
  pair.b.lane.finish(false);
  pair.settle();
  EXPECT_EQ(pair.b.lane.control.slower_for_ms(), 8'000u);
  EXPECT_TRUE(pair.b.lane.control.peer_leaves());
  EXPECT_TRUE(pair.a.lane.control.over() && pair.b.lane.control.over());
  EXPECT_FALSE(pair.a.lane.control.broken() || pair.b.lane.control.broken());
}

TEST(LaneData, LeaveForOtherReasonsSaysNothingOfTheKernel) {
  LanePair pair{window(4, 2)};
  pair.greet();
  pair.a.lane.ask_to_leave();
  pair.settle();
  EXPECT_TRUE(pair.b.lane.control.peer_leaves());
  EXPECT_FALSE(pair.b.lane.control.slower_for_ms());
}

}  // namespace
}  // namespace viaduct::sovia
