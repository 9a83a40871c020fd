// Lanes with peers that do as they like.
#include "sovia/lane/lane.h"

#include <endian.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/unit/sovia/lane_pair.h"

namespace viaduct::sovia {
namespace {

using State = Lane::State;

// A packet of a peer that does as it likes, and where the peer's direction is when it comes.
enum class At { kBeforeHello, kGreeted, kUp, kDown, kFinished };

class Hostile : public ::testing::Test {
 protected:
  void bring(At at) {
    if (at == At::kBeforeHello) {
      pair_.a.lane.greet(LanePair::kTokenA);
      return;
    }
    pair_.greet();
    if (at == At::kGreeted) return;
    pair_.a.go_up();
    pair_.b.go_up();
    pair_.b.put(1);
    pair_.drain();
    if (at == At::kUp) return;
    if (at == At::kDown) {
      pair_.b.lane.tx.go_down();
      return pair_.drain();
    }
    pair_.b.lane.finish(false);
    pair_.settle();
  }
  bool take(std::uint32_t immediate, const void* body = nullptr, std::uint32_t bytes = 0) {
    if (!pair_.a.transport.inject(immediate, body, bytes)) return false;
    unsigned changes = 0;
    pair_.a.transport.take_in(pair_.a.lane, &changes);
    if (pair_.a.lane.control.broken() && !cut_) {
      EXPECT_NE(changes & LaneChange::kState, 0u);
      cut_ = true;
    }
    return true;
  }
  void expect_cut(At at, std::uint32_t immediate, const void* body = nullptr,
                  std::uint32_t bytes = 0) {
    bring(at);
    take(immediate, body, bytes);
    EXPECT_TRUE(pair_.a.lane.control.broken());
    EXPECT_EQ(pair_.a.lane.rx.unread(), 0u);
  }

