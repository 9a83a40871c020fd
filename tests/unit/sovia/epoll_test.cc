// epoll's events of sockets that have a lane, and of any others. One thread; epoll_threads_test.cc has those with
// more, epoll_sets_test.cc those of the sets themselves.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "sovia/poll/epoll_set.h"
#include "sovia/process/threads.h"
#include "sovia/socket/table.h"
#include "sovia/sovia.h"
#include "tests/unit/sovia/laned_connection.h"

namespace {

using namespace viaduct::sovia;
using ready::Connection;
using ready::Epoll;
using ready::Later;
using ready::Pipe;
using ready::time_of;

constexpr std::uint32_t kEdge = EPOLLET;
constexpr std::uint32_t kOnce = EPOLLONESHOT;

// ---------------------------------------------------------------------------- level
TEST(EpollLevel, TellsAsLongAsThereIsSomething) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, 7), 0);
  c.up();
  EXPECT_EQ(set.wait(), "");
  c.data();
  EXPECT_EQ(set.wait(), "7:IN");
  EXPECT_EQ(set.wait(), "7:IN");
  c.data(false);
  EXPECT_EQ(set.wait(), "");
  c.data();
  EXPECT_EQ(set.wait(), "7:IN");
}

TEST(EpollLevel, TellsOfRoomAndDataInOneEvent) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN | EPOLLOUT | EPOLLRDHUP, 7), 0);
  c.up();
  EXPECT_EQ(set.wait(), "7:OUT");
  c.data();
  EXPECT_EQ(set.wait(), "7:IN|OUT");
  c.room(false);
  EXPECT_EQ(set.wait(), "7:IN");
  c.data(false);
  EXPECT_EQ(set.wait(), "");
  c.room();
  EXPECT_EQ(set.wait(), "7:OUT");
}

TEST(EpollLevel, ALaneThatIsThereAlreadyCountsWhenTheSocketIsAdded) {
  Connection c;
  c.up();
  c.data();
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, 7), 0);
  EXPECT_EQ(set.wait(), "7:IN");
}

// The lane's data has come while the kernel's was unread, and nothing comes behind it.
TEST(EpollLevel, TellsOfTheLanesDataWhenTheKernelsHasBeenRead) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, 7), 0);
  c.peer_sends("kernel");
  c.receives_on_lane();
  c.lane_brings("lane");
  EXPECT_EQ(set.wait(), "7:IN");
  char kernel[6];
  EXPECT_EQ(sovia_recv(c.fd(), kernel, sizeof kernel, MSG_DONTWAIT), 6);
  EXPECT_EQ(set.wait(), "7:IN");
  EXPECT_EQ(c.receive(), "lane");
  EXPECT_EQ(set.wait(), "");
}

TEST(EpollLevel, SleepsUntilTheLaneHasSomething) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, 7), 0);
  c.up();
  const Later later([&] { c.data(); });
  EXPECT_EQ(set.wait(5000), "7:IN");
}

TEST(EpollLevel, TimesOutInTime) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, 7), 0);
  c.up();
  const long ms = time_of([&] { EXPECT_EQ(set.wait(40), ""); });
  EXPECT_GE(ms, 39);
  EXPECT_LT(ms, 500);
  epoll_event event;
  const timespec time{0, 2'000'000};
  // The least of some: each may wait for a processor.
  long least = 1'000'000;
  for (int tries = 0; tries < 10 && least >= 100; ++tries) {
    least = std::min(least, time_of([&] { EXPECT_EQ(sovia_epoll_pwait2(set.fd(), &event, 1, &time, nullptr), 0); }));
  }
  EXPECT_LT(least, 100);
}

TEST(EpollLevel, FindsLanesAndKernelDescriptorsInOneCall) {
  Connection c, plain;
  Pipe pipe;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, 1), 0);
  ASSERT_EQ(set.add(pipe.reader(), EPOLLIN, 2), 0);
  ASSERT_EQ(set.add(plain.fd(), EPOLLIN, 3), 0);
  c.up();
  c.data();
  pipe.fill();
  plain.peer_sends("x");
  EXPECT_EQ(set.wait(), "1:IN 2:IN 3:IN");
  EXPECT_EQ(set.wait(), "1:IN 2:IN 3:IN");
}

