// How a spinning thread learns that others want its processor, and forgets it.
#include "kagent/contract/idle.h"
#include "kagent/contract/slice.h"

#include <gtest/gtest.h>

#include "vipl/process/idle.h"

namespace viaduct::idle {
namespace {

constexpr std::uint64_t kUs = 1'000, kMs = 1'000'000, kSecond = 1'000'000'000;

TEST(Crowd, IsNotSeenInShortTurnsOfOthers) {
  Crowd crowd;
  for (std::uint64_t now = kSecond; now < 2 * kSecond; now += 200 * kUs) {
    crowd.note(now, now + 200 * kUs);
    EXPECT_FALSE(crowd.is_here(now + 200 * kUs));
  }
}

// The kernel's own work, or the host's of a virtual machine, takes a processor now and then.
TEST(Crowd, IsNotSeenInALongTurnNowAndThen) {
  for (const std::uint64_t turn : {400 * kUs, kMs, 4 * kMs}) {
    Crowd crowd;
    for (std::uint64_t now = kSecond; now < 3 * kSecond; now += 10 * turn) {
      crowd.note(now, now + turn);
      EXPECT_FALSE(crowd.is_here(now + turn)) << turn;
    }
  }
}

TEST(Crowd, IsSeenInLongTurnsOneAfterTheOtherAndForgottenAfterAWhile) {
  Crowd crowd;
  crowd.note(kSecond, kSecond + 3 * kMs);
  EXPECT_FALSE(crowd.is_here(kSecond + 3 * kMs));
  crowd.note(kSecond + 3 * kMs, kSecond + 6 * kMs);
  EXPECT_TRUE(crowd.is_here(kSecond + 6 * kMs));
  EXPECT_TRUE(crowd.is_here(kSecond + 14 * kMs));
  EXPECT_FALSE(crowd.is_here(2 * kSecond));
}

// Looking costs a slice each time: of a crowd that stays at most a small part of the time is lost.
TEST(Crowd, ThatStaysIsSeldomLookedFor) {
  for (const std::uint64_t slice : {kMs, 4 * kMs, 30 * kMs}) {
    Crowd crowd;
    std::uint64_t now = kSecond, looks = 0;
    while (now < 101 * kSecond) {
      crowd.note(now, now + slice);
      ++looks;
      now += slice;
      while (crowd.is_here(now)) now += kMs;
    }
    EXPECT_LT(looks * slice, 4 * kSecond) << slice;
    EXPECT_GT(looks, 90u) << slice;  // and yet it would be seen within a second that it is gone
  }
}

TEST(Crowd, ThatWasGoneForLongIsANewOne) {
  Crowd crowd;
  for (std::uint64_t at = 1; at < 100; ++at) {
    const std::uint64_t now = at * 10 * kSecond;
    crowd.note(now, now + 6 * kMs);
    EXPECT_TRUE(crowd.is_here(now + 7 * kMs));
    EXPECT_FALSE(crowd.is_here(now + 100 * kMs));
  }
}

TEST(Slice, IsShortForATimeAndThenAsBefore) {
  const std::uint64_t before = slice(0);
  if (before <= kShortestSliceNs) GTEST_SKIP() << "the kernel has no slices to change";
  EXPECT_EQ(shorten_slice(0), before);
  EXPECT_EQ(slice(0), kShortestSliceNs);
  EXPECT_EQ(shorten_slice(0), 0u) << "it is short already";
  restore_slice(0, before);
  EXPECT_EQ(slice(0), before);
  slice(0, 2 * before);
  restore_slice(0, before);
  EXPECT_EQ(slice(0), 2 * before) << "the program has chosen another one meanwhile";
  slice(0, before);
}

TEST(FdRelocation, IsFrequentWhereProcessorsAreFew) {
  EXPECT_FALSE(gives_way(true, 2, kLooksOfProgram));
  EXPECT_TRUE(gives_way(true, 3, kLooksOfProgram));
  EXPECT_FALSE(gives_way(false, 3, kLooksOfProgram));
  EXPECT_TRUE(gives_way(false, kYieldEvery, kLooksOfProgram));
}

// A program that polls beside others for a second wakes up 600 times at most, and never sleeps for more than half
// of the time that it has waited already.
TEST(Doze, IsShortAtFirstAndSeldomLater) {
  EXPECT_EQ(vipl::doze_time(0), 100 * kUs);
  std::uint64_t waited = 0;
  std::uint32_t times = 0;
  for (; waited < kSecond; ++times) {
    const std::uint64_t doze = vipl::doze_time(times);
    if (times >= 3) EXPECT_LE(doze, waited / 2) << times;
    waited += doze;
  }
  EXPECT_LE(times, 600u);
  EXPECT_LE(vipl::doze_time(~std::uint32_t{0}), 2 * kMs);
}

}  // namespace
}  // namespace viaduct::idle
