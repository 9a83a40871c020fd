// When lanes are dearer than the kernel: a process whose packets end sleeps, on a host whose processors are more or less
// wanted.
#include "sovia/background/lane_price.h"

#include <gtest/gtest.h>

namespace viaduct::sovia {
namespace {

struct Process {
  LanePrice::Family own;
  LanePrice price;
  LanePrice::Counts counts{};
  std::uint64_t now = 1'000 * kMs;
  std::uint64_t waited = 0;  // for processors, in ns
  unsigned asked = 0;        // how often the host was asked for that
  bool host_tells = true;

  Process() : price(own) {}
  explicit Process(LanePrice::Family& family) : price(family) {}

  // Runs for so long; of a hundred packets so many end sleeps. Returns whether lanes were found dear.
  bool runs(std::uint64_t ns, std::uint64_t packets_a_ms, std::uint64_t sleeps_percent, std::uint64_t waited_percent) {
    bool found = false;
    for (const std::uint64_t end = now + ns; now < end; now += kMs) {
      counts.packets += packets_a_ms;
      counts.sleeps = counts.sleeps + packets_a_ms * sleeps_percent / 100;
      waited += kMs * waited_percent / 100;
      price.look(counts, now, [this]() -> std::optional<std::uint64_t> {
        ++asked;
        if (!host_tells) return {};
        return waited;
      });
      found |= price.is_dear(now);
    }
    return found;
  }
};

constexpr std::uint64_t kWhile = 10 * LanePrice::kWindowNs;

TEST(LanePrice, IsHighWherePacketsEndSleepsAndProcessorsAreShort) {
  Process process;
  EXPECT_TRUE(process.runs(kWhile, 10, 90, 80));
  EXPECT_TRUE(process.price.is_dear(process.now));
  EXPECT_FALSE(process.price.is_dear(process.price.until()));
}

TEST(LanePrice, IsLowWherePacketsAreFoundOrProcessorsAreFree) {
  Process process;
  EXPECT_FALSE(process.runs(kWhile, 100, 5, 95));
  EXPECT_EQ(process.asked, 0u) << "the host was asked where it did not matter";
  EXPECT_FALSE(process.runs(kWhile, 100, 100, 20));
  EXPECT_FALSE(process.price.is_dear(process.now));
}

TEST(LanePrice, IsHighForACrowdWhereProcessorsAreVeryShort) {
  Process process;
  process.counts.lanes = LanePrice::kCrowd;
  EXPECT_FALSE(process.runs(kWhile, 100, 0, 60));
  EXPECT_FALSE(process.runs(kWhile, 1, 0, 90)) << "the lanes are idle";
  process.counts.lanes = LanePrice::kCrowd - 1;
  EXPECT_FALSE(process.runs(kWhile, 100, 0, 90));
  process.counts.lanes = LanePrice::kCrowd;
  EXPECT_TRUE(process.runs(kWhile, 100, 0, 90));
}

// What is asked for when there are lanes already is a crowd that has carried no packets yet.
TEST(LanePrice, IsKnownBeforeACrowdHasLanes) {
  Process process;
  process.waited = 3'600'000 * kMs;
  process.counts.asks = true;
  EXPECT_FALSE(process.runs(kMs, 0, 0, 90));
  process.counts.lanes = LanePrice::kCrowd / 2;
  process.now += LanePrice::kWindowNs / 2;
  EXPECT_FALSE(process.runs(kMs, 0, 0, 90));
  process.counts.lanes = LanePrice::kCrowd;
  process.waited += LanePrice::kWindowNs;
  process.now += LanePrice::kWindowNs / 2;
  EXPECT_TRUE(process.runs(kMs, 0, 0, 90));
}

TEST(LanePrice, CountsSleepsOfAgentsThatItDoesNotSee) {
  Process process;
  EXPECT_FALSE(process.runs(kWhile, 100, 10, 90));
  process.counts.by_agent = true;
  EXPECT_TRUE(process.runs(kWhile, 100, 10, 90));
}

TEST(LanePrice, OfLanesThatCarryLittleDoesNotMatter) {
  Process process;
  for (unsigned n = 0; n < 100; ++n) {
    ++process.counts.packets, ++process.counts.sleeps;
    EXPECT_FALSE(process.runs(10 * kMs, 0, 0, 100));
  }
}

TEST(LanePrice, IsNotKnownWhereTheHostDoesNotTell) {
  Process process;
  process.host_tells = false;
  EXPECT_FALSE(process.runs(kWhile, 10, 90, 100));
}

TEST(LanePrice, NeedsTwoWindows) {
  Process process;
  process.waited = 3'600'000 * kMs;  // before this process began
  EXPECT_FALSE(process.runs(kWhile, 10, 90, 10));
}

TEST(LanePrice, IsThatOfTheWholeFamily) {
  LanePrice::Family family;
  Process lonely(family), busy(family);
  busy.host_tells = true;
  for (unsigned n = 0; n < 1000; ++n) {
    lonely.now = busy.now = std::max(lonely.now, busy.now);
    EXPECT_FALSE(lonely.runs(kMs, 1, 100, 90));
    EXPECT_FALSE(busy.runs(kMs, 20, 0, 90));
  }
  Process child(family);
  child.now = busy.now;
  ASSERT_TRUE(child.runs(kWhile, 100, 90, 90));
  EXPECT_TRUE(busy.price.is_dear(child.now)) << "each process finds it out by itself";
}

TEST(LanePrice, IsNotBelievedWhereItCantBe) {
  Process process;
  process.own.until = ~0ull;
  EXPECT_FALSE(process.price.is_dear(process.now)) << "a process could keep the others from lanes for ever";
  process.own.kernel_ns = ~0ull;
  EXPECT_TRUE(process.runs(kWhile, 10, 90, 80));
}

TEST(LanePrice, TheKernelIsUsedLongerEachTime) {
  Process process;
  std::uint64_t before = 0;
  for (unsigned times = 0; times < 4; ++times) {
    ASSERT_TRUE(process.runs(3 * LanePrice::kWindowNs, 10, 90, 80));
    const std::uint64_t left = process.price.until() - process.now;
    EXPECT_GT(left, before + before / 2);
    before = left;
    process.now = process.price.until();
  }
  process.now += LanePrice::kMostNs;  // lanes have been good for long
  ASSERT_TRUE(process.runs(3 * LanePrice::kWindowNs, 10, 90, 80));
  EXPECT_LE(process.price.until() - process.now, LanePrice::kFirstNs);
}

TEST(LaneFamily, HasOneProcessThatTriesFirst) {
  LanePrice::Family family;
  std::uint64_t now = 1'000 * kMs;
  EXPECT_TRUE(family.may_begin(now));
  EXPECT_FALSE(family.may_begin(now + 20 * kMs));
  family.lane_opened(now += 30 * kMs);
  EXPECT_FALSE(family.may_begin(now + LanePrice::kPricedNs - 1)) << "the price is not known yet";
  EXPECT_TRUE(family.may_begin(now + LanePrice::kPricedNs));
  EXPECT_TRUE(family.may_begin(now + LanePrice::kPricedNs)) << "all may, from now on";
}

TEST(LaneFamily, TriesSeldomWherePeersDoNotAnswer) {
  LanePrice::Family family;
  unsigned tries = 0;
  for (std::uint64_t ms = 1'000; ms < 61'000; ++ms) tries += family.may_begin(ms * kMs);
  EXPECT_GE(tries, 10u);
  EXPECT_LE(tries, 15u);
}

TEST(LaneFamily, WaitsWhereLanesAreDearAndTriesAgain) {
  LanePrice::Family family;
  Process process(family);
  ASSERT_TRUE(family.may_begin(process.now));
  family.lane_opened(process.now);
  ASSERT_TRUE(process.runs(kWhile, 10, 90, 80));
  EXPECT_FALSE(family.may_begin(process.price.until() - 1));
  EXPECT_TRUE(family.may_begin(process.price.until()));
  EXPECT_FALSE(family.may_begin(process.price.until()));
}

TEST(LaneFamily, WaitsWhereAPeerHasFoundLanesDearButNotForLong) {
  LanePrice::Family family;
  const std::uint64_t now = 1'000 * kMs;
  family.lane_opened(now);
  family.peer_left(now + 200 * kMs, LanePrice::kMostNs);
  EXPECT_FALSE(family.may_begin(now + LanePrice::kFirstNs));
  EXPECT_TRUE(family.may_begin(now + 200 * kMs + LanePrice::kFirstNs));
}

TEST(LaneFamily, BelievesNoTimesThatCantBe) {
  LanePrice::Family family;
  family.next_try = ~0ull;
  family.tries = ~0u;
  EXPECT_TRUE(family.may_begin(1'000 * kMs));
  family.opened = ~0ull;
  EXPECT_TRUE(family.may_begin(2'000 * kMs));
}

}  // namespace
}  // namespace viaduct::sovia
