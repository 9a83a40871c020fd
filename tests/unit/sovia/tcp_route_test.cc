#include "sovia/lane/tcp_route.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <thread>

#include "sovia/process/libc.h"
#include "tests/unit/sovia/loopback.h"

namespace viaduct::sovia {
namespace {

// Both ends of a TCP connection over loopback.
struct Connection {
  Connection() {
    libc::prepare();
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    test::Address address = test::listen_on_loopback(listener);
    near = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(near, address.any(), address.kLength) == 0) far = accept(listener, nullptr, nullptr);
    close(listener);
  }
  ~Connection() {
    close(near);
    if (far >= 0) close(far);
  }

  void set(int name, int value) const {
    EXPECT_EQ(setsockopt(near, IPPROTO_TCP, name, &value, sizeof value), 0);
  }
  int get(int name) const {
    int value = -1;
    socklen_t length = sizeof value;
    EXPECT_EQ(getsockopt(near, IPPROTO_TCP, name, &value, &length), 0);
    return value;
  }

  int near = -1, far = -1;
};

struct Written {
  std::uint64_t bytes, unsent;
};

Written written(int fd, Opener opener) {
  Written now{~0ull, ~0ull};
  EXPECT_TRUE(bytes_written(fd, opener, now.bytes, now.unsent));
  return now;
}
Written written(const Connection& connection) { return written(connection.near, Opener::kThisEnd); }

TEST(Link, CountsWhatWasWrittenAtEitherEnd) {
  const Connection connection;
  ASSERT_GE(connection.far, 0);
  EXPECT_EQ(written(connection.near, Opener::kThisEnd).bytes, 0u);
  EXPECT_EQ(written(connection.far, Opener::kPeer).bytes, 0u);
  ASSERT_EQ(write(connection.near, "four", 4), 4);
  ASSERT_EQ(write(connection.far, "seven..", 7), 7);
  EXPECT_EQ(written(connection.near, Opener::kThisEnd).bytes, 4u);
  EXPECT_EQ(written(connection.near, Opener::kUnknown).bytes, 4u);
  EXPECT_EQ(written(connection.far, Opener::kPeer).bytes, 7u);
  EXPECT_EQ(written(connection.far, Opener::kUnknown).bytes, 7u);
}

TEST(Link, CountsNoBytesOfAStreamThatHasEnded) {
  const Connection connection;
  ASSERT_GE(connection.far, 0);
  ASSERT_EQ(shutdown(connection.near, SHUT_WR), 0);
  Written now;
  EXPECT_FALSE(bytes_written(connection.near, Opener::kThisEnd, now.bytes, now.unsent));
}

void ask_loopback(unsigned long what, std::uint32_t address) {
  const int any = socket(AF_INET, SOCK_DGRAM, 0);
  ifreq request{};
  request.ifr_name[0] = 'l', request.ifr_name[1] = 'o';
  if (what == SIOCSIFFLAGS) {
    request.ifr_flags = IFF_UP;
  } else {
    auto& to = reinterpret_cast<sockaddr_in&>(request.ifr_addr);
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(address);
  }
  EXPECT_EQ(ioctl(any, what, &request), 0);
  close(any);
}

// The kernel's own count has such bytes once for each time that it tried to send them.
TEST(Link, CountsBytesOnceThatCouldNotLeaveTheHost) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a network namespace";
  std::thread([] {
    ASSERT_EQ(unshare(CLONE_NEWNET), 0);
    ask_loopback(SIOCSIFFLAGS, 0);
    const Connection connection;
    ASSERT_GE(connection.far, 0);
    connection.set(TCP_NODELAY, 1);
    ASSERT_EQ(write(connection.near, "four", 4), 4);
    ask_loopback(SIOCSIFADDR, INADDR_ANY);
    for (int i = 0; i < 3; ++i) ASSERT_EQ(write(connection.near, "three", 5), 5);
    EXPECT_EQ(written(connection).bytes, 19u);
    Written guess;
    EXPECT_FALSE(bytes_written(connection.near, Opener::kUnknown, guess.bytes, guess.unsent));
    ask_loopback(SIOCSIFADDR, INADDR_LOOPBACK);
    char all[19];
    ASSERT_EQ(recv(connection.far, all, sizeof all, MSG_WAITALL), 19);
    EXPECT_EQ(written(connection).bytes, 19u);
  }).join();
}

TEST(Link, CountsWhatACorkHoldsBack) {
  const Connection connection;
  ASSERT_GE(connection.far, 0);
  connection.set(TCP_CORK, 1);
  ASSERT_EQ(write(connection.near, "held back", 9), 9);
  EXPECT_EQ(written(connection).bytes, 9u);
  EXPECT_EQ(written(connection).unsent, 9u);
  connection.set(TCP_CORK, 0);
  EXPECT_EQ(written(connection).bytes, 9u);
  EXPECT_EQ(written(connection).unsent, 0u);
}

TEST(Link, PushesWhatACorkHoldsBack) {
  const Connection connection;
  ASSERT_GE(connection.far, 0);
  connection.set(TCP_CORK, 1);
  ASSERT_EQ(write(connection.near, "held back", 9), 9);
  ASSERT_EQ(written(connection).unsent, 9u);
  push(connection.near);
  EXPECT_EQ(written(connection).unsent, 0u);
  EXPECT_EQ(connection.get(TCP_CORK), 1);
  EXPECT_EQ(connection.get(TCP_NODELAY), 0);
}

TEST(Link, PushesWithoutUndoingNoDelay) {
  const Connection connection;
  ASSERT_GE(connection.far, 0);
  connection.set(TCP_NODELAY, 1);
  push(connection.near);
  EXPECT_EQ(connection.get(TCP_NODELAY), 1);
  EXPECT_EQ(connection.get(TCP_CORK), 0);
}

}  // namespace
}  // namespace viaduct::sovia
