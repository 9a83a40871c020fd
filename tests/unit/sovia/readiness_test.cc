// What poll() tells of a socket in each state of its routes.
#include "sovia/socket/readiness.h"

#include <gtest/gtest.h>
#include <poll.h>

namespace viaduct::sovia {
namespace {

constexpr short kAll = POLLIN | POLLOUT | POLLRDHUP;

Readiness on_lane() {
  Readiness state;
  state.has_lane = state.had_lanes = true;
  state.on_lane = true;
  state.sending = TxRoute::kLane;
  return state;
}

TEST(Readiness, OnABrokenLaneTheKernelIsAskedEachTime) {
  Readiness state = on_lane();
  state.lane_unread = state.lane_broken = true;
  EXPECT_EQ(state.to_ask(kAll), POLLIN);
  EXPECT_EQ(state.to_tell(kAll, POLLRDHUP | POLLERR | POLLHUP), kAll | POLLERR | POLLHUP);
}

// A lane is there, and the directions have not begun with it.
Readiness before_lane() {
  Readiness state = on_lane();
  state.on_lane = false;
  state.sending = TxRoute::kKernel;
  return state;
}

TEST(Readiness, WithoutALaneIsTheKernels) {
  const Readiness state;
  EXPECT_EQ(state.to_ask(kAll), kAll);
  for (short says = 0; says < 0x4000; ++says) {
    const auto told = static_cast<short>(says & (kAll | POLLERR | POLLHUP | POLLNVAL));
    if ((says & POLLERR) == 0 || (says & POLLHUP) == 0) { ASSERT_EQ(state.to_tell(kAll, says), told) << says; }
  }
}

TEST(Readiness, OnALaneAsksTheKernelForErrorsAlone) {
  Readiness state = on_lane();
  EXPECT_EQ(state.to_ask(kAll), 0);
  state.lane_ended = true;
  state.lane_unread = true;
  EXPECT_EQ(state.to_ask(kAll), POLLRDHUP);
}

TEST(Readiness, OnALaneIsTheLanes) {
  Readiness state = on_lane();
  EXPECT_EQ(state.to_tell(kAll, POLLIN | POLLOUT), 0);
  state.lane_unread = true;
  EXPECT_EQ(state.to_tell(kAll, 0), POLLIN);
  EXPECT_EQ(state.to_tell(POLLOUT, 0), 0);
  state.lane_room = true;
  EXPECT_EQ(state.to_tell(kAll, 0), POLLIN | POLLOUT);
  state.lane_broken = true;
  EXPECT_EQ(state.to_tell(kAll, 0), POLLIN);
}

TEST(Readiness, TellsTheEndOfALaneWithBothEnds) {
  Readiness state = on_lane();
  EXPECT_EQ(state.to_tell(kAll, POLLIN | POLLRDHUP | POLLHUP), 0);
  state.lane_ended = true;
  state.lane_unread = true;
  EXPECT_EQ(state.to_tell(kAll, POLLIN | POLLRDHUP), POLLIN | POLLRDHUP);
  // Before the kernel has told it, the lane's end is not the connection's.
  EXPECT_EQ(state.to_tell(kAll, 0), POLLIN);
}

// The kernel is told of this end's shutdown when the lane's data has arrived. For the program both ends have ended.
TEST(Readiness, TellsAHangupBeforeTheKernelKnowsOfIt) {
  Readiness state = on_lane();
  state.sending = TxRoute::kKernel;
  state.write_shut = true;
  EXPECT_EQ(state.to_ask(POLLIN) & POLLRDHUP, 0);
  EXPECT_EQ(state.to_tell(POLLIN, POLLRDHUP), 0);
  state.lane_ended = true;
  EXPECT_EQ(state.to_ask(POLLIN), POLLRDHUP);
  EXPECT_EQ(state.to_tell(POLLIN, POLLIN | POLLRDHUP) & POLLHUP, POLLHUP);
  state.write_shut = false;
  EXPECT_EQ(state.to_tell(POLLIN, POLLIN | POLLRDHUP) & POLLHUP, 0);
}

TEST(Readiness, TellsAHangupToWhoAsksForNothing) {
  Readiness state = on_lane();
  state.lane_ended = state.lane_unread = true;
  EXPECT_EQ(state.to_tell(0, POLLHUP), POLLHUP);
  state.lane_ended = false;
  EXPECT_EQ(state.to_tell(0, POLLHUP), 0);
}

TEST(Readiness, TellsAHangupWhenTheProgramHasShutBothDirections) {
  for (const bool on_lane_yet : {false, true}) {
    Readiness state = on_lane();
    state.on_lane = on_lane_yet;
    state.awaits_lane_end = true;
    EXPECT_EQ(state.to_tell(POLLIN, POLLHUP | POLLRDHUP) & POLLHUP, 0);
    state.read_shut = true;
    EXPECT_EQ(state.to_tell(POLLIN, POLLHUP | POLLRDHUP) & POLLHUP, POLLHUP);
  }
}

TEST(Readiness, TellsAResetThatTheLibraryHasMet) {
  Readiness state;
  state.had_lanes = state.untold = true;
  EXPECT_EQ(state.to_tell(POLLIN, POLLIN | POLLHUP), POLLIN | POLLHUP | POLLERR);
  state.untold = false;
  EXPECT_EQ(state.to_tell(POLLIN, POLLIN | POLLHUP), POLLIN | POLLHUP);
}

TEST(Readiness, TellsAResetWhateverTheRoute) {
  for (const TxRoute sending : {TxRoute::kKernel, TxRoute::kLane, TxRoute::kLanding}) {
    Readiness state = on_lane();
    state.sending = sending;
    state.on_lane = sending != TxRoute::kKernel;
    EXPECT_EQ(state.to_tell(kAll, POLLERR | POLLHUP), kAll | POLLERR | POLLHUP);
    state.reset = state.untold = true;
    EXPECT_EQ(state.to_tell(POLLIN, 0), POLLIN | POLLERR | POLLHUP);
    EXPECT_EQ(state.to_ask(POLLOUT), 0);
  }
}

TEST(Readiness, TellsTheEndWithAnErrorBeforeTheLanesEnd) {
  for (const bool on_lane_yet : {false, true}) {
    Readiness state = on_lane();
    state.on_lane = on_lane_yet;
    state.awaits_lane_end = true;
    EXPECT_EQ(state.to_tell(POLLIN | POLLRDHUP, POLLRDHUP), 0);
    EXPECT_EQ(state.to_tell(POLLIN | POLLRDHUP, POLLERR | POLLRDHUP), POLLERR | POLLRDHUP);
  }
}

TEST(Readiness, BeforeALaneTellsDataAndNotTheEnd) {
  Readiness state = before_lane();
  state.awaits_lane_end = true;
  EXPECT_EQ(state.to_ask(POLLIN), POLLIN | POLLRDHUP);
  EXPECT_EQ(state.to_tell(POLLIN, POLLIN), POLLIN);
  EXPECT_EQ(state.to_tell(kAll, POLLIN | POLLRDHUP), 0) << "the end may be all that there is";
  state.kernel_unread = true;
  EXPECT_EQ(state.to_tell(kAll, POLLIN | POLLRDHUP), POLLIN);
  state.lane_ended = true;
  EXPECT_EQ(state.to_tell(kAll, POLLIN | POLLRDHUP), POLLIN | POLLRDHUP) << "the lane has brought all, behind the kernel's bytes";
  state.lane_ended = false;
  state.early_end = true;
  EXPECT_EQ(state.to_tell(kAll, POLLIN | POLLRDHUP), 0);
  state.awaits_lane_end = false;
  EXPECT_EQ(state.to_tell(kAll, POLLIN | POLLRDHUP), POLLIN | POLLRDHUP);
}

TEST(Readiness, AfterALaneIsTheKernelsAgain) {
  Readiness state = before_lane();
  EXPECT_EQ(state.to_ask(kAll), kAll);
  EXPECT_EQ(state.to_tell(kAll, POLLIN | POLLOUT | POLLRDHUP), kAll);
}

TEST(Readiness, WhileSendingLandsThereIsNoRoom) {
  Readiness state = before_lane();
  state.sending = TxRoute::kLanding;
  EXPECT_EQ(state.to_ask(kAll), POLLIN | POLLRDHUP);
  state.lane_room = true;
  EXPECT_EQ(state.to_tell(kAll, POLLIN | POLLOUT), POLLIN) << "what is sent could overtake what is on the lane";
  state.lands_soon = true;
  EXPECT_EQ(state.to_tell(kAll, POLLIN | POLLOUT), POLLIN | POLLOUT) << "a send waits for the lane's end itself";
  state.lands_soon = false;
  state.write_shut = true;
  EXPECT_EQ(state.to_tell(kAll, POLLIN), POLLIN | POLLOUT) << "a send fails, and does not wait";
}

TEST(Readiness, OneDirectionOnALane) {
  Readiness state = on_lane();
  state.sending = TxRoute::kKernel;
  EXPECT_EQ(state.to_ask(kAll), POLLOUT);
  EXPECT_EQ(state.to_tell(kAll, POLLIN | POLLOUT), POLLOUT);
  state = on_lane();
  state.on_lane = false;
  EXPECT_EQ(state.to_ask(POLLIN | POLLOUT), POLLIN | POLLRDHUP);
  EXPECT_EQ(state.to_tell(POLLIN | POLLOUT, POLLIN | POLLOUT), POLLIN);
}

// The kernel is asked all the same, as whoever looks takes the record.
TEST(Readiness, ARecordIsNotTheProgramsToRead) {
  Readiness state;
  state.had_lanes = state.record_next = true;
  EXPECT_EQ(state.to_ask(kAll), kAll);
  EXPECT_EQ(state.to_tell(kAll, POLLIN | POLLOUT | POLLRDHUP | POLLHUP), POLLOUT);
  state.has_inherited = true;
  EXPECT_EQ(state.to_tell(kAll, POLLIN), POLLIN);
  state.has_inherited = false;
  state.read_shut = true;
  EXPECT_EQ(state.to_tell(kAll, 0), POLLIN | POLLRDHUP);
}

TEST(Readiness, AShutDirectionReadsItsEnd) {
  Readiness state = on_lane();
  state.read_shut = true;
  EXPECT_EQ(state.to_tell(kAll, 0), POLLIN | POLLRDHUP);
}

TEST(Readiness, AHangUpIsAllEventsOnceThereWasALane) {
  Readiness state;
  EXPECT_EQ(state.to_tell(kAll, POLLHUP), POLLHUP);
  state.had_lanes = true;
  EXPECT_EQ(state.to_tell(kAll, POLLHUP), kAll | POLLHUP);
}

}  // namespace
}  // namespace viaduct::sovia
