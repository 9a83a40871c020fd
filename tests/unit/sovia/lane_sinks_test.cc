// Messages that are written to the receiver's memory beside the stream of a lane.
#include <endian.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "sovia/lane/lane.h"
#include "tests/unit/sovia/lane_pair.h"

namespace viaduct::sovia {
namespace {

using SinkState = LaneSinks::SinkState;
using Target = LaneSinks::Target;

LaneOptions with_messages() {
  LaneOptions options = window(4, 2);
  options.messages = true;
  return options;
}

// b has a buffer, a writes there.
class LaneSinks : public ::testing::Test {
 protected:
  void SetUp() override { pair_.start(); }
  bool open(std::uint32_t number, std::uint32_t bytes) {
    buffer_.assign(bytes + 1, std::byte{0x5a});
    memory_ = b_.transport.open_memory(buffer_.data(), bytes);
    const bool told = b_.lane.sinks.open_sink(number, buffer_.data(), bytes, memory_);
    pair_.settle();
    return told;
  }
  void close() {
    b_.transport.close_memory(buffer_.data(), memory_);
    b_.lane.sinks.close_sink();
  }
  // Writes all of a message, in as many steps as it takes.
  void write(std::uint32_t bytes, std::uint32_t most) {
    message_.resize(bytes);
    for (std::uint32_t i = 0; i < bytes; ++i) message_[i] = stream_byte(7, i);
    const std::uint32_t all = std::min(bytes, most);
    for (std::uint32_t at = 0; at != all;) {
      const std::uint32_t here = a_.lane.sinks.write_to_sink(message_.data(), at, bytes, 7);
      at += here;
      if (here == 0) pair_.settle();
    }
    EXPECT_FALSE(a_.lane.sinks.has_placed());
    EXPECT_TRUE(a_.lane.sinks.tell_placed(bytes));
  }

