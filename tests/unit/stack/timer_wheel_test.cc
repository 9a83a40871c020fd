#include "kagent/stack/timer_wheel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <vector>

namespace viaduct {
namespace {

struct Wheel {
  explicit Wheel(std::uint32_t count, std::uint64_t now)
      : state(std::make_unique<TimerWheel::State>()), entries(count) {
    wheel.attach(state.get(), entries.data());
    wheel.reset(now);
  }
  std::unique_ptr<TimerWheel::State> state;
  std::vector<TimerWheel::Entry> entries;
  TimerWheel wheel;
};

TEST(TimerWheel, FiresEachTimerOnceWhenItsTimeHasCome) {
  std::mt19937_64 random(1);
  Wheel w(500, 1'000'000);
  std::map<std::uint32_t, std::uint64_t> armed;
  std::uint64_t now = 1'000'000;
  for (unsigned round = 0; round < 20'000; ++round) {
    const auto timer = static_cast<std::uint32_t>(random() % 500);
    if (random() % 4 == 0) {
      w.wheel.disarm(timer);
      armed.erase(timer);
    } else {
      // From now to far beyond one turn of the wheel.
      const std::uint64_t deadline = now + 1 + random() % (1ull << (10 + random() % 22));
      w.wheel.arm(timer, deadline);
      armed[timer] = deadline;
    }
    if (round % 3 != 0) continue;
    now += random() % (1ull << (8 + random() % 20));  // to two turns and more
    w.wheel.advance(now, [&](std::uint32_t fired) {
      ASSERT_TRUE(armed.contains(fired));
      EXPECT_LE(armed[fired], now);
      armed.erase(fired);
    });
    for (const auto& [t, deadline] : armed) ASSERT_GT(deadline, now) << "timer " << t << " is late";
  }
}

TEST(TimerWheel, NextIsNeverLaterThanTheEarliestTimer) {
  std::mt19937_64 random(2);
  Wheel w(50, 0);
  for (unsigned round = 0; round < 2000; ++round) {
    std::uint64_t earliest = TimerWheel::kNever;
    for (std::uint32_t t = 0; t < 50; ++t) w.wheel.disarm(t);
    EXPECT_EQ(w.wheel.next(), TimerWheel::kNever);
    for (std::uint32_t t = 0; t < 1 + round % 50; ++t) {
      const std::uint64_t deadline = 1 + random() % (1ull << (1 + random() % 40));
      w.wheel.arm(t, deadline);
      earliest = std::min(earliest, deadline);
    }
    EXPECT_LE(w.wheel.next(), earliest);
  }
}

TEST(TimerWheel, TimerMayArmAnotherAndItselfWhenItFires) {
  Wheel w(3, 0);
  w.wheel.arm(0, 100);
  unsigned fired = 0;
  for (std::uint64_t now = 0; now < 1'000'000'000; now += 1'000'000) {
    w.wheel.advance(now, [&](std::uint32_t timer) {
      ++fired;
      w.wheel.arm(timer, now + 10'000'000);
      w.wheel.arm(2, now + 500'000'000'000);
    });
  }
  EXPECT_NEAR(fired, 100, 2);
  EXPECT_TRUE(w.wheel.armed(2));
}

}  // namespace
}  // namespace viaduct
