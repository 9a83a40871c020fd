// The timer that stays set from one sleep to the next.
#include "vipl/granted/sleep_timer.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/timerfd.h>

#include "vipl/process/sys.h"

namespace viaduct::vipl {
namespace {

constexpr std::uint64_t kHour = 3'600'000'000'000, kMoment = 1'000'000;

class SleepTimerTest : public testing::Test {
 protected:
  SleepTimerTest() { timer_.open(); }
  ~SleepTimerTest() override { timer_.close(); }

  // How long until it goes off; 0: it is not set.
  std::uint64_t left() const {
    itimerspec spec{};
    EXPECT_EQ(timerfd_gettime(timer_.descriptor(), &spec), 0);
    return static_cast<std::uint64_t>(spec.it_value.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(spec.it_value.tv_nsec);
  }
  bool has_gone_off(int wait_ms = 0) const {
    pollfd fd{timer_.descriptor(), POLLIN, 0};
    return poll(&fd, 1, wait_ms) == 1;
  }

  SleepTimer timer_;
  const std::uint64_t now_ = sys::monotonic_ns();
};

TEST_F(SleepTimerTest, IsSetForTheFirstSleep) {
  EXPECT_EQ(timer_.prepare(now_, now_ + kHour), kNever) << "the sleep needs no timeout";
  EXPECT_GT(left(), kHour / 2);
  EXPECT_LE(left(), kHour);
}

TEST_F(SleepTimerTest, StaysWhereItIsForALaterEnd) {
  timer_.prepare(now_, now_ + kHour);
  EXPECT_EQ(timer_.prepare(now_ + 1, now_ + 9 * kHour), kNever);
  EXPECT_LE(left(), kHour);
  EXPECT_EQ(timer_.prepare(now_ + 2, kNever), kNever);
  EXPECT_NE(left(), 0u);
}

TEST_F(SleepTimerTest, NeverGoesOffLaterThanTheSleepIsToEnd) {
  timer_.prepare(now_, now_ + 9 * kHour);
  EXPECT_EQ(timer_.prepare(now_ + 1, now_ + kHour), kNever);
  EXPECT_LE(left(), kHour);
}

TEST_F(SleepTimerTest, EndsASleep) {
  const std::uint64_t due = sys::monotonic_ns() + kMoment;
  timer_.prepare(due - kMoment, due);
  EXPECT_TRUE(has_gone_off(-1));
  EXPECT_GE(sys::monotonic_ns(), due);
}

// Else the next sleep would end at once, and all that come after it.
TEST_F(SleepTimerTest, IsReadableNoMoreOnceAnotherSleepBegins) {
  const std::uint64_t due = sys::monotonic_ns() + kMoment;
  timer_.prepare(due - kMoment, due);
  ASSERT_TRUE(has_gone_off(-1));
  EXPECT_EQ(timer_.prepare(due, due + kHour), kNever);
  EXPECT_FALSE(has_gone_off());
  EXPECT_GT(left(), kHour / 2);
}

TEST_F(SleepTimerTest, IsReadableNoMoreInASleepWithoutAnEnd) {
  const std::uint64_t due = sys::monotonic_ns() + kMoment;
  timer_.prepare(due - kMoment, due);
  ASSERT_TRUE(has_gone_off(-1));
  EXPECT_EQ(timer_.prepare(due, kNever), kNever);
  EXPECT_FALSE(has_gone_off());
  EXPECT_EQ(left(), 0u);
}

TEST_F(SleepTimerTest, IsOfNoUseForAMereLook) {
  for (const std::uint64_t due : {std::uint64_t{0}, now_ - 1, now_}) {
    EXPECT_EQ(timer_.prepare(now_, due), due);
  }
  EXPECT_EQ(left(), 0u);
}

TEST_F(SleepTimerTest, WithoutItTheSleepHasATimeout) {
  timer_.close();
  EXPECT_EQ(timer_.descriptor(), -1);
  EXPECT_EQ(timer_.prepare(now_, now_ + kHour), now_ + kHour);
  EXPECT_EQ(timer_.prepare(now_, kNever), kNever);
}

}  // namespace
}  // namespace viaduct::vipl
