// epoll with sockets that have a lane, and any others. One thread; sovia_epoll_threads_test.cc has
// those with more.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include <map>
#include <set>
#include <vector>

#include "sovia/epoll_set.h"
#include "sovia/sovia.h"
#include "sovia/table.h"
#include "tests/unit/sovia_fake.h"

namespace {

using namespace viaduct::sovia;
using fake::Connection;
using fake::Epoll;
using fake::Later;
using fake::Pipe;
using fake::time_of;

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
  EXPECT_LT(time_of([&] { EXPECT_EQ(sovia_epoll_pwait2(set.fd(), &event, 1, &time, nullptr), 0); }),
            100);
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
  EXPECT_EQ(set.wait(), "7:OUT");  // once more, as the lane is new
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
  c.lane().out = c.lane().room = true;  // what comes, comes through the kernel
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
  c.lane().in = true;
  fake::changed(c.socket());
  EXPECT_EQ(set.wait(), "7:OUT");  // of the kernel
  EXPECT_EQ(set.wait(), "7:OUT");
  c.data();
  EXPECT_EQ(set.wait(), "7:IN|OUT");  // of both, in one event
  EXPECT_EQ(set.wait(), "7:IN|OUT");
}

TEST(EpollRoutes, AnEndThatTheLaneComesBeforeIsToldAfterIt) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN | EPOLLRDHUP, 7), 0);
  c.up();
  EXPECT_EQ(set.wait(), "");
  c.close_peer();
  ::shutdown(c.fd(), SHUT_WR);
  fake::calls.epoll_wait = 0;
  EXPECT_EQ(set.wait(100), "");
  EXPECT_LE(fake::calls.epoll_wait, 10);
  c.down();
  EXPECT_EQ(set.wait(), "7:IN|HUP|RDHUP");
}

TEST(EpollRoutes, AnEndThatTheLaneComesBeforeDoesNotSpinInTheMixedCaseEither) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLPRI | EPOLLOUT, 7), 0);
  c.lane().in = c.lane().out = true;  // no room
  fake::changed(c.socket());
  EXPECT_EQ(set.wait(), "");
  c.close_peer();
  ::shutdown(c.fd(), SHUT_WR);
  fake::calls.epoll_wait = 0;
  EXPECT_EQ(set.wait(100), "");
  EXPECT_LE(fake::calls.epoll_wait, 10);
}

// The lane is open, nothing has gone over it, and the end of the connection overtakes the lane's.
TEST(EpollRoutes, AnEndThatOvertakesTheLanesIsToldInTheEnd) {
  for (const std::uint32_t flags : {0u, kEdge, kOnce}) {
    Connection c;
    Epoll set;
    ASSERT_EQ(set.add(c.fd(), EPOLLIN | EPOLLRDHUP | flags, 7), 0);
    c.lane().open = true;
    fake::changed(c.socket());
    EXPECT_EQ(set.wait(), "");
    c.lane().early = true;
    c.close_peer();
    EXPECT_EQ(set.wait(20), "");
    EXPECT_EQ(set.wait(), "");
    c.lane().early = false;  // the lane has ended too, and is there still
    fake::changed(c.socket());
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

// ---------------------------------------------------------------------------- control
TEST(EpollControl, RefusesWhatTheKernelRefuses) {
  Connection c;
  Epoll set;
  EXPECT_EQ(set.modify(c.fd(), EPOLLIN, 1), -ENOENT);
  EXPECT_EQ(set.remove(c.fd()), -ENOENT);
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, 7), 0);
  EXPECT_EQ(set.add(c.fd(), EPOLLIN, 8), -EEXIST);
  c.up();
  EXPECT_EQ(set.wait(), "");
  EXPECT_EQ(set.add(c.fd(), EPOLLIN, 8), -EEXIST);
  EXPECT_EQ(set.add(set.fd(), EPOLLIN, 8), -EINVAL);
  EXPECT_EQ(set.add(1000, EPOLLIN, 8), -EBADF);
  EXPECT_EQ(sovia_epoll_ctl(set.fd(), EPOLL_CTL_MOD, c.fd(), nullptr), -1);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(sovia_epoll_ctl(c.fd(), EPOLL_CTL_DEL, set.fd(), nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
  epoll_event event{};
  EXPECT_EQ(sovia_epoll_ctl(set.fd(), 77, c.fd(), &event), -1);
  EXPECT_EQ(errno, EINVAL);
  c.data();
  EXPECT_EQ(set.wait(), "7:IN");
  EXPECT_EQ(sovia_epoll_wait(set.fd(), &event, 0, 0), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(sovia_epoll_wait(1000, &event, 1, 0), -1);
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(sovia_epoll_wait(c.fd(), &event, 1, 0), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST(EpollControl, ModifyChangesEventsAndData) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, 7), 0);
  c.up();
  EXPECT_EQ(set.wait(), "");
  ASSERT_EQ(set.modify(c.fd(), EPOLLOUT, 8), 0);
  c.data();
  EXPECT_EQ(set.wait(), "8:OUT");
  ASSERT_EQ(set.modify(c.fd(), EPOLLIN, 9), 0);
  EXPECT_EQ(set.wait(), "9:IN");
  ASSERT_EQ(set.modify(c.fd(), 0, 10), 0);
  EXPECT_EQ(set.wait(), "");
  c.down();
  c.peer_sends("x");
  EXPECT_EQ(set.wait(), "");
  ASSERT_EQ(set.modify(c.fd(), EPOLLIN, 11), 0);
  EXPECT_EQ(set.wait(), "11:IN");
}

TEST(EpollControl, WhatIsDeletedIsSilent) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, 7), 0);
  c.up();
  c.data();
  ASSERT_EQ(set.remove(c.fd()), 0);
  EXPECT_EQ(set.wait(), "");
  EXPECT_EQ(set.remove(c.fd()), -ENOENT);
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, 8), 0);
  EXPECT_EQ(set.wait(), "8:IN");
}

