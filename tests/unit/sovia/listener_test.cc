// The role of the thread that hears the lanes, with a NIC of the test's in place of the engine.
#include "sovia/lane/listener.h"

#include <gtest/gtest.h>
#include <vipl/vipl_ext.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <utility>

#include "sovia/lane/engine.h"
#include "sovia/process/clock.h"
#include "sovia/process/libc.h"
#include "sovia/process/options.h"
#include "sovia/process/wake_event.h"

namespace {

alignas(viaduct::sovia::ProcessNic) std::byte g_nic_memory[sizeof(viaduct::sovia::ProcessNic)];
std::atomic<std::uint32_t> g_turns;
std::atomic<int> g_arrivals;  // for progress() to find
bool g_has_lanes;
viaduct::sovia::Options g_options;
// What happens while the background thread looks whether there are lanes, and in its sleep on the queue.
std::function<void()> g_meanwhile, g_in_sleep;

}  // namespace

int VipxPoll(VIP_CQ_HANDLE, pollfd* fds, unsigned long count, const timespec* left, const sigset_t*) {
  if (g_in_sleep) g_in_sleep();
  return g_arrivals != 0 ? 0 : viaduct::sovia::libc::ppoll(fds, count, left, nullptr);
}

namespace viaduct::sovia {

const Options& options() { return g_options; }

bool progress() {
  ++g_turns;
  return g_arrivals.exchange(0) != 0;
}

namespace engine {

ProcessNic* nic() { return reinterpret_cast<ProcessNic*>(g_nic_memory); }
bool has_lanes() {
  if (g_meanwhile) std::exchange(g_meanwhile, nullptr)();
  return g_has_lanes;
}
std::uint32_t turns() { return g_turns; }
void lost(ProcessNic&) {}

}  // namespace engine

namespace {

constexpr std::uint64_t kMs = 1'000'000;

class ListenerTest : public testing::Test {
 protected:
  ListenerTest() {
    libc::prepare();
    listener::after_fork_in_child();
    g_has_lanes = true;
    g_options = {};
    g_arrivals = 0;
    g_meanwhile = g_in_sleep = nullptr;
    fds_[0] = {wake_event::make(), POLLIN, 0};
    sleep(1);  // the turns so far are no news
  }
  ~ListenerTest() override { own_descriptors::close(fds_[0].fd); }

  // Returns how long it was.
  std::uint64_t sleep(std::uint64_t due, bool must_hear = false) {
    const std::uint64_t begin = now_ns();
    listener::sleep(fds_, 1, due, must_hear);
    return now_ns() - begin;
  }
  bool is_rung() { return wake_event::empty(fds_[0].fd); }
  // Whether the role is nobody's or the background thread's: then it is taken, and left again.
  static bool is_free() {
    const bool taken = listener::take(false);
    if (taken) listener::leave(true);
    return taken;
  }

