// Receives of connections that have no lane: as few system calls as without the library, and what
// handlers do meanwhile. Each case has a process of its own, which begins with one thread.
#include <gtest/gtest.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "sovia/process/libc.h"
#include "sovia/process/threads.h"
#include "sovia/socket/socket.h"
#include "sovia/socket/table.h"
#include "sovia/sovia.h"
#include "tests/unit/sovia/loopback.h"

namespace viaduct::sovia {
namespace {

const int g_all_are_worth_a_lane = setenv("SOVIA_ROUTE", "lane", 1);
constexpr int kEnough = 8;  // calls, to be worth a lane

// The kernel's calls that are made from here on.
int g_receives, g_polls;

ssize_t count_recv(int fd, void* data, std::size_t bytes, int flags) {
  ++g_receives;
  return ::recv(fd, data, bytes, flags);
}
ssize_t count_recvmsg(int fd, msghdr* message, int flags) {
  ++g_receives;
  return ::recvmsg(fd, message, flags);
}
int count_poll(pollfd* fds, nfds_t count, int timeout) {
  ++g_polls;
  return ::poll(fds, count, timeout);
}
int count_ppoll(pollfd* fds, nfds_t count, const timespec* time, const sigset_t* mask) {
  ++g_polls;
  return ::ppoll(fds, count, time, mask);
}

template <class Body>
void in_a_child(Body&& body) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);
    setenv("SOVIA_LOCAL", "0", 1);
    libc::prepare();
    libc::recv = count_recv;
    libc::recvmsg = count_recvmsg;
    libc::poll = count_poll;
    libc::ppoll = count_ppoll;
    body();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// A connection whose other end, `peer`, is a process without the library.
template <class Peer>
int connect_to(Peer&& peer) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  test::Address address = test::listen_on_loopback(listener);
  if (fork() == 0) {
    alarm(20);
    peer(accept(listener, nullptr, nullptr));
    _exit(0);
  }
  close(listener);
  const int fd = sovia_socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(sovia_connect(fd, address.any(), address.kLength), 0);
  return fd;
}

void pause() { usleep(100'000); }

std::string receive(int fd) {
  char data[64];
  const ssize_t bytes = sovia_recv(fd, data, sizeof data, 0);
  return bytes < 0 ? "error" : std::string(data, static_cast<std::size_t>(bytes));
}

bool take(int fd, int bytes) {
  char one;
  while (bytes > 0 && read(fd, &one, 1) == 1) --bytes;
  return bytes == 0;
}

TEST(Receive, IsOneCallBeforeALane) {
  in_a_child([] {
    const int fd = connect_to([](int s) {
      pause();
      if (write(s, "hello", 5) != 5) return;
      pause();
    });
    EXPECT_EQ(receive(fd), "hello");
    EXPECT_EQ(g_receives, 1);
    EXPECT_EQ(receive(fd), "");
    EXPECT_EQ(g_receives, 2);
    EXPECT_EQ(g_polls, 0);
  });
}

int g_socket;
bool g_alone_at_the_end;

void send_much(int) {
  for (int i = 0; i < kEnough; ++i) sovia_send(g_socket, "x", 1, 0);
  g_alone_at_the_end = has_one_thread() && table::peek(g_socket)->may_use_lane();
}

// The receive that the handler has interrupted goes on in the kernel and would not hear of a lane.
TEST(Receive, NoLaneIsAskedForWhileItWaits) {
  in_a_child([] {
    g_socket = connect_to([](int s) {
      if (take(s, kEnough)) (void)!write(s, "answer", 6);
      pause();
    });
    if (!has_one_thread()) return;  // an old C library
    signal(SIGUSR1, SIG_DFL);
    sovia_signal(SIGUSR1, send_much);
    const pid_t self = getpid();
    if (fork() == 0) {
      pause();
      kill(self, SIGUSR1);
      _exit(0);
    }
    EXPECT_EQ(receive(g_socket), "answer");
    EXPECT_TRUE(g_alone_at_the_end) << "the handler has had a lane asked for";
    // All of that counted, and it was refused at once: the peer is on this host.
    EXPECT_FALSE(table::peek(g_socket)->may_use_lane());
  });
}

sigjmp_buf g_out;
void leave(int) { siglongjmp(g_out, 1); }

// One that a handler has left can't be told from one that waits.
TEST(Receive, NoLaneIsAskedForWhenItWasLeft) {
  in_a_child([] {
    const int fd = connect_to([](int s) {
      if (take(s, kEnough)) (void)!write(s, "answer", 6);
      take(s, 1);
    });
    if (!has_one_thread()) return;
    sovia_signal(SIGUSR1, leave);
    const pid_t self = getpid();
    if (fork() == 0) {
      pause();
      kill(self, SIGUSR1);
      _exit(0);
    }
    if (sigsetjmp(g_out, 1) == 0) receive(fd);
    EXPECT_TRUE(has_one_thread());
    for (int i = 0; i < kEnough; ++i) EXPECT_EQ(sovia_send(fd, "x", 1, 0), 1);
    EXPECT_EQ(receive(fd), "answer");
    EXPECT_TRUE(has_one_thread());
  });
}

}  // namespace
}  // namespace viaduct::sovia