TEST(EpollControl, DataThatLooksLikeOursIsTheProgramsAllTheSame) {
  Connection c;
  Pipe pipe;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, 7), 0);
  c.up();
  EXPECT_EQ(set.wait(), "");
  // What the kernel has is our token now, which a program could only guess.
  epoll_event event{};
  c.close_peer();
  ::shutdown(c.fd(), SHUT_WR);
  ASSERT_EQ(::epoll_wait(set.fd(), &event, 1, 100), 1);
  const std::uint64_t token = event.data.u64;
  ASSERT_NE(token, 7u);
  ASSERT_EQ(set.add(pipe.reader(), EPOLLIN, token), 0);
  pipe.fill();
  EXPECT_EQ(set.wait(), std::to_string(token) + ":IN");
  ASSERT_EQ(set.modify(pipe.reader(), EPOLLIN, 3), 0);
  EXPECT_EQ(set.wait(), "3:IN");
  ASSERT_EQ(set.remove(pipe.reader()), 0);
  EXPECT_EQ(set.wait(), "");
}

TEST(EpollControl, ExclusiveRegistrationsTakeNoChange) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN | EPOLLEXCLUSIVE, 7), 0);
  EXPECT_EQ(set.modify(c.fd(), EPOLLIN, 8), -EINVAL);
  c.up();
  c.data();
  EXPECT_EQ(set.wait(), "7:IN");
  EXPECT_EQ(set.modify(c.fd(), EPOLLIN, 8), -EINVAL);
  c.down();
  EXPECT_EQ(set.wait(), "");
  c.peer_sends("x");
  EXPECT_EQ(set.wait(), "7:IN");
  EXPECT_EQ(set.modify(c.fd(), EPOLLIN, 8), -EINVAL);
  ASSERT_EQ(set.remove(c.fd()), 0);
  EXPECT_EQ(set.add(c.fd(), EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT, 7), -EINVAL);
  EXPECT_EQ(set.add(c.fd(), EPOLLIN, 9), 0);
}

// ---------------------------------------------------------------------------- descriptors
TEST(EpollDescriptors, ClosingASocketTakesItOut) {
  Epoll set;
  {
    Connection c;
    ASSERT_EQ(set.add(c.fd(), EPOLLIN, 7), 0);
    c.up();
    c.data();
    EXPECT_EQ(set.wait(), "7:IN");
  }
  EXPECT_EQ(set.wait(), "");
  Connection next;  // most likely by the same number
  ASSERT_EQ(set.add(next.fd(), EPOLLIN, 8), 0);
  next.up();
  next.data();
  EXPECT_EQ(set.wait(), "8:IN");
}

