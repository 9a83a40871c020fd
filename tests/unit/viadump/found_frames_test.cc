#include "kagent/tools/viadump/found_frames.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kagent/contract/wire.h"
#include "tests/unit/viadump/random_frames.h"

namespace viaduct::dump {
namespace {

constexpr std::size_t kBefore = wire::kEthernetBytes + wire::kHeaderBytes;

using Bytes = std::vector<std::byte>;

Packet packet_of(Bytes bytes) {
  Packet out;
  out.length = static_cast<std::uint32_t>(bytes.size());
  out.bytes = std::move(bytes);
  return out;
}

std::vector<FoundFrame> find(const Packet& packet) { return find_frames(packet, wire::kDefaultEtherType); }

Bytes frame_of(wire::Type type, std::uint16_t payload, std::uint16_t flags = 0, std::byte fill = std::byte{7}) {
  wire::Header header{.type = type};
  header.flags = flags;
  header.message_length = 100'000;
  header.payload_length = payload;
  Bytes out(std::max(kBefore + payload + wire::kChecksumBytes, wire::kMinFrameBytes), fill);
  out.resize(wire::encode(header, {2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}, wire::kDefaultEtherType, out.data()));
  return out;
}

// A datagram between two hosts, each of these segments padded to `segment` bytes but for the last.
Packet datagram(int version, const std::vector<Bytes>& frames, std::size_t segment, bool vlan = false) {
  Bytes out(12, std::byte{0x11});
  const auto put16 = [&](unsigned value) {
    out.push_back(static_cast<std::byte>(value >> 8));
    out.push_back(static_cast<std::byte>(value));
  };
  if (vlan) put16(0x8100), put16(5);
  put16(version == 4 ? 0x0800 : 0x86dd);
  const std::size_t ip = out.size();
  out.resize(ip + (version == 4 ? 20 : 40));
  out[ip] = static_cast<std::byte>(version == 4 ? 0x45 : 0x60);
  out[ip + (version == 4 ? 9 : 6)] = std::byte{17};
  out.resize(out.size() + 8);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    Bytes frame = frames[i];
    if (i + 1 < frames.size()) frame.resize(segment);
    out.insert(out.end(), frame.begin(), frame.end());
  }
  return packet_of(out);
}

TEST(FoundFrames, FindsAFrameOfEveryTypeAndNothingElse) {
  SimRandom random(1);
  for (unsigned type = 1; type <= wire::kLastType; ++type) {
    Packet packet = packet_of(random_frame(random, static_cast<wire::Type>(type)));
    const auto found = find(packet);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].length, packet.length);
    EXPECT_FALSE(found[0].is_train);
    packet.bytes[12] ^= std::byte{1};
    EXPECT_TRUE(find(packet).empty());
  }
  EXPECT_TRUE(find(packet_of(Bytes(13))).empty());
  EXPECT_TRUE(find(packet_of({})).empty());
}

TEST(FoundFrames, HeedsAnotherEtherType) {
  Packet packet = packet_of(frame_of(wire::Type::kProbe, 0));
  packet.bytes[13] = std::byte{0xb6};
  EXPECT_TRUE(find(packet).empty());
  EXPECT_EQ(find_frames(packet, 0x88b6).size(), 1u);
}

TEST(FoundFrames, CutsADatagramIntoTheFramesOfATrain) {
  const Bytes whole = frame_of(wire::Type::kData, 1000);
  const Bytes shorter = frame_of(wire::Type::kData, 300);
  for (const int version : {4, 6}) {
    for (const bool vlan : {false, true}) {
      const Packet packet = datagram(version, {whole, whole, shorter, whole, shorter}, whole.size(), vlan);
      const auto found = find(packet);
      ASSERT_EQ(found.size(), 5u);
      for (std::size_t i = 0; i < 5; ++i) {
        EXPECT_TRUE(found[i].is_train);
        EXPECT_EQ(found[i].segment, i);
        EXPECT_EQ(found[i].length, i < 4 ? whole.size() : shorter.size());
        EXPECT_EQ(found[i].bytes.data(), packet.bytes.data() + found[i].at);
        EXPECT_EQ(wire::load16(&found[i].bytes[12]), wire::kDefaultEtherType);
      }
    }
  }
}

