// The contents of epoll sets, and their fate: registrations, descriptors, sets in sets; and signals.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include <map>
#include <set>
#include <vector>

#include "sovia/poll/epoll_set.h"
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

// The kernel keeps its part of a registration that is deleted while all comes from the lane.
bool kernel_has(const Epoll& set, const Connection& c) {
  epoll_event event{};
  if (::epoll_ctl(set.fd(), EPOLL_CTL_ADD, c.fd(), &event) != 0) return errno == EEXIST;
  ::epoll_ctl(set.fd(), EPOLL_CTL_DEL, c.fd(), &event);
  return false;
}

// A registration that is deleted on a lane.
struct Deleted {
  Deleted() {
    c.up();
    EXPECT_EQ(set.add(c.fd(), EPOLLIN, 7), 0);
    EXPECT_EQ(set.wait(), "");
    EXPECT_EQ(set.remove(c.fd()), 0);
    EXPECT_TRUE(kernel_has(set, c));
  }
  Connection c;
  Epoll set;
};

TEST(EpollDeleted, IsNoRegistrationToTheProgram) {
  Deleted d;
  EXPECT_EQ(d.set.modify(d.c.fd(), EPOLLIN, 8), -ENOENT);
  EXPECT_FALSE(kernel_has(d.set, d.c));
  Deleted again;
  EXPECT_EQ(again.set.remove(again.c.fd()), -ENOENT);
  EXPECT_FALSE(kernel_has(again.set, again.c));
  Deleted exclusive;
  EXPECT_EQ(exclusive.set.add(exclusive.c.fd(), EPOLLIN | EPOLLEXCLUSIVE, 8), 0);
  EXPECT_EQ(exclusive.set.modify(exclusive.c.fd(), EPOLLIN, 8), -EINVAL);
  Deleted twice;
  EXPECT_EQ(twice.set.add(twice.c.fd(), EPOLLIN, 8), 0);
  EXPECT_EQ(twice.set.add(twice.c.fd(), EPOLLIN, 8), -EEXIST);
}

TEST(EpollDeleted, ComesBackAfterItsLaneHasGone) {
  Deleted d;
  d.c.down();
  d.c.peer_sends("x");
  EXPECT_EQ(d.set.wait(20), "");
  EXPECT_FALSE(kernel_has(d.set, d.c));
  EXPECT_EQ(d.set.add(d.c.fd(), EPOLLIN, 8), 0);
  EXPECT_EQ(d.set.wait(1000), "8:IN");
  Deleted unseen;
  unseen.c.down();
  unseen.c.peer_sends("x");
  EXPECT_EQ(unseen.set.add(unseen.c.fd(), EPOLLIN, 9), 0);
  EXPECT_EQ(unseen.set.wait(1000), "9:IN");
}

TEST(EpollDeleted, WithoutALaneComesBackToOne) {
  Connection c;
  Epoll set;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(set.add(c.fd(), EPOLLIN, 7), 0);
    EXPECT_TRUE(kernel_has(set, c));
    EXPECT_EQ(set.add(c.fd(), EPOLLIN, 7), -EEXIST);
    ASSERT_EQ(set.remove(c.fd()), 0);
    EXPECT_FALSE(kernel_has(set, c));
    EXPECT_EQ(set.remove(c.fd()), -ENOENT);
    EXPECT_EQ(set.modify(c.fd(), EPOLLIN, 7), -ENOENT);
  }
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, 7), 0);
  ASSERT_EQ(set.remove(c.fd()), 0);
  c.up();
  c.data();
  EXPECT_EQ(set.wait(20), "");
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, 8), 0);
  EXPECT_EQ(set.wait(1000), "8:IN");
}

TEST(EpollDeleted, WithoutALaneIsNothingToAnotherSocketOfThatNumber) {
  Epoll set;
  int number;
  {
    Connection c;
    number = c.fd();
    ASSERT_EQ(set.add(number, EPOLLIN, 7), 0);
    ASSERT_EQ(set.remove(number), 0);
  }
  Connection c;
  ASSERT_EQ(c.fd(), number);
  c.up();
  c.data();
  ASSERT_EQ(set.add(number, EPOLLIN, 8), 0);
  EXPECT_EQ(set.wait(1000), "8:IN");
}

TEST(EpollDeleted, HearsOfNoErrorUntilItIsAddedAgain) {
  Deleted d;
  d.c.reset_by_peer();
  ready::calls.epoll_wait = 0;
  EXPECT_EQ(d.set.wait(50), "");
  EXPECT_LE(ready::calls.epoll_wait, 5);
  EXPECT_EQ(d.set.add(d.c.fd(), EPOLLIN, 8), 0);
  EXPECT_EQ(d.set.wait(1000), "8:IN|ERR|HUP");
}

TEST(EpollDeleted, IsNotKeptForOthers) {
  Deleted d;
  epoll_sets::forget_dormant();  // as before a fork
  EXPECT_FALSE(kernel_has(d.set, d.c));
}

TEST(EpollControl, DataThatLooksLikeOursIsTheProgramsAllTheSame) {
  Connection c;
  Pipe pipe;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, 7), 0);
  c.up();
  EXPECT_EQ(set.wait(), "");
  // The kernel has the library's token now, which a program could only guess.
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
  bool in_time = false;
  // The peer's thread may get no processor in the time that it has for leaving the lane in good order.
  for (int tries = 0; tries < 20 && !in_time; ++tries) {
    Connection c;
    Epoll set;
    ASSERT_EQ(set.add(c.fd(), EPOLLIN, 7), 0);
    c.up();
    EXPECT_EQ(set.wait(), "");
    const int copy = c.dup();
    {
      const ready::Answering peer(c);
      ready::close_descriptor(c.fd());
    }
    EXPECT_TRUE(c.lane_is_over());
    in_time = c.socket().rx.has_nothing_first();
    if (in_time) {
      EXPECT_FALSE(c.socket().may_use_lane());  // only the kernel knows the registration now
      c.peer_sends("x");
      EXPECT_EQ(set.wait(1000), "7:IN");
      EXPECT_EQ(set.wait(), "7:IN");
    }
    ready::close_descriptor(copy);
    EXPECT_EQ(set.wait(), "");
  }
  EXPECT_TRUE(in_time);
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
  ready::close_descriptor(copy);
  EXPECT_EQ(set.wait(), "7:IN");
  EXPECT_TRUE(c.socket().may_use_lane());
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
  ready::close_descriptor(copy);
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
  ready::close_descriptor(set);
}

TEST(EpollDescriptors, AForkedChildHasItsOwnAndSpoilsNothing) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, 7), 0);
  c.up();
  EXPECT_EQ(set.wait(), "");
  c.down();  // as fork has sockets leave their lanes
  ASSERT_TRUE(epoll_sets::try_before_fork());
  const pid_t child = ::fork();
  epoll_sets::after_fork(child == 0);
  if (child == 0) {
    ready::close_descriptor(c.fd());
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
