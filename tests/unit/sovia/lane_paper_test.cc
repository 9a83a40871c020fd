// Lanes that do what the papers describe and nothing else: each switch by itself.
#include <gtest/gtest.h>

#include "sovia/lane/lane.h"
#include "tests/unit/sovia/lane_pair.h"

namespace viaduct::sovia {
namespace {

LaneOptions strict(std::uint32_t w, std::uint32_t t) {
  LaneOptions options = window(w, t);
  options.strict_window = true;
  return options;
}

LaneOptions apart(std::uint32_t w, std::uint32_t t) {
  LaneOptions options = window(w, t);
  options.join = false;
  return options;
}

LaneOptions by_timer(std::uint32_t w = 32, std::uint32_t t = 16) {
  LaneOptions options = strict(w, t);
  options.join = false;
  options.timer = true;
  return options;
}

// ---------------------------------------------------------------------------- the strict window

TEST(LaneStrictWindow, TakesNothingWithoutACredit) {
  for (const bool is_strict : {false, true}) {
    LanePair pair(is_strict ? strict(1, 1) : window(1, 1));
    pair.start();
    EXPECT_EQ(pair.a.put(64), 64u);
    pair.settle();
    EXPECT_EQ(pair.a.lane.tx.has_room(), !is_strict);
    EXPECT_EQ(pair.a.put(64), is_strict ? 0u : 64u);
    EXPECT_EQ(pair.a.lane.tx.awaits_credits(), !is_strict);
    EXPECT_EQ(pair.a.lane.stalls().credits, 1u);
    EXPECT_EQ(pair.a.lane.tx.take_lack(), is_strict);
    pair.drain();
    EXPECT_TRUE(pair.a.lane.tx.has_room());
    EXPECT_EQ(pair.a.put(64), 64u);
    pair.drain();
    pair.expect_all_read();
  }
}

TEST(LaneStrictWindow, TakesAsManyPacketsAsThereAreCredits) {
  LanePair pair(strict(3, 1));
  pair.start();
  EXPECT_EQ(pair.a.put(5 * kChunkBytes), 3u * kChunkBytes - sizeof(First));
  pair.settle();
  EXPECT_EQ(pair.a.transport.sent(PacketType::kData), 3u);
  pair.drain();
  pair.expect_all_read();
}

TEST(LaneStrictWindow, AcknowledgesEachPacketThatIsRead) {
  for (const bool is_strict : {false, true}) {
    LanePair pair(is_strict ? strict(32, 1) : window(32, 1));
    pair.start();
    for (int i = 0; i < 8; ++i) pair.a.put(64);
    pair.settle();
    EXPECT_EQ(pair.b.get(8 * 64), 8u * 64);
    EXPECT_EQ(pair.b.transport.sent(PacketType::kAck), is_strict ? 8u : 2u);
  }
}

TEST(LaneStrictWindow, CountsWhatIsUnread) {
  for (const bool is_strict : {false, true}) {
    LanePair pair(is_strict ? strict(4, 1) : window(4, 1));
    pair.start();
    for (int i = 0; i < 20; ++i) {
      pair.a.put(64);
      pair.settle();
    }
    if (is_strict) {
      EXPECT_EQ(pair.a.transport.sent(PacketType::kData), 4u);
    } else {
      EXPECT_GT(pair.a.transport.sent(PacketType::kData), 4u);
    }
    pair.drain();
    pair.expect_all_read();
  }
}

// ---------------------------------------------------------------------------- joining

TEST(LaneJoining, IsOfSendsThatWaitForCredits) {
  for (const bool joins : {true, false}) {
    LanePair pair(joins ? window(1, 1) : apart(1, 1));
    pair.start();
    for (int i = 0; i < 4; ++i) EXPECT_EQ(pair.a.put(64), 64u);
    pair.drain();
    EXPECT_EQ(pair.a.transport.sent(PacketType::kData), joins ? 2u : 4u);
    EXPECT_EQ(pair.a.lane.stalls().combined, joins ? 2u : 0u);
    pair.expect_all_read();
  }
}

TEST(LaneJoining, IsDoneForWhoAsksForIt) {
  LanePair pair(apart(8, 4));
  pair.start();
  pair.a.lane.tx.cork(true);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(pair.a.put(64), 64u);
  pair.a.lane.tx.push();
  pair.drain();
  EXPECT_EQ(pair.a.transport.sent(PacketType::kData), 1u);
  pair.expect_all_read();
}

// ---------------------------------------------------------------------------- the timer

TEST(LaneTimer, HoldsSmallSendsWhateverIsOnItsWay) {
  for (const bool timer : {false, true}) {
    LanePair pair(timer ? by_timer() : window(32, 16));
    pair.start();
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(pair.a.put(64, true), 64u);
      pair.settle();
    }
    EXPECT_EQ(pair.a.transport.sent(PacketType::kData), timer ? 0u : 10u);
    EXPECT_EQ(pair.a.lane.tx.holds_for_timer(), timer);
    pair.a.lane.tx.flush();
    EXPECT_FALSE(pair.a.lane.tx.holds());
    EXPECT_EQ(pair.a.transport.sent(PacketType::kData), timer ? 1u : 10u);
    pair.drain();
    pair.expect_all_read();
  }
}

TEST(LaneTimer, BeginsAnewWhereTheNextDoesNotFit) {
  LanePair pair(by_timer());
  pair.start();
  constexpr std::uint32_t kSize = 2000, kFit = kChunkBytes / kSize;
  for (std::uint32_t i = 0; i <= kFit; ++i) EXPECT_EQ(pair.a.put(kSize, true), kSize);
  EXPECT_EQ(pair.a.transport.sent(PacketType::kData), 1u);
  EXPECT_EQ(pair.a.transport.data_bytes(), kFit * kSize);
  pair.a.lane.tx.flush();
  pair.drain();
  EXPECT_EQ(pair.a.transport.sent(PacketType::kData), 2u);
  pair.expect_all_read();
}

TEST(LaneTimer, EndsWithALongSend) {
  LanePair pair(by_timer());
  pair.start();
  pair.a.put(64, true);
  pair.a.put(kSmallBytes + 1, true);
  EXPECT_EQ(pair.a.transport.sent(PacketType::kData), 2u) << "it shares no packet";
  pair.a.put(64, true);
  pair.a.put(64, false);
  EXPECT_EQ(pair.a.transport.sent(PacketType::kData), 4u) << "nor does one that is not combined";
  pair.drain();
  pair.expect_all_read();
}

// The waiting packet has the only credit: a send that can't join it makes it go.
TEST(LaneTimer, LeavesARoomForWhoMakesItGo) {
  LanePair pair(by_timer(1, 1));
  pair.start();
  pair.a.put(64, true);
  EXPECT_TRUE(pair.a.lane.tx.has_room());
  EXPECT_EQ(pair.a.put(kSmallBytes + 1, true), 0u);
  EXPECT_FALSE(pair.a.lane.tx.has_room());
  pair.drain();
  EXPECT_TRUE(pair.a.lane.tx.has_room());
  EXPECT_EQ(pair.a.put(kSmallBytes + 1, true), kSmallBytes + 1);
  pair.drain();
  pair.expect_all_read();
}

}  // namespace
}  // namespace viaduct::sovia
