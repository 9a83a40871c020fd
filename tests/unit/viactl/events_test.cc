#include "kagent/tools/viactl/events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "kagent/contract/session_layout.h"
#include "kagent/contract/vip_codes.h"

namespace viaduct::tool {
namespace {

using report::Happened;
using testing::EndsWith;
using testing::HasSubstr;

report::Event event_of(Happened what) {
  report::Event out{};
  out.what = static_cast<std::uint32_t>(what);
  out.vi = report::kNoVi;
  return out;
}

class EventsTest : public testing::Test {
 protected:
  EventsTest() : nics_(1), lines_(nics_) { std::strcpy(nics_[0].interface, "via0"); }
  Nics nics_;
  EventLines lines_;
};

TEST_F(EventsTest, SaysWhomItIsAbout) {
  report::Event event = event_of(Happened::kConnected);
  event.time_ns = 1'002'003'000;
  event.process = static_cast<std::uint32_t>(getpid());
  event.vi = 3;
  event.code = vip::kReliableReception;
  event.peer[5] = 9;
  EXPECT_THAT(lines_.text(event), HasSubstr(".002003  connected "));
  EXPECT_THAT(lines_.text(event), EndsWith("(" + std::to_string(getpid()) + ")  via0  VI 3  to 00:00:00:00:00:09, RR"));
  const std::string json = lines_.json(event);
  EXPECT_THAT(json, HasSubstr("\"time_ns\": 1002003000, \"event\": \"connected\", \"session\": null"));
  EXPECT_THAT(json, HasSubstr("\"nic\": \"via0\", \"vi\": 3, \"peer\": \"00:00:00:00:00:09\""));
}

TEST_F(EventsTest, WhatNobodyDidNamesNobody) {
  report::Event event = event_of(Happened::kMissed);
  event.value = 12;
  EXPECT_THAT(lines_.text(event), EndsWith("missed              12 events came too fast to be kept"));
  EXPECT_THAT(lines_.json(event), HasSubstr("\"process\": null, \"program\": null, \"user\": null"));
}

// A granted program writes part of it, and may write anything.
TEST_F(EventsTest, NonsenseIsShownAsSuch) {
  report::Event event = event_of(Happened::kCommand);
  event.op = event.code = 0xffffffff;
  event.value = 1'500'000;
  EXPECT_EQ(event_detail(event), "?: ? after 1.50 ms");
  event = event_of(static_cast<Happened>(99));
  EXPECT_THAT(lines_.text(event), HasSubstr("?"));
  event = event_of(Happened::kRefused);
  std::strcpy(event.text, "a\nb");
  EXPECT_EQ(event_detail(event), "a?b");
}

TEST_F(EventsTest, CommandsAreCalledAsProgramsCallThem) {
  report::Event event = event_of(Happened::kCommand);
  event.op = static_cast<std::uint32_t>(layout::Op::kConnectRequest);
  event.code = vip::kTimeout;
  EXPECT_EQ(event_detail(event), "ConnectRequest: VIP_TIMEOUT");
  event.op = static_cast<std::uint32_t>(layout::Op::kTakeVi);
  event.code = vip::kNotSupported;
  EXPECT_EQ(event_detail(event), "take VI: VIP_ERROR_NOT_SUPPORTED");
}

}  // namespace
}  // namespace viaduct::tool
