// Calls that bypass the library by a slot of their thread.
#include "sovia/socket/quick_bypass.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <thread>

#include "sovia/process/libc.h"
#include "sovia/socket/lane_life.h"
#include "sovia/sovia.h"
#include "tests/unit/sovia/laned_connection.h"

namespace viaduct::sovia::ready {
namespace {

class QuickBypass : public testing::Test {
 protected:
  void SetUp() override {
    libc::prepare();
    connection_.socket().demand.bypass_this_round();
  }
  bool call(Connection& connection) {
    ssize_t result;
    return quick_bypass::call(connection.socket(), result, [&] { return during_ ? during_() : 1; }, [] { return true; });
  }

  std::function<ssize_t()> during_;
  Connection connection_;
};

TEST_F(QuickBypass, IsForConnectionsThatStayWithTheKernel) {
  EXPECT_TRUE(call(connection_));
  Connection other;
  EXPECT_FALSE(call(other));
  LaneDemand::all_may_ask();
  EXPECT_FALSE(call(connection_));
}

TEST_F(QuickBypass, ShowsTheCallUnderWay) {
  EXPECT_FALSE(quick_bypass::is_in_use(connection_.socket()));
  Connection other;
  during_ = [&] {
    EXPECT_TRUE(quick_bypass::is_in_use(connection_.socket()));
    EXPECT_FALSE(quick_bypass::is_in_use(other.socket()));
    return 1;
  };
  EXPECT_TRUE(call(connection_));
  EXPECT_FALSE(quick_bypass::is_in_use(connection_.socket()));
}

TEST_F(QuickBypass, ShowsCallsOfOtherThreads) {
  std::atomic<bool> in{false}, goes_on{false};
  std::thread thread([&] {
    ssize_t result;
    quick_bypass::call(
        connection_.socket(), result,
        [&] {
          in = true;
          while (!goes_on) std::this_thread::yield();
          return 1;
        },
        [] { return true; });
  });
  while (!in) std::this_thread::yield();
  EXPECT_TRUE(quick_bypass::is_in_use(connection_.socket()));
  goes_on = true;
  thread.join();
  EXPECT_FALSE(quick_bypass::is_in_use(connection_.socket()));
}

// A handler that interrupts such a call may make one of its own, which must not hide the first.
TEST_F(QuickBypass, DoesNotHideTheCallThatItInterrupts) {
  Connection other;
  other.socket().demand.bypass_this_round();
  during_ = [&] {
    during_ = nullptr;
    EXPECT_FALSE(call(other));
    EXPECT_TRUE(quick_bypass::is_in_use(connection_.socket()));
    return 1;
  };
  EXPECT_TRUE(call(connection_));
}

TEST_F(QuickBypass, ServesManyThreadsOneAfterTheOther) {
  for (int n = 0; n < 600; ++n) {
    bool made = false;
    std::thread([&] { made = call(connection_); }).join();
    ASSERT_TRUE(made) << "no slot for thread " << n;
  }
}

TEST_F(QuickBypass, CarriesTheProgramsData) {
  connection_.peer_sends("abc");
  char data[4] = {};
  EXPECT_EQ(sovia_recv(connection_.fd(), data, 3, 0), 3);
  EXPECT_STREQ(data, "abc");
  EXPECT_EQ(sovia_send(connection_.fd(), "d", 1, MSG_NOSIGNAL), 1);
  EXPECT_EQ(::recv(connection_.peer(), data, 1, 0), 1);
  EXPECT_EQ(data[0], 'd');
  EXPECT_EQ(connection_.socket().demand.bursts(), 0u) << "the library has counted";
}

TEST(LaneDemand, CountsBurstsOfCallsThatGoTheSameWay) {
  LaneDemand demand;
  demand.count(Direction::kSending, 100);
  for (int i = 0; i < 3; ++i) demand.count(Direction::kReceiving, 1'000);
  EXPECT_EQ(demand.bursts(), 2u);
  demand.count(Direction::kSending, 100);
  EXPECT_EQ(demand.bursts(), 3u);
  EXPECT_EQ(demand.bytes(), 3'200u);
}

TEST(LaneDemand, IsNotEnoughInALongBurst) {
  LaneDemand demand;
  EXPECT_FALSE(demand.count(Direction::kSending, 100));
  for (int i = 0; i < 7; ++i) EXPECT_FALSE(demand.count(Direction::kReceiving, 8'192)) << "it may be longer";
  EXPECT_TRUE(demand.count(Direction::kReceiving, 8'192));
  LaneDemand other;
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(other.count(Direction::kReceiving, 8'192));
  EXPECT_TRUE(other.count(Direction::kSending, 100)) << "the burst has ended";
}

}  // namespace
}  // namespace viaduct::sovia::ready
