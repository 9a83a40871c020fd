#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "kagent/tools/viadump/capture_reader.h"
#include "kagent/tools/viadump/pcapng_writer.h"
#include "tests/sim/sim_port.h"

namespace viaduct::dump {
namespace {

using Chars = std::vector<char>;

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

File file_of(Chars& bytes) { return File(fmemopen(bytes.data(), bytes.size(), "rb")); }

template <class Write>
Chars written(Write&& write) {
  char* data = nullptr;
  std::size_t size = 0;
  std::FILE* const file = open_memstream(&data, &size);
  PcapngWriter writer(file, "test");
  write(writer);
  writer.flush();
  std::fclose(file);
  Chars out(data, data + size);
  std::free(data);
  return out;
}

struct Read {
  std::vector<Packet> packets;
  std::vector<CapturedInterface> interfaces;
  std::uint64_t left_out, dropped;
};

Read read_back(Chars bytes) {
  const File file = file_of(bytes);
  CaptureReader reader(file.get(), "it");
  Read out{};
  for (Packet packet; reader.next(packet); packet = {}) out.packets.push_back(packet);
  out.interfaces = reader.interfaces();
  out.left_out = reader.left_out();
  out.dropped = reader.dropped();
  return out;
}

Packet packet_of(std::size_t bytes, std::uint64_t time_ns = 1'700'000'000'123'456'789) {
  Packet out;
  out.time_ns = time_ns;
  out.length = static_cast<std::uint32_t>(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out.bytes.push_back(static_cast<std::byte>(i));
  return out;
}

void put(Chars& out, std::uint32_t value, std::size_t bytes, bool big) {
  for (std::size_t i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> 8 * (big ? bytes - 1 - i : i)));
}

// A classic pcap file of one packet.
Chars pcap_file(std::uint32_t magic, bool big, std::uint32_t link, std::uint32_t fraction) {
  Chars out;
  put(out, magic, 4, big);
  put(out, 2, 2, big), put(out, 4, 2, big), put(out, 0, 4, big), put(out, 0, 4, big);
  put(out, 65535, 4, big), put(out, link, 4, big);
  put(out, 1'700'000'000, 4, big), put(out, fraction, 4, big), put(out, 3, 4, big), put(out, 60, 4, big);
  for (const char c : {'a', 'b', 'c'}) out.push_back(c);
  return out;
}

TEST(CaptureFile, ReadsBackWhatItWrote) {
  const Read read = read_back(written([](PcapngWriter& writer) {
    EXPECT_EQ(writer.add_interface({"eth0", "ether proto 0x88b5", 96}), 0u);
    EXPECT_EQ(writer.add_interface({"", "", 0}), 1u);
    for (std::size_t bytes = 0; bytes < 70; ++bytes) {
      Packet packet = packet_of(bytes, 1'700'000'000'000'000'000 + bytes);
      packet.interface = bytes % 2;
      packet.length += 5;
      packet.comment = std::string(bytes % 7, 'x');
      packet.direction = static_cast<Direction>(bytes % 3);
      writer.write(packet);
    }
    writer.write_statistics(0, 1, 100, 7);
    writer.write_statistics(0, 2, 110, 9);
  }));
  ASSERT_EQ(read.interfaces.size(), 2u);
  EXPECT_EQ(read.interfaces[0].name, "eth0");
  EXPECT_EQ(read.interfaces[0].filter, "ether proto 0x88b5");
  EXPECT_EQ(read.interfaces[0].snap_length, 96u);
  EXPECT_EQ(read.dropped, 9u);
  ASSERT_EQ(read.packets.size(), 70u);
  for (std::size_t bytes = 0; bytes < 70; ++bytes) {
    const Packet& packet = read.packets[bytes];
    EXPECT_EQ(packet.bytes, packet_of(bytes).bytes);
    EXPECT_EQ(packet.time_ns, 1'700'000'000'000'000'000 + bytes);
    EXPECT_EQ(packet.length, bytes + 5);
    EXPECT_EQ(packet.interface, bytes % 2);
    EXPECT_EQ(packet.comment, std::string(bytes % 7, 'x'));
    EXPECT_EQ(packet.direction, static_cast<Direction>(bytes % 3));
  }
}

TEST(CaptureFile, WritesTheseBytes) {
  const Chars bytes = written([](PcapngWriter& writer) { writer.add_interface({"e", "", 0}); });
  const std::uint32_t words[] = {0x0a0d0d0a, 40, 0x1a2b3c4d, 0x00000001, 0xffffffff, 0xffffffff, 0x00040004};
  EXPECT_EQ(std::memcmp(bytes.data(), words, sizeof words), 0);
  EXPECT_EQ(std::string(&bytes[28], 4), "test");
  const std::uint32_t rest[] = {0, 40, 1, 40, 1, 0, 0x00010002, 'e', 0x00010009, 9, 0, 40};
  ASSERT_EQ(bytes.size(), 32 + sizeof rest);
  EXPECT_EQ(std::memcmp(&bytes[32], rest, sizeof rest), 0);
}

TEST(CaptureFile, ReadsPcapOfEitherByteOrderAndResolution) {
  for (const bool big : {false, true}) {
    for (const bool nano : {false, true}) {
      const Read read = read_back(pcap_file(nano ? 0xa1b23c4d : 0xa1b2c3d4, big, 1, nano ? 123'456'789 : 123'456));
      ASSERT_EQ(read.packets.size(), 1u);
      EXPECT_EQ(read.packets[0].time_ns, 1'700'000'000'123'456'000 + (nano ? 789 : 0));
      EXPECT_EQ(read.packets[0].bytes.size(), 3u);
      EXPECT_EQ(read.packets[0].length, 60u);
    }
  }
}

TEST(CaptureFile, LeavesOutOtherLinks) {
  const Read read = read_back(pcap_file(0xa1b2c3d4, false, 113, 0));
  EXPECT_EQ(read.packets.size(), 0u);
  EXPECT_EQ(read.left_out, 1u);
}

// A section in the other byte order with times in 2^-20 s, a simple packet, and an unknown block.
TEST(CaptureFile, ReadsWhatOthersWrite) {
  for (const bool big : {false, true}) {
    Chars file;
    const auto word = [&](std::uint32_t value) { put(file, value, 4, big); };
    word(0x0a0d0d0a), word(28), word(0x1a2b3c4d), put(file, 1, 2, big), put(file, 0, 2, big);
    word(~0u), word(~0u), word(28);
    word(0xbad), word(16), word(42), word(16);
    word(1), word(32), put(file, 1, 2, big), put(file, 0, 2, big), word(0), put(file, 9, 2, big), put(file, 1, 2, big);
    file.insert(file.end(), {static_cast<char>(0x80 + 20), 0, 0, 0}), word(0), word(32);
    word(6), word(36), word(0), word(0), word(3 << 20 | 1 << 19), word(2), word(64), word('x'), word(36);
    word(3), word(20), word(4), word(0x01020304), word(20);
    const Read read = read_back(file);
    ASSERT_EQ(read.packets.size(), 2u);
    EXPECT_EQ(read.packets[0].time_ns, 3'500'000'000u);
    EXPECT_EQ(read.packets[0].bytes.size(), 2u);
    EXPECT_EQ(read.packets[0].length, 64u);
    EXPECT_EQ(read.packets[1].bytes.size(), 4u);
    EXPECT_EQ(read.packets[1].time_ns, 0u);
  }
}

TEST(CaptureFile, RefusesWhatIsNoCapture) {
  EXPECT_THROW(read_back(Chars(100, 'x')), std::runtime_error);
  EXPECT_THROW(read_back(Chars(3, 'x')), std::runtime_error);
}

// Every truncation is told, but for those between two blocks.
TEST(CaptureFile, SeesThatAFileEndsEarly) {
  const Chars whole = written([](PcapngWriter& writer) {
    writer.add_interface({"eth0", "", 0});
    writer.write(packet_of(10));
  });
  unsigned good = 0;
  for (std::size_t bytes = 1; bytes <= whole.size(); ++bytes) {
    try {
      read_back(Chars(whole.begin(), whole.begin() + static_cast<long>(bytes)));
      ++good;
    } catch (const std::runtime_error&) {
    }
  }
  EXPECT_EQ(good, 3u);
}

TEST(CaptureFile, SurvivesDamage) {
  const Chars whole = written([](PcapngWriter& writer) {
    writer.add_interface({"eth0", "filter", 0});
    for (std::size_t i = 0; i < 8; ++i) {
      Packet packet = packet_of(20 + i);
      packet.comment = "comment";
      packet.direction = Direction::kIn;
      writer.write(packet);
    }
    writer.write_statistics(0, 1, 2, 3);
  });
  SimRandom random(1);
  constexpr unsigned kFiles = 20'000;
  unsigned refused = 0;
  for (unsigned i = 0; i < kFiles; ++i) {
    Chars damaged = whole;
    for (std::uint64_t left = 1 + random.below(4); left > 0; --left) {
      damaged[random.below(damaged.size())] = static_cast<char>(random.next());
    }
    try {
      const Read read = read_back(damaged);
      std::size_t bytes = 0;
      for (const Packet& packet : read.packets) {
        ASSERT_LT(packet.interface, read.interfaces.size());
        ASSERT_LE(packet.bytes.size(), packet.length);
        bytes += packet.bytes.size() + packet.comment.size();
      }
      ASSERT_LE(bytes, damaged.size()) << "more than the file has";
    } catch (const std::runtime_error&) {
      ++refused;
    }
  }
  // Where only a packet's bytes are damaged, the file is a good one.
  EXPECT_GT(refused, kFiles / 100);
  EXPECT_LT(refused, kFiles - kFiles / 100);
}

}  // namespace
}  // namespace viaduct::dump
