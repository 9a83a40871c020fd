// poll and ppoll with sockets that have a lane, and any others.
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include <vector>

#include "sovia/sovia.h"
#include "tests/unit/sovia/laned_connection.h"

namespace {

using namespace viaduct::sovia;
using ready::Connection;
using ready::Later;
using ready::Pipe;
using ready::time_of;

class Poll : public testing::Test {
 protected:
  void SetUp() override { ready::calls.poll = 0; }
};

TEST_F(Poll, LeavesDescriptorsThatAreNoSocketsToTheKernel) {
  Pipe pipe;
  pipe.fill();
  pollfd fds[] = {{pipe.reader(), POLLIN, 0}, {-1, POLLIN, 7}};
  EXPECT_EQ(sovia_poll(fds, 2, -1), 1);
  EXPECT_EQ(fds[0].revents, POLLIN);
  EXPECT_EQ(fds[1].revents, 0);
  EXPECT_EQ(ready::calls.poll, 1);
}

TEST_F(Poll, ASocketWithoutALaneIsAsTheKernelSays) {
  Connection c;
  pollfd fd{c.fd(), POLLIN | POLLOUT, 0};
  EXPECT_EQ(sovia_poll(&fd, 1, -1), 1);
  EXPECT_EQ(fd.revents, POLLOUT);
  c.peer_sends("x");
  EXPECT_EQ(sovia_poll(&fd, 1, -1), 1);
  EXPECT_EQ(fd.revents, POLLIN | POLLOUT);
}

TEST_F(Poll, FindsWhatIsOnTheLaneMostlyWithoutTheKernel) {
  Connection c;
  c.up();
  c.data();
  pollfd fd{c.fd(), POLLIN, 0};
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(sovia_poll(&fd, 1, -1), 1);
    EXPECT_EQ(fd.revents, POLLIN);
  }
  EXPECT_LE(ready::calls.poll, 16);
  EXPECT_GE(ready::calls.poll, 1);
}

TEST_F(Poll, FindsLanesAndKernelDescriptorsInOneCall) {
  Connection c;
  Pipe pipe;
  c.up();
  c.data();
  pipe.fill();
  for (int i = 0; i < 10; ++i) {
    pollfd fds[] = {{pipe.reader(), POLLIN, 0}, {c.fd(), POLLIN, 0}, {pipe.writer(), POLLOUT, 0}};
    EXPECT_EQ(sovia_poll(fds, 3, -1), 3);
    EXPECT_EQ(fds[0].revents, POLLIN);
    EXPECT_EQ(fds[1].revents, POLLIN);
    EXPECT_EQ(fds[2].revents, POLLOUT);
  }
}

TEST_F(Poll, NamesWhatIsReadyAsTheProgramDoes) {
  Connection c;
  c.up();
  c.data();
  pollfd fd{c.fd(), POLLRDNORM | POLLWRNORM, 0};
  EXPECT_EQ(sovia_poll(&fd, 1, -1), 1);
  EXPECT_EQ(fd.revents, POLLRDNORM | POLLWRNORM);
  fd.events = POLLIN | POLLRDNORM | POLLOUT;
  EXPECT_EQ(sovia_poll(&fd, 1, -1), 1);
  EXPECT_EQ(fd.revents, POLLIN | POLLRDNORM | POLLOUT);
}

TEST_F(Poll, DoesNotTellOfWhatWaitsInTheKernelBehindTheLane) {
  Connection c;
  c.up();
  c.peer_sends("later");
  pollfd fd{c.fd(), POLLIN, 0};
  EXPECT_EQ(sovia_poll(&fd, 1, 0), 0);
  EXPECT_EQ(fd.revents, 0);
  EXPECT_EQ(sovia_poll(&fd, 1, 20), 0);
}

TEST_F(Poll, TimesOutInTime) {
  Connection c;
  c.up();
  pollfd fd{c.fd(), POLLIN, 0};
  EXPECT_EQ(sovia_poll(&fd, 1, 0), 0);
  const long ms = time_of([&] { EXPECT_EQ(sovia_poll(&fd, 1, 50), 0); });
  EXPECT_GE(ms, 49);
  EXPECT_LT(ms, 500);
}

