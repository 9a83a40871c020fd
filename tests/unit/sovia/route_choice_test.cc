// Lanes or the kernel for a service, by simulated trials: each route moves bytes at a rate of its own.
#include "sovia/background/route_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace viaduct::sovia {
namespace {

using Stage = RouteChoice::Stage;
using Answer = RouteChoice::Answer;
using Step = RouteChoice::Step;

constexpr std::uint64_t kMs = 1'000'000;

// A service with connections that move bytes all the time, by lanes where they have one.
class Service {
 public:
  Service(std::size_t connections, double kernel, double lane)
      : connections_(connections), kernel_rate_(kernel), lane_rate_(lane) {}

  // All connections ask, and get their lanes at once.
  void ask() {
    for (std::size_t n = 0; n < connections_; ++n) {
      const auto mark = static_cast<std::uint32_t>(n);
      if (n < laned_.size() && laned_[n]) continue;
      laned_.resize(connections_);
      const bool doubtful = n != 0 || (connections_ == 1 && !lone_by_agent);
      const Answer answer = choice.asked(
          {.doubtful = doubtful, .remembered = remembered.route == RouteMemory::Route::kKernel, .mark = mark}, now);
      laned_[n] = answer == Answer::kOpen;
      most_ = std::max(most_, lanes());
    }
  }
  std::size_t lanes() const { return static_cast<std::size_t>(std::count(laned_.begin(), laned_.end(), true)); }
  std::size_t most_lanes() const { return most_; }

  void run(std::uint64_t ns) {
    for (const std::uint64_t end = now + ns; now < end; now += kMs) {
      const double share = static_cast<double>(lanes()) / static_cast<double>(connections_);
      const double mixed = lanes() > 1 && share != 1 && mixed_percent != 0 ? kernel_rate_ * mixed_percent / 100 : 0;
      bytes_ += (mixed != 0 ? mixed : kernel_rate_ * (1 - share) + lane_rate_ * share) * kMs;
      if (now < choice.due()) continue;
      const Step step =
          choice.look({.bytes = static_cast<std::uint64_t>(bytes_), .opening = 0, .open = lanes(), .by_agent = lone_by_agent, .found = remembered}, now);
      ++looks;
      if (const auto finding = choice.take_finding(); finding.route != RouteMemory::Route::kUnknown) kept = finding;
      if (step == Step::kLeave) laned_.assign(connections_, false);
      if (step == Step::kLeave) left_at = now;
      if (step == Step::kAskAgain) ask();
    }
  }
  void let_peer_leave(std::uint64_t ns) {
    choice.peer_left(ns, now);
    laned_.assign(connections_, false);
  }
  // Long enough for a trial.
  void ask_and_run() {
    ask();
    run(300 * kMs);
  }
  void grow(std::size_t connections) { connections_ = connections; }
  void set_rates(double kernel, double lane) { kernel_rate_ = kernel, lane_rate_ = lane; }

  RouteChoice choice;
  std::uint64_t now = 1'000 * kMs;
  std::uint64_t left_at = 0;
  bool lone_by_agent = false;
  unsigned looks = 0;
  double mixed_percent = 0;  // of the kernel's rate, while some have lanes and some not; 0: in between
  RouteMemory::Finding remembered{}, kept{};

