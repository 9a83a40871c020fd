// How long a thread spins, by what its waits have taken.
#include "kagent/contract/spin_time.h"

#include <gtest/gtest.h>

namespace viaduct::idle {
namespace {

constexpr std::uint64_t kMost = 200'000;

void waits(SpinTime& time, std::uint64_t ns, unsigned times) {
  for (unsigned n = 0; n < times; ++n) {
    if (ns > time.ns(kMost)) time.slept(ns, kMost, 1);
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
  for (int n = 0; n < 10; ++n) time.slept(SpinTime::kWakeUp + 45'000, 50'000, 1);
  EXPECT_EQ(time.ns(50'000), 50'000u);
}

// Four threads pass an exchange on, each of which sleeps at once: it takes four wake-ups, and hardly any time without.
TEST(SpinTime, ThreadsThatAllSleepLearnToSpin) {
  constexpr std::uint64_t kMostOfAgent = 50'000, kWork = 15'000;
  SpinTime times[SpinTime::kProgramsAndAgents];
  for (SpinTime& each : times) {
    for (int n = 0; n < 10; ++n) each.slept(1'000'000, kMostOfAgent, SpinTime::kProgramsAndAgents);
  }
  for (int n = 0; n < 10; ++n) {
    std::uint64_t waited = kWork;
    for (SpinTime& each : times) waited += each.ns(kMostOfAgent) < kWork ? SpinTime::kWakeUp : 0;
    for (SpinTime& each : times) {
      if (each.ns(kMostOfAgent) < waited) each.slept(waited, kMostOfAgent, SpinTime::kProgramsAndAgents);
    }
  }
  for (SpinTime& each : times) EXPECT_GE(each.ns(kMostOfAgent), kWork);
}

TEST(SpinTimes, WaitsOnOneWordDoNotTeachAnother) {
  SpinTimes times;
  alignas(64) char words[2][64]{};
  times.of(words[0]).slept(1'000'000, kMost, 1);
  EXPECT_LT(times.of(words[0]).ns(kMost), SpinTime::kFirst);
  EXPECT_EQ(times.of(words[1]).ns(kMost), SpinTime::kFirst);
  times.clear();
  EXPECT_EQ(times.of(words[0]).ns(kMost), SpinTime::kFirst);
}

TEST(SpinTime, IsAtMostWhatTheUserAllows) {
  SpinTime time;
  EXPECT_EQ(time.ns(0), 0u);
  EXPECT_EQ(time.ns(5'000), 5'000u);
  for (int n = 0; n < 10; ++n) time.slept(3'000, 5'000, 1);
  EXPECT_EQ(time.ns(5'000), 5'000u);
}

}  // namespace
}  // namespace viaduct::idle