// ---------------------------------------------------------------------------- edge
TEST(EpollEdge, TellsOncePerChange) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN | kEdge, 7), 0);
  c.up();
  EXPECT_EQ(set.wait(), "");
  c.data();
  EXPECT_EQ(set.wait(), "7:IN");
  EXPECT_EQ(set.wait(), "");
  c.data();
  EXPECT_EQ(set.wait(), "7:IN");
  EXPECT_EQ(set.wait(), "");
}

TEST(EpollEdge, RoomIsNoNewsToWhoReads) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN | kEdge, 7), 0);
  c.up();
  c.data();
  EXPECT_EQ(set.wait(), "7:IN");
  c.room();
  EXPECT_EQ(set.wait(), "");
}

TEST(EpollEdge, TellsAllThatIsReadyWithTheChange) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN | EPOLLOUT | kEdge, 7), 0);
  EXPECT_EQ(set.wait(), "7:OUT");
  c.up();
  EXPECT_EQ(set.wait(), "7:OUT");  // once more, as the library does not know what the kernel has told
  EXPECT_EQ(set.wait(), "");
  c.data();
  EXPECT_EQ(set.wait(), "7:IN|OUT");
  EXPECT_EQ(set.wait(), "");
}

TEST(EpollEdge, ArmingAgainTellsAgain) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN | kEdge, 7), 0);
  c.up();
  c.data();
  EXPECT_EQ(set.wait(), "7:IN");
  EXPECT_EQ(set.wait(), "");
  ASSERT_EQ(set.modify(c.fd(), EPOLLIN | kEdge, 8), 0);
  EXPECT_EQ(set.wait(), "8:IN");
}

TEST(EpollEdge, NothingIsLostWhenTheLaneComesAndGoes) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN | kEdge, 7), 0);
  c.peer_sends("before");
  EXPECT_EQ(set.wait(), "7:IN");
  EXPECT_EQ(set.wait(), "");
  EXPECT_EQ(c.receive(), "before");
  c.up();
  EXPECT_EQ(set.wait(), "");
  c.data();
  c.peer_sends("after");
  EXPECT_EQ(set.wait(), "7:IN");
  c.down();
  EXPECT_EQ(set.wait(), "7:IN");
  EXPECT_EQ(set.wait(), "");
  EXPECT_EQ(c.receive(), "after");
  c.peer_sends("more");
  EXPECT_EQ(set.wait(), "7:IN");
}

TEST(EpollEdge, ArmingAgainTellsAgainOfAnErrorOfTheKernels) {
  Connection c;
  Epoll set;
  c.up();
  ASSERT_EQ(set.add(c.fd(), EPOLLIN | kEdge, 7), 0);
  EXPECT_EQ(set.wait(), "");
  c.reset_by_peer();
  EXPECT_EQ(set.wait(1000), "7:IN|ERR|HUP");
  EXPECT_EQ(set.wait(), "");
  ASSERT_EQ(set.modify(c.fd(), EPOLLIN | kEdge, 8), 0);
  EXPECT_EQ(set.wait(1000), "8:IN|ERR|HUP");
}

// What TCP tells in one event: the kernel's end and the lane's.
TEST(EpollEdge, TheEndIsToldOnce) {
  Connection c;
  Epoll set;
  c.up();
  ASSERT_EQ(set.add(c.fd(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | kEdge, 7), 0);
  EXPECT_EQ(set.wait(), "7:OUT");
  c.data();
  c.peer_ends_lane();
  c.close_peer();
  EXPECT_EQ(set.wait(100, 1), "7:IN|OUT|RDHUP");
  EXPECT_EQ(set.wait(20, 1), "");
  char text[8];
  EXPECT_EQ(sovia_recv(c.fd(), text, sizeof text, MSG_DONTWAIT), 1);
  EXPECT_EQ(sovia_recv(c.fd(), text, sizeof text, MSG_DONTWAIT), 0);
  EXPECT_EQ(set.wait(20, 1), "");
}

// Data that the kernel brings where the lane was is news to a program that had read all.
TEST(EpollEdge, DataOfTheKernelsIsToldWhenTheLaneHasGone) {
  Connection c;
  Epoll set;
  c.up();
  ASSERT_EQ(set.add(c.fd(), EPOLLIN | kEdge, 7), 0);
  c.data();
  EXPECT_EQ(set.wait(), "7:IN");
  c.data(false);
  c.peer_sends("behind the lane");
  EXPECT_EQ(set.wait(20), "");
  c.down();
  EXPECT_EQ(set.wait(1000), "7:IN");
  EXPECT_EQ(set.wait(20), "");
}

// ---------------------------------------------------------------------------- order
// The numbers of the events, in their order.
std::string order(const Epoll& set, int most = 16) {
  epoll_event events[16];
  const int count = sovia_epoll_wait(set.fd(), events, most, 0);
  std::string text;
  for (int i = 0; i < count; ++i) text += std::to_string(events[i].data.u64);
  return text;
}

TEST(EpollOrder, WhatTheKernelHadBeforeTheArrivalComesFirst) {
  Connection c;
  Pipe pipe;
  Epoll set;
  c.up();
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, 1), 0);
  ASSERT_EQ(set.add(pipe.reader(), EPOLLIN, 2), 0);
  for (int i = 0; i < 4; ++i) {
    pipe.fill();
    c.data();
    EXPECT_EQ(order(set), "21");
    c.data(false);
    pipe.drain();
    EXPECT_EQ(order(set), "");
  }
}

