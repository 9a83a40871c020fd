// select and pselect with sockets that have a lane, and any others.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/select.h>
#include <sys/time.h>

#include <cstring>
#include <vector>

#include "sovia/sovia.h"
#include "tests/unit/sovia/laned_connection.h"

namespace {

using namespace viaduct::sovia;
using ready::Connection;
using ready::Later;
using ready::Pipe;
using ready::time_of;

struct Sets {
  fd_set read, write, except;
  Sets() {
    FD_ZERO(&read);
    FD_ZERO(&write);
    FD_ZERO(&except);
  }
  Sets& reads(int fd) { return FD_SET(fd, &read), *this; }
  Sets& writes(int fd) { return FD_SET(fd, &write), *this; }
  Sets& excepts(int fd) { return FD_SET(fd, &except), *this; }
  int select(long ms) {
    timeval time{ms / 1000, ms % 1000 * 1000};
    return sovia_select(FD_SETSIZE, &read, &write, &except, &time);
  }
};

TEST(Select, LeavesDescriptorsThatAreNoSocketsToTheKernel) {
  Pipe pipe;
  pipe.fill();
  Sets sets;
  EXPECT_EQ(sets.reads(pipe.reader()).writes(pipe.writer()).select(1000), 2);
  EXPECT_TRUE(FD_ISSET(pipe.reader(), &sets.read));
  EXPECT_TRUE(FD_ISSET(pipe.writer(), &sets.write));
}

TEST(Select, CountsBitsAndNotDescriptors) {
  Connection c;
  Pipe pipe;
  c.up();
  c.data();
  Sets sets;
  EXPECT_EQ(sets.reads(c.fd()).writes(c.fd()).excepts(c.fd()).reads(pipe.reader()).select(1000), 2);
  EXPECT_TRUE(FD_ISSET(c.fd(), &sets.read));
  EXPECT_TRUE(FD_ISSET(c.fd(), &sets.write));
  EXPECT_FALSE(FD_ISSET(c.fd(), &sets.except));
  EXPECT_FALSE(FD_ISSET(pipe.reader(), &sets.read));
}

TEST(Select, WakesForTheLaneAndForTheKernel) {
  Connection c;
  Pipe pipe;
  c.up();
  {
    const Later later([&] { c.data(); });
    Sets sets;
    EXPECT_EQ(sets.reads(c.fd()).reads(pipe.reader()).select(5000), 1);
    EXPECT_TRUE(FD_ISSET(c.fd(), &sets.read));
  }
  c.data(false);
  const Later later([&] { pipe.fill(); });
  Sets sets;
  EXPECT_EQ(sets.reads(c.fd()).reads(pipe.reader()).select(5000), 1);
  EXPECT_TRUE(FD_ISSET(pipe.reader(), &sets.read));
  EXPECT_FALSE(FD_ISSET(c.fd(), &sets.read));
}

TEST(Select, ClearsTheSetsWhenItTimesOutAndTellsWhatIsLeftOfTheTime) {
  Connection c;
  c.up();
  Sets sets;
  sets.reads(c.fd()).excepts(c.fd());
  timeval time{0, 30'000};
  EXPECT_GE(time_of([&] {
              EXPECT_EQ(sovia_select(c.fd() + 1, &sets.read, nullptr, &sets.except, &time), 0);
            }),
            29);
  EXPECT_FALSE(FD_ISSET(c.fd(), &sets.read));
  EXPECT_FALSE(FD_ISSET(c.fd(), &sets.except));
  EXPECT_EQ(time.tv_sec, 0);
  EXPECT_EQ(time.tv_usec, 0);

  c.data();
  time = {9, 0};
  sets.reads(c.fd());
  EXPECT_EQ(sovia_select(c.fd() + 1, &sets.read, nullptr, nullptr, &time), 1);
  EXPECT_GE(time.tv_sec, 8);
  EXPECT_LT(time.tv_sec, 9);
}

TEST(Select, TakesMicrosecondsBeyondASecond) {
  Connection c;
  c.up();
  c.data();
  Sets sets;
  sets.reads(c.fd());
  timeval time{1, 2'500'000};
  EXPECT_EQ(sovia_select(c.fd() + 1, &sets.read, nullptr, nullptr, &time), 1);
  EXPECT_EQ(time.tv_sec, 3);
}

TEST(Select, RefusesBadDescriptorsAndTimes) {
  Connection c;
  c.up();
  c.data();
  const int bad = ::dup(c.fd());
  ::close(bad);
  Sets sets;
  EXPECT_EQ(sets.reads(c.fd()).reads(bad).select(1000), -1);
  EXPECT_EQ(errno, EBADF);
  EXPECT_TRUE(FD_ISSET(c.fd(), &sets.read));  // as they were
  EXPECT_TRUE(FD_ISSET(bad, &sets.read));
  timeval negative{-1, 0};
  EXPECT_EQ(sovia_select(c.fd() + 1, &sets.read, nullptr, nullptr, &negative), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(sovia_select(-1, &sets.read, nullptr, nullptr, nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST(Select, IgnoresBitsBeyondTheTableOfDescriptors) {
  Connection c;
  c.up();
  c.data();
  Sets sets;
  sets.reads(c.fd()).reads(1023);
  fd_set as_kernel = sets.read;
  timeval no_time{};
  const int expected = ::select(1024, &as_kernel, nullptr, nullptr, &no_time);
  const int error = errno;
  const int result = sets.select(1000);
  if (expected < 0) {
    EXPECT_EQ(error, EBADF);
    EXPECT_EQ(result, -1);
  } else {
    EXPECT_EQ(result, 1);
    EXPECT_TRUE(FD_ISSET(c.fd(), &sets.read));
  }
}

// getdtablesize() may be far more than an fd_set has bits.
TEST(Select, LooksAtNoMoreBitsThanTheProcessHasDescriptors) {
  Connection c;
  c.up();
  c.data();
  struct {
    fd_set set;
    char beyond[200'000];
  } room;
  std::memset(&room, 0, sizeof room);
  std::memset(room.beyond, 0xff, sizeof room.beyond);
  FD_SET(c.fd(), &room.set);
  EXPECT_EQ(sovia_select(1 << 20, &room.set, nullptr, nullptr, nullptr), 1);
  EXPECT_TRUE(FD_ISSET(c.fd(), &room.set));
  EXPECT_EQ(room.beyond[0], '\xff');
}

// A pipe whose other end has gone says POLLHUP, which is nothing exceptional to select().
TEST(Select, LeavesOutWhatIsNotAskedForWithoutSpinning) {
  Connection c;
  Pipe pipe;
  c.up();
  pipe.close_writer();
  ready::calls.poll = 0;
  Sets sets;
  EXPECT_EQ(sets.excepts(pipe.reader()).reads(c.fd()).select(100), 0);
  EXPECT_LE(ready::calls.poll, 30);
}

TEST(Select, AHangUpIsReadable) {
  Connection c;
  c.close_peer();
  Sets sets;
  EXPECT_EQ(sets.reads(c.fd()).select(1000), 1);
}

TEST(Pselect, LeavesItsTimeAsItIsAndHeedsItsMask) {
  Connection c;
  c.up();
  struct sigaction action {};
  action.sa_handler = [](int) {};
  sigaction(SIGUSR1, &action, nullptr);
  sigset_t usr1, none;
  sigemptyset(&none);
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &usr1, nullptr);
  raise(SIGUSR1);
  timespec time{5, 0};
  Sets sets;
  sets.reads(c.fd());
  EXPECT_EQ(sovia_pselect(c.fd() + 1, &sets.read, nullptr, nullptr, &time, &none), -1);
  EXPECT_EQ(errno, EINTR);
  EXPECT_EQ(time.tv_sec, 5);
  pthread_sigmask(SIG_UNBLOCK, &usr1, nullptr);
  time = {0, 10'000'000};
  EXPECT_EQ(sovia_pselect(c.fd() + 1, &sets.read, nullptr, nullptr, &time, nullptr), 0);
  EXPECT_EQ(time.tv_nsec, 10'000'000);
  EXPECT_EQ(sovia_pselect(0, nullptr, nullptr, nullptr, &time, nullptr), 0);
}

}  // namespace