 private:
  std::size_t connections_;
  double kernel_rate_, lane_rate_;
  double bytes_ = 0;
  std::size_t most_ = 0;
  std::vector<bool> laned_;
};

TEST(RouteChoice, OneConnectionWithSmallMessagesGetsItsLaneAtOnce) {
  RouteChoice choice;
  EXPECT_EQ(choice.asked({}, 1), Answer::kOpen);
  EXPECT_EQ(choice.stage(), Stage::kUnknown);
  EXPECT_EQ(choice.look({.bytes = 100'000, .open = 1}, choice.due()), Step::kNone);
  RouteChoice::View view{.bytes = 100'000, .open = 1};
  for (int i = 0; i < 20; ++i) {
    view.bytes += 1'000'000;
    EXPECT_EQ(choice.look(view, choice.due()), Step::kNone) << "a lone lane is doubted that needs no agent";
  }
}

// A connection that gets its lane at once, and whose packets pass through the agent.
Service lone_by_agent(double kernel, double lane) {
  Service service(1, kernel, lane);
  service.lone_by_agent = true;
  service.ask();
  EXPECT_EQ(service.lanes(), 1u);
  return service;
}

TEST(RouteChoice, ALoneLaneByTheAgentIsComparedWhenItIsBusy) {
  Service slower = lone_by_agent(0.003, 0.0005);
  slower.run(500 * kMs);
  EXPECT_EQ(slower.choice.stage(), Stage::kKernel);
  EXPECT_EQ(slower.lanes(), 0u);
  Service faster = lone_by_agent(0.0015, 0.003);
  faster.run(500 * kMs);
  EXPECT_EQ(faster.choice.stage(), Stage::kLanes);
  EXPECT_EQ(faster.lanes(), 1u);
  const std::uint64_t left_at = faster.left_at;
  faster.run(20'000 * kMs);
  EXPECT_EQ(faster.left_at, left_at) << "a faster lane was left again";
}

TEST(RouteChoice, ALoneLaneByTheAgentThatDoesLittleIsLookedAtSeldom) {
  Service service = lone_by_agent(0.00001, 0.00001);
  service.run(60'000 * kMs);
  EXPECT_EQ(service.lanes(), 1u);
  EXPECT_EQ(service.left_at, 0u);
  EXPECT_LT(service.looks, 20u);
}

TEST(RouteChoice, FasterLanesStay) {
  Service service(16, 0.05, 0.08);
  service.ask_and_run();
  EXPECT_EQ(service.choice.stage(), Stage::kLanes);
  EXPECT_EQ(service.lanes(), 16u);
  service.run(20'000 * kMs);
  EXPECT_EQ(service.lanes(), 16u) << "lanes were left that are faster";
  EXPECT_EQ(service.left_at, 0u);
}

TEST(RouteChoice, EqualLanesStay) {
  Service service(16, 0.05, 0.05);
  service.ask();
  service.run(5'000 * kMs);
  EXPECT_EQ(service.lanes(), 16u);
}

TEST(RouteChoice, SlowerLanesAreLeft) {
  Service service(16, 0.08, 0.06);
  service.ask_and_run();
  EXPECT_EQ(service.choice.stage(), Stage::kKernel);
  EXPECT_EQ(service.lanes(), 0u);
  service.ask();
  EXPECT_EQ(service.lanes(), 0u) << "a lane was opened right after they were found slower";
}

TEST(RouteChoice, LanesThatStillGetFasterAreWaitedFor) {
  Service service(16, 1, 0.15);
  service.ask();
  while (service.choice.stage() != Stage::kLaneWindow) service.run(kMs);
  for (double rate = 0.15; rate < 1.2; rate *= 1.4) {
    service.set_rates(1, rate);
    service.run(RouteChoice::kWindowNs);
  }
  service.run(100 * kMs);
  EXPECT_EQ(service.choice.stage(), Stage::kLanes);
}

TEST(RouteChoice, AsksAgainLessAndLessOften) {
  Service service(16, 0.08, 0.06);
  service.ask();
  std::uint64_t last = 0, gap = 0;
  for (unsigned trials = 0; trials < 4; ++trials) {
    const std::uint64_t before = service.left_at;
    while (service.left_at == before) service.run(100 * kMs);
    if (last != 0) {
      EXPECT_GT(service.left_at - last, gap);
      gap = service.left_at - last;
      EXPECT_GE(gap, RouteChoice::kDoubtNs);
    }
    last = service.left_at;
  }
}

TEST(RouteChoice, LanesThatHaveBecomeFasterAreFound) {
  Service service(16, 0.08, 0.06);
  service.ask_and_run();
  service.set_rates(0.08, 0.12);
  service.run(RouteChoice::kDoubtNs + 500 * kMs);
  EXPECT_EQ(service.lanes(), 16u);
}

TEST(RouteChoice, LanesThatHaveBecomeSlowerAreLeft) {
  Service service(16, 0.05, 0.08);
  service.ask_and_run();
  service.set_rates(0.05, 0.02);
  service.run(2'000 * kMs);
  EXPECT_EQ(service.lanes(), 0u);
}

TEST(RouteChoice, LessToDoEndsInLanesAgain) {
  Service service(16, 0.05, 0.08);
  service.ask_and_run();
  service.set_rates(0.01, 0.01);
  service.run(3'000 * kMs);
  EXPECT_EQ(service.lanes(), 16u);
}

TEST(RouteChoice, OfManyConnectionsSomeTry) {
  Service service(256, 0.08, 0.06);
  service.ask();
  service.run(500 * kMs);
  EXPECT_EQ(service.lanes(), 0u);
  EXPECT_LE(service.most_lanes(), RouteChoice::kFirstLanes);
}

TEST(RouteChoice, OfManyConnectionsAllGetFasterLanes) {
  Service service(256, 0.05, 0.08);
  service.ask();
  service.run(1'000 * kMs);
  EXPECT_EQ(service.choice.stage(), Stage::kLanes);
  EXPECT_EQ(service.lanes(), 256u);
}

TEST(RouteChoice, LanesThatAreOnlyFasterWhenAllHaveThemAreFound) {
  Service service(50, 0.05, 0.08);
  service.mixed_percent = 90;
  service.ask();
  service.run(1'000 * kMs);
  EXPECT_EQ(service.choice.stage(), Stage::kLanes);
  EXPECT_EQ(service.lanes(), 50u);
}

TEST(RouteChoice, ManyMoreConnectionsAreComparedAnew) {
  Service service(16, 0.05, 0.08);
  service.ask_and_run();
  service.grow(64);
  service.ask();
  service.set_rates(0.08, 0.06);
  service.run(3'000 * kMs);
  EXPECT_EQ(service.lanes(), 0u);
}

TEST(RouteChoice, AServiceThatDoesLittleNeedsNoTrial) {
  Service service(4, 0.000'001, 0.000'001);
  service.ask_and_run();
  EXPECT_EQ(service.choice.stage(), Stage::kKernelWindow) << "it is asked each time, and opens a lane at the end";
  RouteChoice choice;
  EXPECT_EQ(choice.asked({.doubtful = true}, kMs), Answer::kLater);
  std::uint64_t now = kMs;
  Step step = Step::kNone;
  while (step == Step::kNone) step = choice.look({.bytes = 0}, now += kMs);
  EXPECT_EQ(step, Step::kAskAgain);
  EXPECT_EQ(choice.asked({}, now), Answer::kOpen);
}

TEST(RouteChoice, WhatItFindsIsKept) {
  Service slower(16, 0.08, 0.06), faster(16, 0.05, 0.08);
  slower.ask_and_run();
  EXPECT_EQ(slower.kept.route, RouteMemory::Route::kKernel);
  EXPECT_GE(slower.kept.until, slower.left_at + RouteChoice::kRememberWaits * RouteChoice::kDoubtNs);
  EXPECT_EQ(slower.kept.wait_ns, 2 * RouteChoice::kDoubtNs);
  EXPECT_EQ(slower.choice.load(), RouteMemory::load_of(16));
  faster.ask_and_run();
  EXPECT_EQ(faster.kept.route, RouteMemory::Route::kLanes);
}

TEST(RouteChoice, AKernelThatIsRememberedNeedsNoTrial) {
  Service service(16, 0.08, 0.06);
  service.remembered = {.route = RouteMemory::Route::kKernel, .until = service.now + 60'000 * kMs, .wait_ns = RouteChoice::kDoubtNs};
  service.ask_and_run();
  EXPECT_EQ(service.choice.stage(), Stage::kKernel);
  EXPECT_EQ(service.most_lanes(), 0u) << "a NIC was needed";
  service.run(59'000 * kMs);
  EXPECT_EQ(service.most_lanes(), 0u);
  service.run(2'000 * kMs);
  EXPECT_GT(service.most_lanes(), 0u) << "it is never doubted";
}

TEST(RouteChoice, AKernelThatWasRememberedLongAgoIsTriedAndDoubtedLess) {
  Service service(16, 0.08, 0.06);
  service.remembered = {.route = RouteMemory::Route::kKernel, .until = 1, .wait_ns = 4 * RouteChoice::kDoubtNs};
  service.ask_and_run();
  EXPECT_EQ(service.kept.wait_ns, 8 * RouteChoice::kDoubtNs);
}

TEST(RouteChoice, LanesThatAreRememberedAreOpenedAtOnce) {
  Service service(256, 0.05, 0.08);
  service.remembered = {.route = RouteMemory::Route::kLanes, .until = ~0ull};
  service.ask();
  service.run(120 * kMs);
  EXPECT_EQ(service.choice.stage(), Stage::kLanes);
  EXPECT_EQ(service.lanes(), 256u);
}

TEST(RouteChoice, LanesThatAreRememberedAndSlowAreLeft) {
  Service service(16, 0.08, 0.04);
  service.remembered = {.route = RouteMemory::Route::kLanes, .until = ~0ull};
  service.ask();
  service.run(2'000 * kMs);
  EXPECT_EQ(service.lanes(), 0u);
  EXPECT_EQ(service.kept.route, RouteMemory::Route::kKernel);
}

TEST(RouteChoice, RememberedLanesThatThePeerLeavesAreTriedNextTime) {
  Service service(16, 0.08, 0.06);
  service.remembered = {.route = RouteMemory::Route::kLanes, .until = ~0ull};
  service.ask();
  while (service.choice.stage() != Stage::kOpening) service.run(kMs);
  service.let_peer_leave(100 * kMs);
  service.run(400 * kMs);
  EXPECT_EQ(service.choice.stage(), Stage::kKernel);
  EXPECT_EQ(service.kept.route, RouteMemory::Route::kKernel);
}

TEST(RouteChoice, ThePeersWordIsKeptForOneWaitHoweverLongItIsMeant) {
  Service service(16, 0.05, 0.08);
  service.ask_and_run();
  service.choice.peer_left(RouteChoice::kMostDoubtNs, service.now);
  const RouteMemory::Finding kept = service.choice.take_finding();
  EXPECT_EQ(kept.route, RouteMemory::Route::kKernel);
  EXPECT_EQ(kept.until, service.now + RouteChoice::kRememberWaits * RouteChoice::kDoubtNs);
}

TEST(RouteChoice, ThePeersWordCounts) {
  RouteChoice choice;
  choice.peer_left(100 * kMs, 1'000 * kMs);
  EXPECT_EQ(choice.asked({}, 1'050 * kMs), Answer::kRefuse);
  EXPECT_EQ(choice.look({}, 1'100 * kMs), Step::kAskAgain);
  EXPECT_EQ(choice.asked({}, 1'101 * kMs), Answer::kLater);
}

}  // namespace
}  // namespace viaduct::sovia