TEST(EpollOrder, AnArrivalWhileTheProgramIsAwayKeepsItsPlace) {
  Connection c;
  Pipe before, behind;
  Epoll set;
  c.up();
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, 1), 0);
  ASSERT_EQ(set.add(before.reader(), EPOLLIN, 2), 0);
  ASSERT_EQ(set.add(behind.reader(), EPOLLIN, 3), 0);
  EXPECT_EQ(order(set), "");
  before.fill();
  std::thread([&] {
    t_is_librarys = true;
    c.data();
  }).join();
  behind.fill();
  EXPECT_EQ(order(set), "213");
}

TEST(EpollOrder, NeitherStarvesTheOther) {
  Connection c;
  Pipe pipe;
  Epoll set;
  c.up();
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, 1), 0);
  ASSERT_EQ(set.add(pipe.reader(), EPOLLIN, 2), 0);
  pipe.fill();
  c.data();
  std::string told;
  for (int i = 0; i < 8; ++i) told += order(set, 1);
  EXPECT_EQ(told, "21212121");
}

// ---------------------------------------------------------------------------- one-shot
TEST(EpollOneShot, TellsOnceUntilArmedAgain) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN | kOnce, 7), 0);
  c.up();
  c.data();
  EXPECT_EQ(set.wait(), "7:IN");
  c.data();
  EXPECT_EQ(set.wait(), "");
  ASSERT_EQ(set.modify(c.fd(), EPOLLIN | kOnce, 8), 0);
  EXPECT_EQ(set.wait(), "8:IN");
  EXPECT_EQ(set.wait(), "");
}

TEST(EpollOneShot, StaysSilentWhenTheLaneComesUpAfterItHasFired) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN | kOnce, 7), 0);
  c.peer_sends("x");
  EXPECT_EQ(set.wait(), "7:IN");
  c.up();
  c.data();
  EXPECT_EQ(set.wait(), "");
  c.down();
  c.peer_sends("y");
  EXPECT_EQ(set.wait(), "");
  ASSERT_EQ(set.modify(c.fd(), EPOLLIN | kOnce, 8), 0);
  EXPECT_EQ(set.wait(), "8:IN");
  EXPECT_EQ(set.wait(), "");
}

TEST(EpollOneShot, FiresInTheKernelToo) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN | kOnce, 7), 0);
  c.up();
  EXPECT_EQ(set.wait(), "");
  c.down();
  EXPECT_EQ(set.wait(), "");
  c.peer_sends("x");
  EXPECT_EQ(set.wait(), "7:IN");
  EXPECT_EQ(set.wait(), "");
}

TEST(EpollOneShot, AnErrorThatCameWhileItWasDisabledIsToldWhenItIsArmed) {
  Connection c;
  Epoll set;
  c.sends_on_lane();
  c.peer_ends_lane();  // from now on all comes through the kernel
  ASSERT_EQ(set.add(c.fd(), EPOLLIN | EPOLLOUT | kOnce, 7), 0);
  EXPECT_EQ(set.wait(), "7:OUT");
  c.close_peer();
  EXPECT_EQ(set.wait(20), "");
  ASSERT_EQ(set.modify(c.fd(), EPOLLIN | EPOLLRDHUP | kOnce, 8), 0);
  EXPECT_EQ(set.wait(1000), "8:IN|RDHUP");
}