TEST(FoundFrames, FindsTheSecondFrameBehindPadding) {
  const Bytes first = frame_of(wire::Type::kData, 300, wire::kFlagChecked), second = frame_of(wire::Type::kData, 900);
  const Packet packet = datagram(6, {first, second, second}, second.size());
  const auto found = find(packet);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].length, second.size());
  EXPECT_EQ(found[1].at - found[0].at, second.size());
}

TEST(FoundFrames, TakesADatagramOfOneFrameAsOne) {
  const Packet packet = datagram(4, {frame_of(wire::Type::kPath, 28)}, 0);
  const auto found = find(packet);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].length, kBefore + 28 + wire::kChecksumBytes);
}

// Padding is zeros: what else follows the first frame is not looked into.
TEST(FoundFrames, FindsNoSecondFrameBehindAnythingElse) {
  Bytes first = frame_of(wire::Type::kData, 300);
  const Bytes second = frame_of(wire::Type::kData, 300);
  first.resize(first.size() + 20);
  EXPECT_EQ(find(datagram(6, {first, second}, first.size())).size(), 2u);
  first[first.size() - 7] = std::byte{1};
  EXPECT_EQ(find(datagram(6, {first, second}, first.size())).size(), 1u);
}

TEST(FoundFrames, FindsNoTrainInOtherDatagrams) {
  EXPECT_TRUE(find(datagram(4, {Bytes(200)}, 0)).empty());
  EXPECT_TRUE(find(datagram(6, {frame_of(wire::Type::kAck, 32)}, 0)).empty());
  Packet later_fragment = datagram(4, {frame_of(wire::Type::kData, 100)}, 0);
  later_fragment.bytes[21] = std::byte{9};
  EXPECT_TRUE(find(later_fragment).empty());
  Packet tcp = datagram(6, {frame_of(wire::Type::kData, 100)}, 0);
  tcp.bytes[20] = std::byte{6};
  EXPECT_TRUE(find(tcp).empty());
}

TEST(FoundFrames, KnowsWhatWasCaptured) {
  const Bytes frame = frame_of(wire::Type::kData, 1000);
  Packet packet = datagram(6, {frame, frame, frame}, frame.size());
  const std::size_t begin = 62;
  packet.bytes.resize(begin + frame.size() + 100);
  auto found = find(packet);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1].length, frame.size());
  EXPECT_EQ(found[1].bytes.size(), 100u);
  packet.bytes.resize(begin + kBefore);  // where the second one begins can't be known
  found = find(packet);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].bytes.size(), kBefore);
}

// A file may say any length of a packet: memory is taken for frames that were captured, not for as many as would fit.
TEST(FoundFrames, TakesNoMemoryForALengthThatIsOnlyTold) {
  const Bytes frame = frame_of(wire::Type::kData, 60);
  Packet packet = datagram(6, {frame, frame}, frame.size());
  packet.length = 0xffffffff;
  const auto found = find(packet);
  EXPECT_EQ(found.size(), 2u);
  EXPECT_LE(found.capacity(), 4u);
}

TEST(FoundFrames, SurvivesRandomBytes) {
  SimRandom random(3);
  const Bytes frame = frame_of(wire::Type::kData, 60);
  for (int i = 0; i < 50'000; ++i) {
    Packet packet = datagram(random.below(2) != 0 ? 4 : 6, {frame, frame, frame}, frame.size());
    for (std::uint64_t left = random.below(6); left > 0; --left) {
      packet.bytes[random.below(packet.bytes.size())] = static_cast<std::byte>(random.next());
    }
    Packet exact = packet;
    exact.bytes.resize(random.below(packet.length + 1));
    exact.bytes.shrink_to_fit();
    for (const FoundFrame& each : find(exact)) {
      ASSERT_LE(each.at + each.bytes.size(), exact.bytes.size());
      ASSERT_LE(each.bytes.size(), each.length);
    }
  }
}

}  // namespace
}  // namespace viaduct::dump