TEST_F(Poll, WakesForTheLane) {
  Connection c;
  c.up();
  pollfd fd{c.fd(), POLLIN, 0};
  const Later later([&] { c.data(); });
  EXPECT_EQ(sovia_poll(&fd, 1, 5000), 1);
  EXPECT_EQ(fd.revents, POLLIN);
}

TEST_F(Poll, WakesForTheKernel) {
  Connection c;
  Pipe pipe;
  c.up();
  pollfd fds[] = {{c.fd(), POLLIN, 0}, {pipe.reader(), POLLIN, 0}};
  const Later later([&] { pipe.fill(); });
  EXPECT_EQ(sovia_poll(fds, 2, 5000), 1);
  EXPECT_EQ(fds[0].revents, 0);
  EXPECT_EQ(fds[1].revents, POLLIN);
}

TEST_F(Poll, WakesForALaneThatCameUpMeanwhile) {
  Connection c;
  pollfd fd{c.fd(), POLLIN, 0};
  const Later later([&] {
    c.up();
    c.data();
  });
  EXPECT_EQ(sovia_poll(&fd, 1, 5000), 1);
  EXPECT_EQ(fd.revents, POLLIN);
}

TEST_F(Poll, AsksTheKernelAgainWhenTheLaneHasComeDown) {
  Connection c;
  c.up();
  c.peer_sends("after the lane");
  pollfd fd{c.fd(), POLLIN, 0};
  const Later later([&] { c.down(); });
  EXPECT_EQ(sovia_poll(&fd, 1, 5000), 1);
  EXPECT_EQ(fd.revents, POLLIN);
}

TEST_F(Poll, DoesNotSpinOnAnEndThatTheLaneComesBefore) {
  Connection c;
  c.up();
  c.close_peer();
  ASSERT_EQ(::shutdown(c.fd(), SHUT_WR), 0);  // the kernel says POLLHUP from now on
  pollfd fd{c.fd(), POLLIN | POLLRDHUP, 0};
  EXPECT_EQ(sovia_poll(&fd, 1, 200), 0);
  EXPECT_LE(ready::calls.poll, 40);
  const Later later([&] { c.down(); });
  EXPECT_EQ(sovia_poll(&fd, 1, 5000), 1);
  EXPECT_EQ(fd.revents, POLLIN | POLLRDHUP | POLLHUP);
}

TEST_F(Poll, TellsOfBadDescriptors) {
  Connection c;
  c.up();
  c.data();
  pollfd fds[] = {{c.fd(), POLLIN, 0}, {1023, POLLIN, 0}, {-5, POLLIN, 9}};
  EXPECT_EQ(sovia_poll(fds, 3, -1), 2);
  EXPECT_EQ(fds[1].revents, POLLNVAL);
  EXPECT_EQ(fds[2].revents, 0);
  EXPECT_EQ(fds[2].fd, -5);
}

TEST_F(Poll, AllowsADescriptorTwiceAndCopies) {
  Connection c;
  c.up();
  c.data();
  const int copy = c.dup();
  pollfd fds[] = {{c.fd(), POLLIN, 0}, {c.fd(), POLLOUT, 0}, {copy, POLLIN | POLLOUT, 0}};
  EXPECT_EQ(sovia_poll(fds, 3, -1), 3);
  EXPECT_EQ(fds[0].revents, POLLIN);
  EXPECT_EQ(fds[1].revents, POLLOUT);
  EXPECT_EQ(fds[2].revents, POLLIN | POLLOUT);
}

TEST_F(Poll, TakesManyDescriptors) {
  Connection c;
  Pipe pipe;
  c.up();
  c.data();
  std::vector<pollfd> fds(500, pollfd{pipe.reader(), POLLIN, 0});
  fds[317].fd = c.fd();
  EXPECT_EQ(sovia_poll(fds.data(), fds.size(), -1), 1);
  EXPECT_EQ(fds[317].revents, POLLIN);
  pipe.fill();
  EXPECT_EQ(sovia_poll(fds.data(), fds.size(), -1), 500);
}