// ---------------------------------------------------------------------------- routes
TEST(EpollRoutes, WhatWaitsInTheKernelBehindTheLaneIsNotTold) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, 7), 0);
  c.up();
  c.peer_sends("behind");
  EXPECT_EQ(set.wait(), "");
  EXPECT_EQ(set.wait(20), "");
  c.down();
  EXPECT_EQ(set.wait(), "7:IN");
}

TEST(EpollRoutes, OneDirectionOnTheLaneTheOtherInTheKernel) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN | EPOLLOUT, 7), 0);
  c.receives_on_lane();
  EXPECT_EQ(set.wait(), "7:OUT");  // of the kernel
  EXPECT_EQ(set.wait(), "7:OUT");
  c.data();
  EXPECT_EQ(set.wait(), "7:IN|OUT");  // of both, in one event
  EXPECT_EQ(set.wait(), "7:IN|OUT");
}

TEST(EpollRoutes, BothDirectionsAreToldWhereThereIsRoomForOneEvent) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN | EPOLLOUT, 7), 0);
  c.receives_on_lane();
  c.data();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(set.wait(0, 1), "7:IN|OUT");
  ASSERT_EQ(set.modify(c.fd(), EPOLLIN | EPOLLOUT | kOnce, 7), 0);
  EXPECT_EQ(set.wait(0, 1), "7:IN|OUT");
}

TEST(EpollRoutes, AnEndThatTheLaneComesBeforeIsToldAfterIt) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN | EPOLLRDHUP, 7), 0);
  c.up();
  EXPECT_EQ(set.wait(), "");
  c.close_peer();
  ::shutdown(c.fd(), SHUT_WR);
  ready::calls.epoll_wait = 0;
  EXPECT_EQ(set.wait(100), "");
  EXPECT_LE(ready::calls.epoll_wait, 10);
  c.down();
  EXPECT_EQ(set.wait(), "7:IN|HUP|RDHUP");
}

TEST(EpollRoutes, AnEndThatTheLaneComesBeforeDoesNotSpinInTheMixedCaseEither) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLPRI | EPOLLOUT, 7), 0);
  c.up();
  c.room(false);
  EXPECT_EQ(set.wait(), "");
  c.close_peer();
  ::shutdown(c.fd(), SHUT_WR);
  ready::calls.epoll_wait = 0;
  EXPECT_EQ(set.wait(100), "");
  EXPECT_LE(ready::calls.epoll_wait, 10);
}

// The lane is open, nothing has gone over it, and the end of the connection overtakes the lane's.
TEST(EpollRoutes, AnEndThatOvertakesTheLanesIsToldInTheEnd) {
  for (const std::uint32_t flags : {0u, kEdge, kOnce}) {
    Connection c;
    Epoll set;
    ASSERT_EQ(set.add(c.fd(), EPOLLIN | EPOLLRDHUP | flags, 7), 0);
    c.open_lane();
    EXPECT_EQ(set.wait(), "");
    c.close_peer();
    EXPECT_EQ(set.wait(20), "");
    EXPECT_EQ(set.wait(), "");
    c.peer_ends_lane();
    EXPECT_EQ(set.wait(), "7:IN|RDHUP") << flags;
    EXPECT_EQ(set.wait(), flags == 0 ? "7:IN|RDHUP" : "");
  }
}

TEST(EpollRoutes, TheProgramsOwnRegistrationComesBack) {
  Connection c;
  Epoll set;
  const std::uint64_t pointer = 0x7fff'1234'5678;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, pointer), 0);
  c.up();
  EXPECT_EQ(set.wait(), "");
  c.down();
  EXPECT_EQ(set.wait(), "");
  c.peer_sends("x");
  epoll_event event{};
  ASSERT_EQ(::epoll_wait(set.fd(), &event, 1, 0), 1);  // behind the library's back
  EXPECT_EQ(event.events, EPOLLIN);
  EXPECT_EQ(event.data.u64, pointer);
}

TEST(EpollRoutes, ASleeperHearsOfTheKernelWhenTheLaneHasComeDown) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, 7), 0);
  c.up();
  c.peer_sends("behind");
  const Later later([&] { c.down(); });
  EXPECT_EQ(set.wait(5000), "7:IN");
}

