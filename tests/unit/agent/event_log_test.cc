// The agent's log of events, and which client is told of which.
#include "kagent/agent/reports/event_log.h"

#include <gtest/gtest.h>

#include "kagent/agent/process/log.h"
#include "tests/unit/agent/agent_fixture.h"

namespace viaduct {
namespace {

using report::Happened;

class EventLogTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { log::open(log::Target::kStandardError, "", "off"); }
  EventLogTest() : log(agent.nics) {}

  void note(uid_t user, std::uint32_t process) {
    log.note(Happened::kRefused, Peer(ucred{static_cast<pid_t>(process), user, 0}), "why");
  }
  std::vector<report::Event> page(bool all, uid_t user = 0) { return log.page(from, all, user, from); }

  TestAgent agent;
  EventLog log;
  std::uint64_t from = 0;
};

TEST_F(EventLogTest, UsersSeeTheirOwn) {
  note(1, 10), note(2, 20), note(1, 11);
  log.note(Happened::kInterfaceUp, *agent.nics[0]);
  std::uint64_t next = 0;
  const auto of_one = log.page(0, false, 1, next);
  ASSERT_EQ(of_one.size(), 3u);
  EXPECT_EQ(of_one[0].process, 10u);
  EXPECT_EQ(of_one[1].process, 11u);
  EXPECT_STREQ(of_one[2].text, "via0");
  EXPECT_EQ(log.page(0, true, 3, next).size(), 4u);
}

TEST_F(EventLogTest, GoesOnWhereItEnded) {
  from = report::kFromNow;
  note(1, 1);
  EXPECT_TRUE(page(true).empty());
  for (std::uint32_t i = 0; i < report::kEventsOfPage + 5; ++i) note(1000 + i, 100 + i);
  const auto first = page(true);
  ASSERT_EQ(first.size(), report::kEventsOfPage);
  EXPECT_EQ(first[0].process, 100u);
  EXPECT_EQ(page(true).size(), 5u);
  EXPECT_TRUE(page(true).empty());
}

// A user that is refused all the time leaves room for what others did.
TEST_F(EventLogTest, OneUsersRefusalsHideNoOthers) {
  note(1, 1);
  for (std::uint32_t i = 0; i < 2 * EventLog::kEvents; ++i) note(2, i);
  note(3, 3);
  const auto events = page(true);
  ASSERT_GE(events.size(), 3u);
  ASSERT_LT(events.size(), 100u);
  EXPECT_EQ(events.front().user, 1u);
  EXPECT_EQ(events.back().user, 3u);
}

TEST_F(EventLogTest, ManyEventsOfOneAccountHideNoOthers) {
  note(1, 1);
  for (std::uint32_t i = 0; i < 2 * EventLog::kEvents; ++i) log.note(Happened::kInterfaceUp, *agent.nics[0]);
  note(3, 3);
  std::uint64_t next = 0;
  const auto of_one = log.page(0, false, 1, next);
  ASSERT_FALSE(of_one.empty());
  EXPECT_EQ(of_one.front().process, 1u);
  // The reader has lost none of its own.
  const auto of_three = log.page(1, false, 3, next);
  EXPECT_EQ(of_three.front().what, static_cast<std::uint32_t>(Happened::kInterfaceUp));
  EXPECT_EQ(log.page(1, true, 0, next).front().what, static_cast<std::uint32_t>(Happened::kMissed));
}

// A slow reader loses events, and holds up no other.
TEST_F(EventLogTest, TellsHowManyWereMissed) {
  note(1, 1);
  page(true);
  for (std::uint32_t i = 0; i < EventLog::kEvents + 7; ++i) note(1000 + i, i);
  const auto events = page(true);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events[0].what, static_cast<std::uint32_t>(Happened::kMissed));
  EXPECT_EQ(events[0].value, 7u);
  EXPECT_EQ(events[1].process, 7u);
  from = 0;  // a reader that asks for all there is has missed nothing
  EXPECT_EQ(page(true)[0].what, static_cast<std::uint32_t>(Happened::kRefused));
}

TEST_F(EventLogTest, AnotherAgentsNumbersBeginAnew) {
  note(1, 1);
  from = 1'000'000;
  EXPECT_EQ(page(true).size(), 1u);
}

TEST_F(EventLogTest, ASessionIsTracedOnlyWhileItIsThere) {
  std::uint64_t next = 7;
  EXPECT_TRUE(log.trace(5, 0, next).empty());
  EXPECT_EQ(next, 0u);
}

}  // namespace
}  // namespace viaduct
