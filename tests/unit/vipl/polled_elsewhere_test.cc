#include "vipl/granted/polled_elsewhere.h"

#include <gtest/gtest.h>

namespace viaduct::vipl {
namespace {

constexpr std::uint32_t kPolled = PolledElsewhere::kTurnsOfAPoller;

void sleep(PolledElsewhere& elsewhere, unsigned times, std::uint32_t turns) {
  for (unsigned i = 0; i < times; ++i) {
    EXPECT_FALSE(elsewhere.leaves());
    elsewhere.slept(turns);
  }
}

TEST(PolledElsewhere, StaysWhileNoOtherThreadPolls) {
  PolledElsewhere elsewhere;
  sleep(elsewhere, 10 * PolledElsewhere::kSleepsInVain, kPolled - 1);
}

TEST(PolledElsewhere, LeavesAfterSleepsInVainAndTriesAnew) {
  PolledElsewhere elsewhere;
  for (int again = 0; again < 3; ++again) {
    sleep(elsewhere, PolledElsewhere::kSleepsInVain, kPolled);
    EXPECT_TRUE(elsewhere.leaves());
  }
}

TEST(PolledElsewhere, StaysWhereHalfOfTheSleepsAreOfUse) {
  PolledElsewhere elsewhere;
  for (unsigned i = 0; i < 10 * PolledElsewhere::kSleepsInVain; ++i) sleep(elsewhere, 1, i % 2 != 0 ? kPolled : 0);
}

}  // namespace
}  // namespace viaduct::vipl