// ---------------------------------------------------------------------------- fairness and cost
TEST(EpollFairness, OneEventAtATimeEverybodyHasATurn) {
  std::vector<std::unique_ptr<Connection>> lanes;
  std::vector<std::unique_ptr<Pipe>> pipes;
  Epoll set;
  for (unsigned i = 0; i < 4; ++i) {
    lanes.push_back(std::make_unique<Connection>());
    lanes.back()->up();
    lanes.back()->data();
    ASSERT_EQ(set.add(lanes.back()->fd(), EPOLLIN, i), 0);
    pipes.push_back(std::make_unique<Pipe>());
    pipes.back()->fill();
    ASSERT_EQ(set.add(pipes.back()->reader(), EPOLLIN, 10 + i), 0);
  }
  std::map<std::string, int> told;
  for (int i = 0; i < 80; ++i) ++told[set.wait(0, 1)];
  EXPECT_EQ(told.size(), 8u);
  for (const auto& [event, times] : told) EXPECT_GE(times, 5) << event;
}

TEST(EpollFairness, AKernelDescriptorIsSeenSoonHoweverBusyTheLanes) {
  Connection c;
  Pipe pipe;
  Epoll set;
  c.up();
  c.data();
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, 1), 0);
  ASSERT_EQ(set.add(pipe.reader(), EPOLLIN, 2), 0);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(set.wait(), "1:IN");
  pipe.fill();
  std::set<std::string> told;
  for (int i = 0; i < 4; ++i) told.insert(set.wait());
  EXPECT_TRUE(told.contains("1:IN 2:IN"));
}

TEST(EpollCost, IdleSocketsCostNothing) {
  constexpr unsigned kIdle = 200;
  std::vector<std::unique_ptr<Connection>> idle;
  Epoll set;
  for (unsigned i = 0; i < kIdle; ++i) {
    idle.push_back(std::make_unique<Connection>());
    ASSERT_EQ(set.add(idle.back()->fd(), EPOLLIN, i), 0);
    idle.back()->up();
  }
  EXPECT_EQ(set.wait(), "");
  // A call that asked one of the others would wait here for ever.
  for (const auto& c : idle) {
    if (c != idle[17]) c->lane_lock().lock();
  }
  ready::calls.epoll_wait = ready::calls.epoll_ctl = 0;
  for (int i = 0; i < 40; ++i) {
    idle[17]->data();
    EXPECT_EQ(set.wait(), "17:IN");
    idle[17]->data(false);
  }
  for (const auto& c : idle) {
    if (c != idle[17]) c->lane_lock().unlock();
  }
  EXPECT_LE(ready::calls.epoll_wait, 40);
  EXPECT_EQ(ready::calls.epoll_ctl, 0);
}

TEST(EpollCost, ChangesToRegistrationsOnLanesCostNoCall) {
  for (const std::uint32_t flags : {0u, kEdge, kOnce}) {
    SCOPED_TRACE(flags);
    Connection c;
    c.up();
    Epoll set;
    ASSERT_EQ(set.add(c.fd(), EPOLLIN | EPOLLRDHUP | flags, 7), 0);
    EXPECT_EQ(set.wait(), "");
    ready::calls.epoll_ctl = 0;
    for (std::uint64_t i = 0; i < 10; ++i) {
      ASSERT_EQ(set.remove(c.fd()), 0);
      ASSERT_EQ(set.add(c.fd(), EPOLLOUT | flags, 100 + i), 0);
      EXPECT_EQ(set.wait(), std::to_string(100 + i) + ":OUT");
      ASSERT_EQ(set.modify(c.fd(), EPOLLIN | flags, i), 0);
      EXPECT_EQ(set.wait(), "");
      c.data();
      EXPECT_EQ(set.wait(), std::to_string(i) + ":IN");
      c.data(false);
    }
    EXPECT_EQ(ready::calls.epoll_ctl, 0);
  }
}

TEST(EpollCost, ASetOfKernelDescriptorsAloneCostsOneCall) {
  Pipe pipe;
  Epoll set;
  ASSERT_EQ(set.add(pipe.reader(), EPOLLIN, 1), 0);
  pipe.fill();
  ready::calls.epoll_wait = 0;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(set.wait(-1), "1:IN");
  EXPECT_EQ(ready::calls.epoll_wait, 10);
}

}  // namespace
