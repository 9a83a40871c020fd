// Transfers cut into descriptors, by copying along the pieces.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "vipl/fabric/pieces.h"

namespace viaduct::fabric {
namespace {

TEST(Pieces, NothingToMoveIsNoPiece) {
  EXPECT_TRUE(Pieces(Ranges(), Ranges(), 100).empty());
  Ranges empty;
  empty.add({1000, 0, 1});
  EXPECT_TRUE(Pieces(empty, empty, 100).empty());
}

TEST(Pieces, NoMoreRangesThanADescriptorHas) {
  Ranges ranges;
  for (std::uint32_t i = 0; i < kSegments; ++i) EXPECT_TRUE(ranges.add({i, 1, 1}));
  EXPECT_FALSE(ranges.add({9, 1, 1}));
  EXPECT_TRUE(ranges.add({9, 0, 1}));
}

TEST(Pieces, ListsOfDifferentLengthEnd) {
  Ranges local;
  local.add({0, 10, 1});
  Ranges remote;
  remote.add({0, 30, 2});
  Pieces pieces(local, remote, 8);
  int count = 0;
  while (!pieces.empty() && count < 10) {
    pieces.take();
    ++count;
  }
  EXPECT_LT(count, 10);
}

Ranges cut(std::mt19937& random, std::uint64_t bytes, std::uint64_t base, std::uint32_t memory) {
  Ranges ranges;
  const auto count = static_cast<std::uint32_t>(1 + random() % kSegments);
  std::uint64_t at = base;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t part = i + 1 == count ? bytes : random() % (bytes + 1);
    ranges.add({at, part, memory + i});
    at += part + random() % 50;  // a gap
    bytes -= part;
  }
  return ranges;
}

TEST(Pieces, EveryByteGoesWhereItShould) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    const std::uint64_t bytes = 1 + random() % 3000;
    const std::uint64_t most = 1 + random() % 700;
    const Ranges local = cut(random, bytes, 0, 10);
    const Ranges remote = cut(random, bytes, 0, 20);
    std::vector<unsigned char> from(8000), to(8000), expected(8000);
    for (auto& byte : from) byte = static_cast<unsigned char>(1 + random() % 255);
    std::vector<unsigned char> flat;
    for (std::uint32_t i = 0; i < local.count(); ++i) {
      flat.insert(flat.end(), from.begin() + static_cast<long>(local[i].address),
                  from.begin() + static_cast<long>(local[i].address + local[i].length));
    }
    std::size_t done = 0;
    for (std::uint32_t i = 0; i < remote.count(); ++i) {
      std::memcpy(&expected[remote[i].address], &flat[done], remote[i].length);
      done += remote[i].length;
    }
    std::uint64_t moved = 0;
    for (Pieces pieces(local, remote, most); !pieces.empty();) {
      const Piece piece = pieces.take();
      ASSERT_LE(piece.remote.length, most);
      ASSERT_EQ(piece.local.bytes(), piece.remote.length);
      std::uint64_t offset = 0;
      for (std::uint32_t i = 0; i < piece.local.count(); ++i) {
        std::memcpy(&to[piece.remote.address + offset], &from[piece.local[i].address],
                    piece.local[i].length);
        offset += piece.local[i].length;
      }
      moved += offset;
    }
    ASSERT_EQ(moved, bytes) << "seed " << seed;
    ASSERT_EQ(to, expected) << "seed " << seed;
  }
}

}  // namespace
}  // namespace viaduct::fabric
