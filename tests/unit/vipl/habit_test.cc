// When posts may wait for company, and for how long.
#include "vipl/session/post_batching.h"

#include <gtest/gtest.h>

namespace viaduct::vipl {
namespace {

constexpr std::uint64_t kSoon = Habit::kSoonNs;
constexpr std::uint64_t kLate = Habit::kSoonNs + 1;

class HabitTest : public testing::Test {
 protected:
  // The program posts, and looks `after` ns later, so often.
  void does(std::uint32_t times, std::uint64_t after) {
    for (std::uint32_t i = 0; i < times; ++i) {
      habit_.posts(now_);
      now_ += after;
      habit_.looks(now_);
    }
  }
  bool may_wait() { return habit_.posts(now_); }

  Habit habit_;
  std::uint64_t now_ = 1'000'000;
};

TEST_F(HabitTest, NothingWaitsBeforeItIsKnown) {
  EXPECT_FALSE(may_wait());
  does(Habit::kSure - 1, kSoon);
  EXPECT_FALSE(may_wait());
  habit_.looks(now_);
  EXPECT_TRUE(may_wait());
}

TEST_F(HabitTest, WhoComesLateOnceMustShowItAgain) {
  does(Habit::kSure, kSoon);
  does(1, kLate);
  does(Habit::kSure - 1, kSoon);
  EXPECT_FALSE(may_wait());
  habit_.looks(now_);
  EXPECT_TRUE(may_wait());
}

TEST_F(HabitTest, LooksWithoutPostsTeachNothing) {
  for (std::uint32_t i = 0; i < 2 * Habit::kSure; ++i) habit_.looks(now_);
  EXPECT_FALSE(may_wait());
  habit_.looks(now_);
  does(Habit::kSure, kSoon);
  for (int i = 0; i < 10; ++i) habit_.looks(now_ += 10 * kLate);
  EXPECT_TRUE(may_wait());
}

TEST_F(HabitTest, WhomTheStandInHadToHelpMustShowItAgain) {
  does(Habit::kSure, kSoon);
  ASSERT_TRUE(may_wait());
  habit_.waits();
  habit_.is_away();
  EXPECT_FALSE(may_wait());
}

TEST_F(HabitTest, AStandInThatHadNothingToSendTakesNothingAway) {
  does(Habit::kSure, kSoon);
  habit_.is_away();
  EXPECT_TRUE(may_wait());
}

TEST_F(HabitTest, OnlySoManyWait) {
  does(Habit::kSure, kSoon);
  for (std::uint32_t i = 0; i < Habit::kMostPosts; ++i) {
    ASSERT_TRUE(may_wait()) << i;
    habit_.waits();
  }
  EXPECT_FALSE(may_wait());
  habit_.sent();
  EXPECT_TRUE(may_wait());
}

TEST_F(HabitTest, WhoLooksInVainHasNothingMoreToPost) {
  does(Habit::kSure, kSoon);
  EXPECT_FALSE(habit_.holds_on());  // nothing waits
  ASSERT_TRUE(may_wait());
  habit_.waits();
  for (std::uint32_t i = 1; i < Habit::kLooks; ++i) EXPECT_TRUE(habit_.holds_on()) << i;
  EXPECT_FALSE(habit_.holds_on());
  habit_.looks(now_);
  // A post in between begins the count anew.
  ASSERT_TRUE(may_wait());
  habit_.waits();
  EXPECT_TRUE(habit_.holds_on());
  ASSERT_TRUE(may_wait());
  habit_.waits();
  for (std::uint32_t i = 1; i < Habit::kLooks; ++i) EXPECT_TRUE(habit_.holds_on()) << i;
  EXPECT_FALSE(habit_.holds_on());
}

}  // namespace
}  // namespace viaduct::vipl
