// The routes of the two directions and the life of a lane, compared with what doc/sovia/states.md says of them.
#include "sovia/socket/route.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "sovia/socket/lane_link.h"

namespace viaduct::sovia {
namespace {

const std::string kPhaseNames[kPhases] = {"kernel", "drain", "lane", "kernel again"};
const std::string kEventNames[kRouteEvents] = {"lane changed", "start", "start behind kernel", "drained",
                                               "lane ended"};

std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> out;
  std::istringstream in(line);
  std::string cell;
  std::getline(in, cell, '|');
  while (std::getline(in, cell, '|')) {
    const auto from = cell.find_first_not_of(' '), to = cell.find_last_not_of(' ');
    out.push_back(from == std::string::npos ? "" : cell.substr(from, to - from + 1));
  }
  return out;
}

// The page's table under a heading: phase, event, next phase.
std::map<std::pair<std::string, std::string>, std::string> table(const std::string& heading) {
  std::map<std::pair<std::string, std::string>, std::string> out;
  std::ifstream page(STATES_PAGE);
  std::vector<std::string> events;
  bool here = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("#")) here = line.ends_with("# " + heading);
    if (!here || !line.starts_with("|") || line.starts_with("| ---")) continue;
    const auto row = cells(line);
    if (events.empty()) {
      events = row;
      continue;
    }
    for (std::size_t i = 1; i < row.size() && i < events.size(); ++i) out[{row[0], events[i]}] = row[i];
  }
  return out;
}

template <Direction direction>
void compare(const std::string& heading) {
  const auto page = table(heading);
  ASSERT_EQ(page.size(), kPhases * kRouteEvents);
  for (std::size_t phase = 0; phase < kPhases; ++phase) {
    for (std::size_t event = 0; event < kRouteEvents; ++event) {
      const auto next = next_phase(direction, Phase{static_cast<std::uint8_t>(phase)},
                                   RouteEvent{static_cast<std::uint8_t>(event)});
      const auto told = page.find({kPhaseNames[phase], kEventNames[event]});
      ASSERT_NE(told, page.end()) << kPhaseNames[phase] << ", " << kEventNames[event];
      EXPECT_EQ(next ? kPhaseNames[static_cast<std::size_t>(*next)] : "-", told->second)
          << heading << ": " << kPhaseNames[phase] << ", " << kEventNames[event];
    }
  }
}

TEST(Route, ReceivingIsAsThePageSays) { compare<Direction::kReceiving>("Receiving"); }
TEST(Route, SendingIsAsThePageSays) { compare<Direction::kSending>("Sending"); }

TEST(LaneLife, IsAsThePageSays) {
  const std::string stages[kLaneStages] = {"none", "asked", "open"};
  const std::string events[kLaneEvents] = {"asked", "refused", "opened", "over", "forked"};
  const auto page = table("Life of a lane");
  ASSERT_EQ(page.size(), kLaneStages * kLaneEvents);
  for (std::size_t stage = 0; stage < kLaneStages; ++stage) {
    for (std::size_t event = 0; event < kLaneEvents; ++event) {
      LaneLink link;
      link.stage.store(LaneStage{static_cast<std::uint8_t>(stage)});
      const bool can = link.on(LaneEvent{static_cast<std::uint8_t>(event)});
      const std::string next = can ? stages[static_cast<std::size_t>(link.stage.load())] : "-";
      const auto told = page.find({stages[stage], events[event]});
      ASSERT_NE(told, page.end()) << stages[stage] << ", " << events[event];
      EXPECT_EQ(next, told->second) << stages[stage] << ", " << events[event];
      if (!can) {
        EXPECT_EQ(link.stage, LaneStage{static_cast<std::uint8_t>(stage)});
      }
    }
  }
}

TEST(Route, GoesUpAndDown) {
  Route<Direction::kReceiving> route;
  EXPECT_EQ(route, Phase::kKernel);
  EXPECT_TRUE(route.on(RouteEvent::kStartBehindKernel));
  EXPECT_EQ(route, Phase::kDrain);
  EXPECT_TRUE(route.on(RouteEvent::kDrained));
  EXPECT_EQ(route, Phase::kLane);
  EXPECT_TRUE(route.on(RouteEvent::kLaneEnded));
  EXPECT_EQ(route, Phase::kKernelAgain);
  EXPECT_TRUE(route.on(RouteEvent::kLaneChanged));
  EXPECT_EQ(route, Phase::kKernel);
}

TEST(Route, StaysWhereAnEventCantHappen) {
  Route<Direction::kSending> route;
  EXPECT_FALSE(route.on(RouteEvent::kDrained));
  EXPECT_EQ(route, Phase::kKernel);
  route.on(RouteEvent::kLaneEnded);
  EXPECT_FALSE(route.on(RouteEvent::kStart));
  EXPECT_EQ(route, Phase::kKernelAgain);
}

}  // namespace
}  // namespace viaduct::sovia
