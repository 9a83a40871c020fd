// When posts may wait for attached_processes, and for how long.
#include "vipl/session/post_batching.h"

#include <gtest/gtest.h>

namespace viaduct::vipl {
namespace {

constexpr std::uint64_t kSoon = PostBatching::kSoonNs;
constexpr std::uint64_t kLate = PostBatching::kSoonNs + 1;

class PostBatchingTest : public testing::Test {
 protected:
  // The program posts, and looks `after` ns later, so often.
  void does(std::uint32_t times, std::uint64_t after) {
    for (std::uint32_t i = 0; i < times; ++i) {
      post_batching_.posts(now_);
      now_ += after;
      post_batching_.looks(now_);
    }
  }
  bool may_wait() { return post_batching_.posts(now_); }

  PostBatching post_batching_;
  std::uint64_t now_ = 1'000'000;
};

TEST_F(PostBatchingTest, NothingWaitsBeforeItIsKnown) {
  EXPECT_FALSE(may_wait());
  does(PostBatching::kSure - 1, kSoon);
  EXPECT_FALSE(may_wait());
  post_batching_.looks(now_);
  EXPECT_TRUE(may_wait());
}

TEST_F(PostBatchingTest, WhoComesLateOnceMustShowItAgain) {
  does(PostBatching::kSure, kSoon);
  does(1, kLate);
  does(PostBatching::kSure - 1, kSoon);
  EXPECT_FALSE(may_wait());
  post_batching_.looks(now_);
  EXPECT_TRUE(may_wait());
}

TEST_F(PostBatchingTest, LooksWithoutPostsTeachNothing) {
  for (std::uint32_t i = 0; i < 2 * PostBatching::kSure; ++i) post_batching_.looks(now_);
  EXPECT_FALSE(may_wait());
  post_batching_.looks(now_);
  does(PostBatching::kSure, kSoon);
  for (int i = 0; i < 10; ++i) post_batching_.looks(now_ += 10 * kLate);
  EXPECT_TRUE(may_wait());
}

TEST_F(PostBatchingTest, WhomTheProgressThreadHadToHelpMustShowItAgain) {
  does(PostBatching::kSure, kSoon);
  ASSERT_TRUE(may_wait());
  post_batching_.waits();
  post_batching_.is_away();
  EXPECT_FALSE(may_wait());
}

TEST_F(PostBatchingTest, AProgressThreadThatHadNothingToSendTakesNothingAway) {
  does(PostBatching::kSure, kSoon);
  post_batching_.is_away();
  EXPECT_TRUE(may_wait());
}

TEST_F(PostBatchingTest, OnlySoManyWait) {
  does(PostBatching::kSure, kSoon);
  for (std::uint32_t i = 0; i < PostBatching::kMostPosts; ++i) {
    ASSERT_TRUE(may_wait()) << i;
    post_batching_.waits();
  }
  EXPECT_FALSE(may_wait());
  post_batching_.sent();
  EXPECT_TRUE(may_wait());
}

TEST_F(PostBatchingTest, WhoLooksInVainHasNothingMoreToPost) {
  does(PostBatching::kSure, kSoon);
  EXPECT_FALSE(post_batching_.holds_on());  // nothing waits
  ASSERT_TRUE(may_wait());
  post_batching_.waits();
  for (std::uint32_t i = 1; i < PostBatching::kLooks; ++i) EXPECT_TRUE(post_batching_.holds_on()) << i;
  EXPECT_FALSE(post_batching_.holds_on());
  post_batching_.looks(now_);
  // A post in between begins the count anew.
  ASSERT_TRUE(may_wait());
  post_batching_.waits();
  EXPECT_TRUE(post_batching_.holds_on());
  ASSERT_TRUE(may_wait());
  post_batching_.waits();
  for (std::uint32_t i = 1; i < PostBatching::kLooks; ++i) EXPECT_TRUE(post_batching_.holds_on()) << i;
  EXPECT_FALSE(post_batching_.holds_on());
}

}  // namespace
}  // namespace viaduct::vipl