TEST(EpollDescriptors, ARegistrationLivesOnWithTheCopiesOfItsDescriptor) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, 7), 0);
  c.up();
  EXPECT_EQ(set.wait(), "");
  const int copy = c.dup();
  fake::close_descriptor(c.fd());
  EXPECT_EQ(c.lane().left, 1);  // only the kernel knows the registration now
  c.peer_sends("x");
  EXPECT_EQ(set.wait(1000), "7:IN");
  EXPECT_EQ(set.wait(), "7:IN");
  fake::close_descriptor(copy);
  EXPECT_EQ(set.wait(), "");
}

TEST(EpollDescriptors, ClosingACopyChangesNothing) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, 7), 0);
  const int copy = c.dup();
  ASSERT_EQ(set.add(copy, EPOLLOUT, 8), 0);
  c.up();
  c.data();
  EXPECT_EQ(set.wait(), "7:IN 8:OUT");
  ASSERT_EQ(set.remove(copy), 0);
  fake::close_descriptor(copy);
  EXPECT_EQ(set.wait(), "7:IN");
  EXPECT_EQ(c.lane().left, 0);
}

TEST(EpollDescriptors, ASetHasSeveralDescriptors) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, 7), 0);
  const int copy = ::fcntl(set.fd(), F_DUPFD_CLOEXEC, 0);
  epoll_sets::copied(set.fd(), copy);
  c.up();
  c.data();
  epoll_event event{};
  EXPECT_EQ(sovia_epoll_wait(copy, &event, 1, 0), 1);
  set.close();
  EXPECT_EQ(sovia_epoll_wait(copy, &event, 1, 0), 1);
  c.down();  // which changes the kernel's registration by way of the copy
  EXPECT_EQ(sovia_epoll_wait(copy, &event, 1, 0), 0);
  c.peer_sends("x");
  EXPECT_EQ(sovia_epoll_wait(copy, &event, 1, 0), 1);
  EXPECT_EQ(event.data.u64, 7u);
  fake::close_descriptor(copy);
}

TEST(EpollDescriptors, ASetThatTheLibraryHasNotSeenIsLookedAt) {
  Connection c;
  Pipe pipe;
  const int set = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{EPOLLIN, {.u64 = 0xdeadbeef}};
  ASSERT_EQ(::epoll_ctl(set, EPOLL_CTL_ADD, c.fd(), &event), 0);
  event.data.u64 = 2;
  ASSERT_EQ(::epoll_ctl(set, EPOLL_CTL_ADD, pipe.reader(), &event), 0);
  c.up();
  c.data();
  ASSERT_EQ(sovia_epoll_wait(set, &event, 1, 0), 1);
  EXPECT_EQ(event.data.u64, 0xdeadbeefu);
  c.data(false);
  EXPECT_EQ(sovia_epoll_wait(set, &event, 1, 0), 0);
  pipe.fill();
  ASSERT_EQ(sovia_epoll_wait(set, &event, 1, 0), 1);
  EXPECT_EQ(event.data.u64, 2u);
  fake::close_descriptor(set);
}

