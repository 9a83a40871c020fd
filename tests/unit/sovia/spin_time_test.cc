// How long a thread spins, by what its waits have taken.
#include "sovia/lane/spin_time.h"

#include <gtest/gtest.h>

namespace viaduct::sovia {
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

TEST(SpinTime, IsShortWhereWaitsAreLong) {
  SpinTime time;
  waits(time, 1'000'000, 10);
  EXPECT_EQ(time.ns(kMost), SpinTime::kLeast);
}

TEST(SpinTime, ComesBackWithinAFewWaits) {
  SpinTime time;
  waits(time, 1'000'000, 10);
  waits(time, 30'000, 3);
  EXPECT_GE(time.ns(kMost), 30'000u);
}

// A thread that waits for a lane and for a stream of the kernel's.
TEST(SpinTime, EndsWhereWaitsEndByTheKernel) {
  SpinTime time;
  for (int n = 0; n < 10; ++n) time.slept(150'000, kMost);
  for (int n = 0; n < 5; ++n) time.looked_elsewhere();
  EXPECT_EQ(time.ns(kMost), 0u);
  time.slept(30'000, kMost);
  EXPECT_EQ(time.ns(kMost), SpinTime::kLeast) << "a lane has ended a wait";
  for (int n = 0; n < 4; ++n) time.slept(30'000, kMost);
  EXPECT_GE(time.ns(kMost), 30'000u);
}

TEST(SpinTime, IsAtMostWhatTheUserAllows) {
  SpinTime time;
  EXPECT_EQ(time.ns(0), 0u);
  EXPECT_EQ(time.ns(5'000), 5'000u);
  for (int n = 0; n < 10; ++n) time.slept(3'000, 5'000);
  EXPECT_EQ(time.ns(5'000), 5'000u);
}

}  // namespace
}  // namespace viaduct::sovia