TEST_F(Poll, HasNothingToWaitForButTime) {
  EXPECT_EQ(sovia_poll(nullptr, 0, 0), 0);
  EXPECT_GE(time_of([] { EXPECT_EQ(sovia_poll(nullptr, 0, 20), 0); }), 19);
}

TEST_F(Poll, LeavesRefusalsToTheKernel) {
  EXPECT_EQ(sovia_poll(nullptr, 3, 0), -1);
  EXPECT_EQ(errno, EFAULT);
  const timespec bad{0, 1'000'000'000};
  Connection c;
  pollfd fd{c.fd(), POLLIN, 0};
  EXPECT_EQ(sovia_ppoll(&fd, 1, &bad, nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
}

// ---------------------------------------------------------------------------- signals
std::atomic<int> g_signals{0};
void on_signal(int) { ++g_signals; }

class PollSignals : public Poll {
 protected:
  void SetUp() override {
    Poll::SetUp();
    g_signals = 0;
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;  // which poll does not heed
    sigaction(SIGUSR1, &action, nullptr);
    sigemptyset(&none_);
    sigemptyset(&usr1_);
    sigaddset(&usr1_, SIGUSR1);
  }
  void TearDown() override { pthread_sigmask(SIG_UNBLOCK, &usr1_, nullptr); }
  sigset_t none_, usr1_;
};

TEST_F(PollSignals, InterruptASleep) {
  Connection c;
  c.up();
  pollfd fd{c.fd(), POLLIN, 0};
  const pthread_t self = pthread_self();
  const Later later([=] { pthread_kill(self, SIGUSR1); });
  EXPECT_EQ(sovia_poll(&fd, 1, 5000), -1);
  EXPECT_EQ(errno, EINTR);
  EXPECT_EQ(g_signals, 1);
}

TEST_F(PollSignals, AreLetInByTheMask) {
  Connection c;
  c.up();
  pthread_sigmask(SIG_BLOCK, &usr1_, nullptr);
  raise(SIGUSR1);
  pollfd fd{c.fd(), POLLIN, 0};
  EXPECT_EQ(sovia_ppoll(&fd, 1, nullptr, &none_), -1);
  EXPECT_EQ(errno, EINTR);
  EXPECT_EQ(g_signals, 1);
  const timespec no_time{};
  raise(SIGUSR1);
  EXPECT_EQ(sovia_ppoll(&fd, 1, &no_time, &none_), -1);
  EXPECT_EQ(errno, EINTR);
  EXPECT_EQ(g_signals, 2);
}

TEST_F(PollSignals, DoNotKeepWhatIsReadyFromTheProgram) {
  Connection c;
  c.up();
  c.data();
  pthread_sigmask(SIG_BLOCK, &usr1_, nullptr);
  raise(SIGUSR1);
  pollfd fd{c.fd(), POLLIN, 0};
  EXPECT_EQ(sovia_ppoll(&fd, 1, nullptr, &none_), 1);
  EXPECT_EQ(fd.revents, POLLIN);
  EXPECT_EQ(g_signals, 0);
}

// ---------------------------------------------------------------------------- epoll descriptors
TEST_F(Poll, SeesAnEpollSetWhoseSocketHasSomethingOnItsLane) {
  Connection c;
  ready::Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, 1), 0);
  pollfd fd{set.fd(), POLLIN, 0};
  EXPECT_EQ(sovia_poll(&fd, 1, 0), 0);
  c.up();
  EXPECT_EQ(sovia_poll(&fd, 1, 0), 0);
  {
    const Later later([&] { c.data(); });
    EXPECT_EQ(sovia_poll(&fd, 1, 5000), 1);
  }
  EXPECT_EQ(fd.revents, POLLIN);
  EXPECT_EQ(sovia_poll(&fd, 1, 0), 1);
  c.data(false);
  EXPECT_EQ(sovia_poll(&fd, 1, 0), 0);
  c.down();
  EXPECT_EQ(sovia_poll(&fd, 1, 0), 0);
  c.peer_sends("x");
  EXPECT_EQ(sovia_poll(&fd, 1, 0), 1);
}

}  // namespace