  Hello hello_{htobe32(kProtocolVersion), htobe32(8), {}, 0, 0, 0, {}};
  std::byte bytes_[kChunkBytes] = {};
  struct {
    std::uint8_t data = 1, most[8] = {0x40, 0, 0, 0, 0, 0, 0, 1};
  } number_;
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
CUTS(DataBeforeHello, At::kBeforeHello, immediate(PacketType::kData, 0), bytes_, 8)
CUTS(AckBeforeHello, At::kBeforeHello, immediate(PacketType::kAck, 1))
CUTS(FinBeforeHello, At::kBeforeHello, immediate(PacketType::kFin, 0))
CUTS(LeaveBeforeHello, At::kBeforeHello, immediate(PacketType::kLeave, 0))
CUTS(FirstBeforeHello, At::kBeforeHello, immediate(PacketType::kData, 0, kFlagFirst), bytes_, 9)
CUTS(DataBeforeFirst, At::kGreeted, immediate(PacketType::kData, 0), bytes_, 8)
CUTS(DataAfterDown, At::kDown, immediate(PacketType::kData, 0), bytes_, 8)
CUTS(FirstWithoutBytes, At::kGreeted, immediate(PacketType::kData, 0, kFlagFirst))
CUTS(FirstTooShort, At::kGreeted, immediate(PacketType::kData, 0, kFlagFirst), bytes_, 7)
CUTS(FirstWithoutData, At::kGreeted, immediate(PacketType::kData, 0, kFlagFirst), bytes_, 8)
CUTS(FirstWithoutDataAgain, At::kDown, immediate(PacketType::kData, 0, kFlagFirst), bytes_, 8)
CUTS(FirstBehindMoreThanCanBe, At::kDown, immediate(PacketType::kData, 0, kFlagFirst), &number_, 9)
CUTS(LeaveThatClosesBeforeFin, At::kUp, immediate(PacketType::kLeave, 0, kFlagCloses))
CUTS(FirstWhileUp, At::kUp, immediate(PacketType::kData, 0, kFlagFirst), bytes_, 9)
CUTS(FirstAfterFin, At::kFinished, immediate(PacketType::kData, 0, kFlagFirst), bytes_, 9)
CUTS(DownWhileIdle, At::kGreeted, immediate(PacketType::kData, 0, kFlagDown))
CUTS(DownTwice, At::kDown, immediate(PacketType::kData, 0, kFlagDown))
CUTS(DownWithBytes, At::kUp, immediate(PacketType::kData, 0, kFlagDown), bytes_, 1)
CUTS(DownAfterFin, At::kFinished, immediate(PacketType::kData, 0, kFlagDown))
CUTS(FirstAndDownAtOnce, At::kGreeted, immediate(PacketType::kData, 0, kFlagFirst | kFlagDown), bytes_, 9)
CUTS(FirstAndDownWhileUp, At::kUp, immediate(PacketType::kData, 0, kFlagFirst | kFlagDown), bytes_, 9)
CUTS(DataAfterFin, At::kFinished, immediate(PacketType::kData, 0), bytes_, 8)
CUTS(SecondFin, At::kFinished, immediate(PacketType::kFin, 0))
CUTS(FinAckWithoutFin, At::kUp, immediate(PacketType::kFinAck, 0))
CUTS(DataWithoutBytes, At::kUp, immediate(PacketType::kData, 0))
CUTS(AckWithBody, At::kUp, immediate(PacketType::kAck, 0), bytes_, 1)
CUTS(FinWithBody, At::kUp, immediate(PacketType::kFin, 0), bytes_, kChunkBytes)
CUTS(LeaveWithShortBody, At::kUp, immediate(PacketType::kLeave, 0), bytes_, 3)
CUTS(LeaveWithLongBody, At::kUp, immediate(PacketType::kLeave, 0), bytes_, 5)
CUTS(LeaveWithBody, At::kUp, immediate(PacketType::kLeave, 0), bytes_, 24)
CUTS(TypeZero, At::kUp, 0)
CUTS(TypeThatWasOnce, At::kUp, 4)
CUTS(AnotherTypeThatWasOnce, At::kUp, 9)
CUTS(ThirdTypeThatWasOnce, At::kFinished, 13)
CUTS(UnknownType, At::kUp, 0xf)
CUTS(UnknownFlags, At::kUp, immediate(PacketType::kFin, 0, 0x80))
CUTS(BitsThatMeanNothing, At::kUp, immediate(PacketType::kAck, 0) | 0x100)
CUTS(CreditsForNothing, At::kUp, immediate(PacketType::kAck, 1))
CUTS(AllCreditsThereAre, At::kUp, immediate(PacketType::kAck, 0xffff))

#undef CUTS

// An unknown peer: nothing of it counts, and nothing of it is kept.
TEST(LaneTrust, NothingStartsBeforeIt) {
  FakeTransport transport(places_for({})), other(places_for({}));
  transport.connect(other);
  other.connect(transport);
  Lane lane(transport, {});
  lane.greet(LanePair::kTokenA);
  const Hello hello{htobe32(kProtocolVersion), htobe32(8), {}, 0, 0, 0, {}};
  const std::byte data[sizeof(First) + 1] = {};
  ASSERT_TRUE(transport.inject(immediate(PacketType::kWakeup, 0), &hello, sizeof hello));
  while (transport.take_in(lane)) continue;
  EXPECT_FALSE(lane.control.broken() || lane.greeting.greeted());
  ASSERT_TRUE(transport.inject(immediate(PacketType::kData, 0, kFlagFirst), data, sizeof data));
  while (transport.take_in(lane)) continue;
  EXPECT_TRUE(lane.control.broken());
  EXPECT_EQ(lane.rx.unread(), 0u);
  lane.trust();  // comes too late to make a loss of it
  EXPECT_FALSE(lane.control.is_lost() || lane.greeting.may_start());
}

// The peer sends nothing before it has heard of it.
TEST(LaneTrust, NothingIsLostBeforeItIsTold) {
  FakeTransport transport(places_for({})), other(places_for({}));
  transport.connect(other);
  other.connect(transport);
  Lane lane(transport, {});
  lane.greet(LanePair::kTokenA);
  const Hello hello{htobe32(kProtocolVersion), htobe32(8), {}, 0, 0, 0, {}};
  ASSERT_TRUE(transport.inject(immediate(PacketType::kWakeup, 0), &hello, sizeof hello));
  ASSERT_TRUE(transport.inject(immediate(PacketType::kTrust, 0)));
  while (transport.take_in(lane)) continue;
  transport.break_down();
  lane.trust();
  EXPECT_TRUE(lane.control.broken() && lane.greeting.may_start());
  lane.cut();
  EXPECT_FALSE(lane.control.is_lost());
}

TEST_F(Hostile, WindowOutOfBounds) {
  for (const std::uint32_t w : {0u, kMostWindow + 1, 0xffffffffu}) {
    LanePair pair;
    hello_.window = htobe32(w);
    pair.a.transport.inject(immediate(PacketType::kWakeup, 0), &hello_, sizeof hello_);
    pair.a.transport.take_in(pair.a.lane);
    EXPECT_TRUE(pair.a.lane.control.broken());
  }
}

TEST_F(Hostile, SecondFinAckOrLeave) {
  bring(At::kUp);
  EXPECT_TRUE(take(immediate(PacketType::kLeave, 0)));
  EXPECT_FALSE(pair_.a.lane.control.broken());
  pair_.a.lane.finish(false);
  EXPECT_TRUE(take(immediate(PacketType::kFinAck, 0)));
  EXPECT_FALSE(pair_.a.lane.control.broken());
  EXPECT_TRUE(take(immediate(PacketType::kLeave, 0)));
  EXPECT_TRUE(pair_.a.lane.control.broken());
}

TEST_F(Hostile, FinAckBeforeTheFinThatWaits) {
  bring(At::kUp);
  for (int i = 0; i < 5; ++i) pair_.a.put(10);
  pair_.a.lane.finish(false);
  EXPECT_EQ(pair_.a.transport.sent(PacketType::kFin), 0u);
  take(immediate(PacketType::kFinAck, 0));
  EXPECT_TRUE(pair_.a.lane.control.broken());
}

TEST_F(Hostile, MoreDataThanTheWindow) {
  bring(At::kGreeted);
  constexpr std::uint32_t kBytes = 5000;  // not so small that they share places
  const std::vector<std::byte> data(kBytes);
  take(immediate(PacketType::kData, 0, kFlagFirst), data.data(), kBytes);
  for (int i = 0; i < 3; ++i) take(immediate(PacketType::kData, 0), data.data(), kBytes);
  EXPECT_FALSE(pair_.a.lane.control.broken());
  take(immediate(PacketType::kData, 0), data.data(), kBytes);
  EXPECT_TRUE(pair_.a.lane.control.broken());
  EXPECT_EQ(pair_.a.lane.rx.unread(), 4 * kBytes - sizeof(First));
}

// A packet that says where the direction goes needs a credit as any other.
TEST_F(Hostile, MoreStaysThanTheWindow) {
  bring(At::kGreeted);
  for (int i = 0; i < 2; ++i) {
    take(immediate(PacketType::kData, 0, kFlagFirst), bytes_, sizeof(First) + 1);
    take(immediate(PacketType::kData, 0, kFlagDown));
  }
  EXPECT_FALSE(pair_.a.lane.control.broken());
  take(immediate(PacketType::kData, 0, kFlagFirst), bytes_, sizeof(First) + 1);
  EXPECT_TRUE(pair_.a.lane.control.broken());
}

TEST_F(Hostile, CreditsOneByOneBeyondTheWindow) {
  bring(At::kUp);
  pair_.a.put(10);
  pair_.a.put(10);
  for (int i = 0; i < 2; ++i) take(immediate(PacketType::kAck, 1));
  EXPECT_FALSE(pair_.a.lane.control.broken());
  take(immediate(PacketType::kAck, 1));
  EXPECT_TRUE(pair_.a.lane.control.broken());
}

TEST_F(Hostile, NothingCountsAfterTheCut) {
  bring(At::kUp);
  take(immediate(PacketType::kData, 0), bytes_, 8);
  take(0);
  ASSERT_TRUE(pair_.a.lane.control.broken());
  take(immediate(PacketType::kData, 0), bytes_, 8);
  take(immediate(PacketType::kFin, 0, kFlagCloses));
  EXPECT_EQ(pair_.a.lane.rx.unread(), 8u);
  EXPECT_EQ(pair_.a.lane.control.receiving(), State::kUp);
  EXPECT_FALSE(pair_.a.lane.control.peer_closed());
}

// A peer that is asked to leave and sends on and on must not fill the memory.
TEST_F(Hostile, EndlessDataForOneWhoLeaves) {
  bring(At::kUp);
  pair_.a.lane.ask_to_leave();
  std::uint64_t sent = 0;
  while (!pair_.a.lane.control.broken() && sent < 1ull << 30 &&
         take(immediate(PacketType::kData, 0), bytes_, kChunkBytes)) {
    sent += kChunkBytes;
    while (pair_.a.transport.swallow() || pair_.a.transport.complete()) {
    }
  }
  EXPECT_TRUE(pair_.a.lane.control.broken());
  EXPECT_LT(pair_.a.lane.rx.unread(), 256u << 20);
}

}  // namespace
}  // namespace viaduct::sovia