  pollfd fds_[1];
};

TEST_F(ListenerTest, OneThreadOfTheProgramHasTheRole) {
  EXPECT_TRUE(listener::take(false));
  EXPECT_TRUE(listener::take(true));
  EXPECT_FALSE(listener::take(false));
  EXPECT_FALSE(listener::leave(false));
  EXPECT_TRUE(listener::leave(true));
  EXPECT_TRUE(listener::take(false));
}

TEST_F(ListenerTest, AThreadThatLeavesSaysThatTheRoleIsFree) {
  EXPECT_TRUE(listener::leave(false));
  g_has_lanes = false;
  EXPECT_FALSE(listener::leave(false));
}

TEST_F(ListenerTest, NobodyHearsWithoutLanes) {
  g_has_lanes = false;
  EXPECT_FALSE(listener::take(false));
  g_in_sleep = [] { ADD_FAILURE() << "the background thread hears"; };
  EXPECT_GE(sleep(now_ns() + 20 * kMs, true), 20 * kMs);
}

TEST_F(ListenerTest, NobodyHearsWhereOtherThreadsProcessArrivals) {
  g_options.handling = Handling::kHandler;
  EXPECT_FALSE(listener::take(false));
  g_in_sleep = [] { ADD_FAILURE() << "the background thread hears"; };
  sleep(now_ns() + kMs, true);
}

// The thread sleeps on, elsewhere: it would keep the role from the background thread when there are lanes again.
TEST_F(ListenerTest, TheRoleEndsWithTheLanes) {
  ASSERT_TRUE(listener::take(false));
  g_has_lanes = false;
  EXPECT_FALSE(listener::take(true));
  g_has_lanes = true;
  EXPECT_TRUE(listener::take(false));
}

TEST_F(ListenerTest, TheBackgroundThreadHearsWhileTheProgramIsAway) {
  int sleeps = 0;
  g_in_sleep = [&] {
    if (++sleeps == 1) g_arrivals = 1;
  };
  sleep(now_ns() + 20 * kMs);
  EXPECT_EQ(sleeps, 2);
  EXPECT_EQ(g_arrivals, 0);
  EXPECT_FALSE(is_rung());
  EXPECT_TRUE(is_free());
}

TEST_F(ListenerTest, AThreadOfTheProgramTakesTheRoleFromTheBackgroundThread) {
  g_in_sleep = [] { EXPECT_TRUE(listener::take(false)); };
  sleep(kNever);
  EXPECT_TRUE(is_rung());
  EXPECT_FALSE(is_free());
  listener::leave(true);
}

TEST_F(ListenerTest, ProgressOfTheProgramEndsTheHearing) {
  g_in_sleep = [] {
    ++g_turns;
    g_arrivals = 1;
  };
  sleep(kNever);
  g_arrivals = 0;
  g_in_sleep = [] { ADD_FAILURE() << "the background thread hears"; };
  sleep(kNever);
}

// In each of these the background thread may soon be the only one to hear, and no event tells it so.
TEST_F(ListenerTest, NoSleepWithoutTheRoleIsLongerThanTheLease) {
  ASSERT_TRUE(listener::take(false));
  const std::uint64_t long_sleep = sleep(kNever);
  EXPECT_GE(long_sleep, listener::kProgramLeaseNs);
  EXPECT_LT(long_sleep, 5 * listener::kProgramLeaseNs);
  EXPECT_LT(sleep(kNever, true), 5 * listener::kProgramLeaseNs);
  listener::leave(true);

  ++g_turns;
  const std::uint64_t away_sleep = sleep(kNever);
  EXPECT_GE(away_sleep, listener::kAwayLeaseNs);
  EXPECT_LT(away_sleep, listener::kProgramLeaseNs);
}

TEST_F(ListenerTest, TheLeaseHoldsWhenAThreadTakesTheRoleAtTheSameMoment) {
  g_meanwhile = [] { EXPECT_TRUE(listener::take(false)); };
  EXPECT_LT(sleep(kNever), 5 * listener::kProgramLeaseNs);
  listener::leave(true);
}

TEST_F(ListenerTest, AHurryShortensOneLease) {
  EXPECT_TRUE(listener::hurry());
  EXPECT_FALSE(listener::hurry());
  ++g_turns;
  EXPECT_GE(sleep(kNever), listener::kHurryLeaseNs);
  EXPECT_TRUE(listener::hurry());
}

TEST_F(ListenerTest, TheBackgroundThreadHearsAtOnceIfItMust) {
  ++g_turns;
  bool hears = false;
  g_in_sleep = [&] { hears = true; };
  sleep(now_ns() + kMs, true);
  EXPECT_TRUE(hears);
}

TEST_F(ListenerTest, AChildHasNoListener) {
  ASSERT_TRUE(listener::take(false));
  listener::after_fork_in_child();
  EXPECT_TRUE(listener::take(false));
}

// Threads that come and go in all orders: there is never more than one, and the role is free when all have left.
TEST_F(ListenerTest, IsOnesAtATimeWhateverThreadsDo) {
  std::atomic<int> listeners{0};
  std::atomic<bool> stop{false};
  const auto visit = [&] {
    while (!stop) {
      const bool has = listener::take(false);
      if (has) {
        EXPECT_EQ(++listeners, 1);
        --listeners;
      }
      listener::leave(has);
    }
  };
  std::thread one(visit), other(visit);
  for (const std::uint64_t end = now_ns() + 200 * kMs; now_ns() < end;) {
    sleep(now_ns() + kMs / 10);
    is_rung();
  }
  stop = true;
  one.join();
  other.join();
  EXPECT_TRUE(is_free());
}

}  // namespace
}  // namespace viaduct::sovia
