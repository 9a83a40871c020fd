// Calls that bypass the library by a slot of their thread.
#include "sovia/socket/quick_bypass.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <thread>

#include "sovia/process/libc.h"
#include "sovia/process/options.h"
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
}

using Verdict = LaneDemand::Verdict;

// The calls until one finds that the connection is worth a lane, at most a thousand, `bytes` each way in turn.
int calls_before_lane(LaneDemand& demand, std::uint64_t bytes) {
  int calls = 1;
  for (; calls < 1000; ++calls) {
    const Direction direction = calls % 2 != 0 ? Direction::kSending : Direction::kReceiving;
    if (demand.count(direction, bytes) == Verdict::kLane) break;
  }
  return calls;
}

TEST(LaneDemand, IsOfConnectionsThatAnswer) {
  LaneDemand small, larger;
  EXPECT_EQ(calls_before_lane(small, 100), static_cast<int>(options().upgrade_after));
  EXPECT_LT(calls_before_lane(larger, 20'000), 1000) << "they are no long bursts";
}

TEST(LaneDemand, IsNotOfLongBursts) {
  LaneDemand demand;
  EXPECT_EQ(demand.count(Direction::kSending, 100), Verdict::kNothing);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(demand.count(Direction::kReceiving, 8'192), Verdict::kNothing);
  EXPECT_EQ(demand.count(Direction::kReceiving, 8'192), Verdict::kBypass);
  EXPECT_EQ(demand.count(Direction::kReceiving, 1), Verdict::kBypass) << "it goes on";
  EXPECT_EQ(demand.count(Direction::kSending, 1), Verdict::kNothing) << "it has ended";
}

// Whatever they carry, if the program asks for lanes, or sends messages.
TEST(LaneDemand, IsOfAllConnectionsIfLanesAreChosen) {
  LaneDemand demand;
  Verdict verdict = Verdict::kNothing;
  for (int i = 0; i < 1000 && verdict == Verdict::kNothing; ++i) {
    verdict = demand.count(Direction::kSending, 40'000, true);
  }
  EXPECT_EQ(verdict, Verdict::kLane);
}

TEST(LaneDemand, BypassesTheLibraryForMoreCallsEachTime) {
  LaneDemand demand;
  int calls[2] = {};
  for (int& count : calls) {
    demand.bypass_burst();
    for (; demand.bypasses(); ++count) demand.count_bypass(1);
  }
  EXPECT_GT(calls[0], 0);
  EXPECT_EQ(calls[1], 2 * calls[0]);
}

}  // namespace
}  // namespace viaduct::sovia::ready
