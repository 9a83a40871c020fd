// How long a thread spins, by what its waits have taken.
#include "kagent/contract/spin_time.h"

#include <gtest/gtest.h>

namespace viaduct::idle {
namespace {

constexpr std::uint64_t kMost = 200'000;

void waits(SpinTime& time, std::uint64_t ns, unsigned times) {
  for (unsigned n = 0; n < times; ++n) {
    if (ns > time.ns(kMost)) time.slept(ns, kMost);
  }
}

TEST(SpinTime, GrowsToWhatWaitsTake) {
  SpinTime time;
  EXPECT_EQ(time.ns(kMost), SpinTime::kFirst);
  waits(time, 150'000, 10);
  EXPECT_GE(time.ns(kMost), 150'000u) << "the thread sleeps where it need not";
  EXPECT_LE(time.ns(kMost), kMost);
}

TEST(SpinTime, EndsWhereWaitsAreLong) {
  SpinTime time;
  waits(time, 1'000'000, 10);
  EXPECT_EQ(time.ns(kMost), 0u);
}

TEST(SpinTime, ComesBackWithinAFewWaits) {
  SpinTime time;
  waits(time, 1'000'000, 10);
  waits(time, 30'000, 4);
  EXPECT_GE(time.ns(kMost), 30'000u);
}

TEST(SpinTime, AWakeUpIsNotTakenForTheAwaitedThing) {
  SpinTime time;
  waits(time, 1'000'000, 10);
  for (int n = 0; n < 10; ++n) time.slept(SpinTime::kWakeUp + 45'000, 50'000);
  EXPECT_EQ(time.ns(50'000), 50'000u);
}

TEST(SpinTimes, WaitsOnOneWordDoNotTeachAnother) {
  SpinTimes times;
  alignas(64) char words[2][64]{};
  times.of(words[0]).slept(1'000'000, kMost);
  EXPECT_LT(times.of(words[0]).ns(kMost), SpinTime::kFirst);
  EXPECT_EQ(times.of(words[1]).ns(kMost), SpinTime::kFirst);
  times.clear();
  EXPECT_EQ(times.of(words[0]).ns(kMost), SpinTime::kFirst);
}

TEST(SpinTime, IsAtMostWhatTheUserAllows) {
  SpinTime time;
  EXPECT_EQ(time.ns(0), 0u);
  EXPECT_EQ(time.ns(5'000), 5'000u);
  for (int n = 0; n < 10; ++n) time.slept(3'000, 5'000);
  EXPECT_EQ(time.ns(5'000), 5'000u);
}

}  // namespace
}  // namespace viaduct::idle