  LanePair pair_{with_messages()};
  LaneSide &a_ = pair_.a, &b_ = pair_.b;
  std::vector<std::byte> buffer_, message_;
  std::uint32_t memory_ = 0;
};

TEST_F(LaneSinks, TakeAMessage) {
  for (const std::uint32_t bytes : {1u, kChunkBytes, 65536u, 2'000'000u}) {
    ASSERT_TRUE(open(5, bytes));
    EXPECT_EQ(a_.lane.sinks.target(4), Target::kNone);
    EXPECT_EQ(a_.lane.sinks.target(5), Target::kSink);
    EXPECT_EQ(a_.lane.sinks.target_bytes(), bytes);
    write(bytes, bytes);
    EXPECT_EQ(b_.lane.sinks.sink(), SinkState::kOpen);
    pair_.settle();
    EXPECT_TRUE(a_.lane.sinks.has_placed());
    ASSERT_EQ(b_.lane.sinks.sink(), SinkState::kPlaced);
    EXPECT_EQ(b_.lane.sinks.placed_length(), bytes);
    EXPECT_EQ(std::memcmp(buffer_.data(), message_.data(), bytes), 0);
    EXPECT_EQ(buffer_.back(), std::byte{0x5a});
    EXPECT_EQ(a_.lane.sinks.target(5), Target::kNone) << "a sink is for one message";
    close();
  }
  a_.put(100);
  pair_.drain();
  pair_.expect_all_read();
}

TEST_F(LaneSinks, TakeTheBeginningOfALongerMessage) {
  ASSERT_TRUE(open(0, 40'000));
  write(100'000, 40'000);
  pair_.settle();
  ASSERT_EQ(b_.lane.sinks.sink(), SinkState::kPlaced);
  EXPECT_EQ(b_.lane.sinks.placed_length(), 100'000u);
  EXPECT_EQ(std::memcmp(buffer_.data(), message_.data(), 40'000), 0);
  EXPECT_EQ(buffer_.back(), std::byte{0x5a});
  close();
}

TEST_F(LaneSinks, AreTakenBack) {
  ASSERT_TRUE(open(3, 100));
  b_.lane.sinks.revoke_sink();
  EXPECT_EQ(b_.lane.sinks.sink(), SinkState::kRevoking);
  pair_.settle();
  EXPECT_EQ(b_.lane.sinks.sink(), SinkState::kRevoked);
  EXPECT_EQ(a_.lane.sinks.target(3), Target::kStream);
  EXPECT_EQ(a_.lane.sinks.write_to_sink(buffer_.data(), 0, 100, 7), 0u);
  close();
  EXPECT_TRUE(open(4, 100));
}

TEST_F(LaneSinks, AreNotTakenBackFromUnderAWrite) {
  ASSERT_TRUE(open(3, 100));
  message_.assign(100, std::byte{1});
  EXPECT_EQ(a_.lane.sinks.write_to_sink(message_.data(), 0, 100, 7), 100u);
  b_.lane.sinks.revoke_sink();
  pair_.settle();
  EXPECT_EQ(b_.lane.sinks.sink(), SinkState::kRevoking);
  EXPECT_TRUE(a_.lane.sinks.tell_placed(100));
  pair_.settle();
  EXPECT_EQ(b_.lane.sinks.sink(), SinkState::kPlaced);
  EXPECT_EQ(buffer_.front(), std::byte{1});
}

TEST_F(LaneSinks, CanBeRefused) {
  b_.lane.sinks.refuse_sink(9);
  pair_.settle();
  EXPECT_EQ(a_.lane.sinks.target(9), Target::kStream);
}

TEST_F(LaneSinks, AreOneAtATime) {
  ASSERT_TRUE(open(0, 100));
  EXPECT_FALSE(b_.lane.sinks.open_sink(1, buffer_.data(), 100, memory_));
}

TEST_F(LaneSinks, OfABrokenLaneAreNotWrittenTo) {
  ASSERT_TRUE(open(0, 100));
  a_.transport.break_down();
  EXPECT_EQ(a_.lane.sinks.write_to_sink(buffer_.data(), 0, 100, 7), 0u);
  EXPECT_TRUE(a_.lane.control.broken());
  EXPECT_FALSE(a_.lane.sinks.tell_placed(100));
  EXPECT_FALSE(a_.lane.sinks.has_placed());
}

TEST(LaneWithoutMessages, HasNoSinks) {
  LanePair pair{window(4, 2)};
  pair.start();
  std::byte buffer[8];
  EXPECT_FALSE(pair.b.lane.sinks.open_sink(0, buffer, sizeof buffer, 1));
}

// ---------------------------------------------------------------------------- hostile peers
class HostileSinks : public LaneSinks {
 protected:
  // Whether the lane is cut for it.
  bool cuts(PacketType type, const void* body, std::uint32_t bytes, std::uint32_t flags = 0) {
    EXPECT_TRUE(b_.transport.inject(immediate(type, 0, flags), body, bytes));
    b_.transport.take_in(b_.lane);
    return b_.lane.control.broken();
  }
  const Placed third_{htobe32(3), htobe32(10)};
  const Sink sink_{0, 0, 0, htobe32(3), 0};
};

TEST_F(HostileSinks, PlacedWhereNoSinkIs) { EXPECT_TRUE(cuts(PacketType::kPlaced, &third_, sizeof third_)); }
TEST_F(HostileSinks, PlacedAnotherMessage) {
  ASSERT_TRUE(open(4, 100));
  EXPECT_TRUE(cuts(PacketType::kPlaced, &third_, sizeof third_));
}
TEST_F(HostileSinks, PlacedTwice) {
  ASSERT_TRUE(open(3, 100));
  EXPECT_FALSE(cuts(PacketType::kPlaced, &third_, sizeof third_));
  EXPECT_TRUE(cuts(PacketType::kPlaced, &third_, sizeof third_));
}
TEST_F(HostileSinks, PlacedMoreThanAMessageHas) {
  ASSERT_TRUE(open(3, 100));
  const Placed more{htobe32(3), htobe32(kMostMessage + 1)};
  EXPECT_TRUE(cuts(PacketType::kPlaced, &more, sizeof more));
}
TEST_F(HostileSinks, RevokedWhatWasNotAsked) {
  ASSERT_TRUE(open(3, 100));
  EXPECT_TRUE(cuts(PacketType::kRevoked, &third_, sizeof third_));
}
TEST_F(HostileSinks, PlacedTooShort) {
  ASSERT_TRUE(open(3, 100));
  EXPECT_TRUE(cuts(PacketType::kPlaced, &third_, sizeof third_ - 1));
}
TEST_F(HostileSinks, SinkTooShort) { EXPECT_TRUE(cuts(PacketType::kSink, &sink_, sizeof sink_ - 1)); }
TEST_F(HostileSinks, SinkTooLong) { EXPECT_TRUE(cuts(PacketType::kSink, buffer_.data(), 0)); }
TEST_F(HostileSinks, SinkWithAnUnknownFlag) {
  EXPECT_TRUE(cuts(PacketType::kSink, &sink_, sizeof sink_, kFlagDown));
}
TEST(LaneWithoutMessages, TakesNoSink) {
  LanePair pair{window(4, 2)};
  pair.start();
  const Sink sink{};
  ASSERT_TRUE(pair.b.transport.inject(immediate(PacketType::kSink, 0), &sink, sizeof sink));
  pair.b.transport.take_in(pair.b.lane);
  EXPECT_TRUE(pair.b.lane.control.broken());
}

}  // namespace
}  // namespace viaduct::sovia
