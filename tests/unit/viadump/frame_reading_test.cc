#include "kagent/tools/viadump/frame_reading.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/unit/viadump/random_frames.h"

namespace viaduct::dump {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t kBefore = wire::kEthernetBytes + wire::kHeaderBytes;

std::string value_of(const Reading& reading, const std::string& name) {
  for (const Field& field : fields_of(reading)) {
    if (name == field.name) return field.value;
  }
  return "";
}

TEST(FrameReading, TakesEveryValidFrame) {
  SimRandom random(1);
  for (unsigned i = 0; i < 2'100; ++i) {
    const auto type = static_cast<wire::Type>(1 + i % wire::kLastType);
    const Bytes frame = random_frame(random, type);
    const Reading reading = read_frame(frame, frame.size());
    ASSERT_TRUE(reading.has_header && reading.is_whole);
    EXPECT_EQ(reading.refusal, Refusal::kNone) << type_word(type);
    EXPECT_EQ(value_of(reading, "type"), std::to_string(static_cast<unsigned>(type)));
    EXPECT_EQ(value_of(reading, "refused"), "");
  }
}

TEST(FrameReading, HasAWordForEveryType) {
  std::set<std::string> words;
  for (unsigned type = 1; type <= wire::kLastType; ++type) words.insert(type_word(static_cast<wire::Type>(type)));
  EXPECT_EQ(words.size(), wire::kLastType);
  EXPECT_EQ(words.count("?"), 0u);
}

TEST(FrameReading, SaysWhatADataFrameHas) {
  wire::Header header{.type = wire::Type::kData};
  header.flags = wire::kFlagFirst | wire::kOpRdmaWrite | wire::kFlagChecked;
  header.vi = 7;
  header.key = 0x1234;
  header.message_length = 2;
  header.payload_length = wire::kRdmaBytes + 2;
  Bytes frame(wire::kEthernetBytes + wire::kHeaderBytes + header.payload_length + wire::kChecksumBytes);
  wire::encode(wire::RdmaHeader{0xabcdef, 9}, &frame[kBefore]);
  frame[kBefore + wire::kRdmaBytes] = std::byte{0xca};
  frame[kBefore + wire::kRdmaBytes + 1] = std::byte{0xfe};
  wire::encode(header, {2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}, wire::kDefaultEtherType, frame.data());
  const Reading reading = read_frame(frame, frame.size());
  EXPECT_EQ(reading.refusal, Refusal::kNone);
  EXPECT_EQ(value_of(reading, "vi"), "7");
  EXPECT_EQ(value_of(reading, "key"), "0x0000000000001234");
  EXPECT_EQ(value_of(reading, "flags"), "0x0091");
  EXPECT_EQ(value_of(reading, "flags.first"), "1");
  EXPECT_EQ(value_of(reading, "flags.last"), "0");
  EXPECT_EQ(value_of(reading, "flags.operation"), "1");
  EXPECT_EQ(value_of(reading, "rdma.address"), "0x0000000000abcdef");
  EXPECT_EQ(value_of(reading, "rdma.handle"), "9");
  EXPECT_EQ(value_of(reading, "data"), "cafe");
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", wire::load32(&frame[frame.size() - 4]));
  EXPECT_EQ(value_of(reading, "checksum"), text);
}

TEST(FrameReading, SaysWhyAReceiverDropsAFrame) {
  SimRandom random(2);
  const Bytes good = random_frame(random, wire::Type::kConnectRequest);
  const auto verdict = [](const Bytes& frame) { return read_frame(frame, frame.size()).refusal; };
  EXPECT_EQ(verdict(Bytes(good.begin(), good.begin() + kBefore - 1)), Refusal::kShort);
  Bytes bad = good;
  bad[wire::kEthernetBytes] = std::byte{9};
  EXPECT_EQ(verdict(bad), Refusal::kVersion);
  bad = good;
  bad[wire::kEthernetBytes + 3] = std::byte{1};
  EXPECT_EQ(verdict(bad), Refusal::kType);
  bad.assign(good.begin(), good.end() - 1);
  EXPECT_EQ(verdict(bad), Refusal::kLength);
  bad = good;
  bad[kBefore] ^= std::byte{1};
  EXPECT_EQ(verdict(bad), Refusal::kChecksum);
  bad = good;
  bad[kBefore + 34] = std::byte{0xf0};
  wire::seal(bad);
  EXPECT_EQ(verdict(bad), Refusal::kBody);
}

// Of what was not captured nothing is said, and nothing is read.
TEST(FrameReading, JudgesNothingThatWasNotCaptured) {
  SimRandom random(3);
  for (unsigned type = 1; type <= wire::kLastType; ++type) {
    const Bytes frame = random_frame(random, static_cast<wire::Type>(type));
    for (std::size_t captured = 0; captured < frame.size(); ++captured) {
      const Bytes part(frame.begin(), frame.begin() + static_cast<long>(captured));
      const Reading reading = read_frame(part, frame.size());
      EXPECT_FALSE(reading.is_whole);
      EXPECT_EQ(reading.refusal, Refusal::kNone);
      EXPECT_EQ(reading.has_header, captured >= kBefore);
      if (!reading.has_header) continue;
      EXPECT_LE(reading.decoded.payload.size(), captured - kBefore);
      fields_of(reading);
    }
  }
}

TEST(FrameReading, SurvivesDamage) {
  SimRandom random(4);
  std::set<Refusal> seen;
  for (unsigned i = 0; i < 20'000; ++i) {
    const Bytes frame = damaged_frame(random, static_cast<wire::Type>(1 + i % wire::kLastType));
    const Reading reading = read_frame(frame, frame.size());
    seen.insert(reading.refusal);
    fields_of(reading);
  }
  EXPECT_EQ(seen.size(), 7u);
}

}  // namespace
}  // namespace viaduct::dump