TEST(EpollDescriptors, AForkedChildHasItsOwnAndSpoilsNothing) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, 7), 0);
  c.up();
  EXPECT_EQ(set.wait(), "");
  c.down();  // as fork has sockets leave their lanes
  epoll_sets::before_fork();
  const pid_t child = ::fork();
  epoll_sets::after_fork(child == 0);
  if (child == 0) {
    fake::close_descriptor(c.fd());
    set.close();
    Epoll own;
    Pipe pipe;
    pipe.fill();
    _exit(own.add(pipe.reader(), EPOLLIN, 1) == 0 && own.wait() == "1:IN" ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  c.peer_sends("x");
  EXPECT_EQ(set.wait(), "7:IN");
  c.up();
  c.data();
  EXPECT_EQ(set.wait(), "7:IN");
}

// ---------------------------------------------------------------------------- nests
TEST(EpollNested, TheOuterSetSeesTheInnersLanes) {
  Connection c;
  Epoll inner, outer;
  ASSERT_EQ(inner.add(c.fd(), EPOLLIN, 7), 0);
  ASSERT_EQ(outer.add(inner.fd(), EPOLLIN, 1), 0);
  EXPECT_EQ(outer.wait(), "");
  c.up();
  EXPECT_EQ(outer.wait(), "");
  c.data();
  EXPECT_EQ(outer.wait(), "1:IN");
  EXPECT_EQ(outer.wait(), "1:IN");
  EXPECT_EQ(inner.wait(), "7:IN");
  c.data(false);
  EXPECT_EQ(outer.wait(), "");
  const Later later([&] { c.data(); });
  EXPECT_EQ(outer.wait(5000), "1:IN");
}

TEST(EpollNested, TheOuterSetSeesTheInnersKernelDescriptors) {
  Pipe pipe;
  Epoll inner, outer;
  ASSERT_EQ(inner.add(pipe.reader(), EPOLLIN, 7), 0);
  ASSERT_EQ(outer.add(inner.fd(), EPOLLIN | kEdge, 1), 0);
  pipe.fill();
  EXPECT_EQ(outer.wait(), "1:IN");
  EXPECT_EQ(outer.wait(), "");
  EXPECT_EQ(inner.wait(), "7:IN");
}

TEST(EpollNested, ChangesInTheInnerSetReachTheOuter) {
  Connection c;
  Epoll inner, outer;
  ASSERT_EQ(outer.add(inner.fd(), EPOLLIN, 1), 0);
  c.up();
  c.data();
  const Later later([&] { ASSERT_EQ(inner.add(c.fd(), EPOLLIN, 7), 0); });
  EXPECT_EQ(outer.wait(5000), "1:IN");
}

TEST(EpollNested, ThreeDeepAndCyclesRefused) {
  Connection c;
  Epoll a, b, d;
  ASSERT_EQ(a.add(c.fd(), EPOLLIN, 7), 0);
  ASSERT_EQ(b.add(a.fd(), EPOLLIN, 1), 0);
  ASSERT_EQ(d.add(b.fd(), EPOLLIN, 2), 0);
  EXPECT_EQ(a.add(d.fd(), EPOLLIN, 3), -ELOOP);
  c.up();
  c.data();
  EXPECT_EQ(d.wait(), "2:IN");
  EXPECT_EQ(b.wait(), "1:IN");
  b.close();
  EXPECT_EQ(d.wait(), "");
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
  for (const auto& c : idle) c->lane().answers = 0;
  fake::calls.epoll_wait = fake::calls.epoll_ctl = 0;
  for (int i = 0; i < 40; ++i) {
    idle[17]->data();
    EXPECT_EQ(set.wait(), "17:IN");
    idle[17]->data(false);
  }
  int answers = 0;
  for (const auto& c : idle) answers += c->lane().answers;
  EXPECT_LE(answers, 160);
  EXPECT_LE(fake::calls.epoll_wait, 40);
  EXPECT_EQ(fake::calls.epoll_ctl, 0);
}

TEST(EpollCost, ASetOfKernelDescriptorsAloneCostsOneCall) {
  Pipe pipe;
  Epoll set;
  ASSERT_EQ(set.add(pipe.reader(), EPOLLIN, 1), 0);
  pipe.fill();
  fake::calls.epoll_wait = 0;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(set.wait(-1), "1:IN");
  EXPECT_EQ(fake::calls.epoll_wait, 10);
}

// ---------------------------------------------------------------------------- signals
TEST(EpollSignals, InterruptASleepAndAreLetInByTheMask) {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  sigaction(SIGUSR1, &action, nullptr);
  sigset_t usr1, none;
  sigemptyset(&none);
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, 7), 0);
  for (const bool up : {false, true}) {
    if (up) c.up();
    {
      const pthread_t self = pthread_self();
      const Later later([=] { pthread_kill(self, SIGUSR1); });
      EXPECT_EQ(set.wait(5000), strerror(EINTR));
    }
    pthread_sigmask(SIG_BLOCK, &usr1, nullptr);
    epoll_event event{};
    raise(SIGUSR1);
    EXPECT_EQ(sovia_epoll_pwait(set.fd(), &event, 1, 0, &none), 0);  // unlike ppoll
    EXPECT_EQ(sovia_epoll_pwait(set.fd(), &event, 1, 5000, &none), -1);
    EXPECT_EQ(errno, EINTR);
    if (up) {
      c.data();
      raise(SIGUSR1);
      EXPECT_EQ(sovia_epoll_pwait(set.fd(), &event, 1, 5000, &none), 1);
      sigset_t pending;
      sigpending(&pending);
      EXPECT_TRUE(sigismember(&pending, SIGUSR1));
    }
    pthread_sigmask(SIG_UNBLOCK, &usr1, nullptr);
  }
}

}  // namespace
