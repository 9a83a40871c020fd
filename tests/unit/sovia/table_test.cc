#include "sovia/socket/table.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "sovia/sovia.h"

namespace viaduct::sovia {
namespace {

int tcp() { return sovia_socket(AF_INET, SOCK_STREAM, 0); }

TEST(Table, KnowsTcpSocketsAlone) {
  const int stream = tcp();
  const int stream6 = sovia_socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
  const int datagram = sovia_socket(AF_INET, SOCK_DGRAM, 0);
  const int local = sovia_socket(AF_UNIX, SOCK_STREAM, 0);
  EXPECT_TRUE(table::find(stream));
  if (stream6 >= 0) {
    EXPECT_TRUE(table::find(stream6));
  }
  EXPECT_FALSE(table::find(datagram));
  EXPECT_FALSE(table::find(local));
  EXPECT_FALSE(table::find(-1));
  EXPECT_FALSE(table::find(1 << 30));
  for (const int fd : {stream, stream6, datagram, local}) sovia_close(fd);
}

TEST(Table, ForgetsClosedOnes) {
  const int fd = tcp();
  ASSERT_TRUE(table::find(fd));
  sovia_close(fd);
  EXPECT_FALSE(table::find(fd));
  // A file in its place is none of ours.
  const int file = open("/dev/null", O_RDONLY);
  EXPECT_EQ(file, fd);
  EXPECT_FALSE(table::find(file));
  close(file);
  const int again = tcp();
  EXPECT_TRUE(table::find(again));
  sovia_close(again);
}

TEST(Table, CopiesAreTheSameSocket) {
  const int fd = tcp();
  const int copy = sovia_dup(fd);
  const int high = sovia_fcntl(fd, F_DUPFD_CLOEXEC, 100);
  EXPECT_GE(high, 100);
  EXPECT_EQ(table::find(fd).get(), table::find(copy).get());
  EXPECT_EQ(table::find(fd).get(), table::find(high).get());
  EXPECT_EQ(table::find(fd)->descriptors(), 3);
  sovia_close(fd);
  EXPECT_EQ(table::find(copy)->descriptors(), 2);
  sovia_close(copy);
  sovia_close(high);
  EXPECT_FALSE(table::find(high));
}

TEST(Table, Dup2Replaces) {
  const int one = tcp();
  const int other = tcp();
  Socket* const socket = table::find(one).get();
  ASSERT_EQ(sovia_dup2(one, other), other);
  EXPECT_EQ(table::find(other).get(), socket);
  EXPECT_EQ(socket->descriptors(), 2);
  // Onto itself nothing changes; from a bad one neither.
  EXPECT_EQ(sovia_dup2(one, one), one);
  EXPECT_EQ(sovia_dup2(987, other), -1);
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(socket->descriptors(), 2);
  // A file in place of a socket.
  const int file = open("/dev/null", O_RDONLY);
  ASSERT_EQ(sovia_dup3(file, other, O_CLOEXEC), other);
  EXPECT_FALSE(table::find(other));
  EXPECT_EQ(socket->descriptors(), 1);
  for (const int fd : {one, other, file}) sovia_close(fd);
}

TEST(Table, LooksAtWhatItDoesNotKnow) {
  // Made behind its back, on a number that was never used.
  const int hidden = socket(AF_INET, SOCK_STREAM, 0);
  const int fd = fcntl(hidden, F_DUPFD, 400);
  EXPECT_TRUE(table::is_tcp(fd));
  EXPECT_FALSE(table::find(fd));  // another process may use it too
  close(hidden);
  sovia_close(fd);
}

TEST(Table, RangesAreClosed) {
  std::vector<int> fds;
  for (int i = 0; i < 5; ++i) {
    const int fd = tcp();
    fds.push_back(sovia_fcntl(fd, F_DUPFD, 500 + 2 * i));
    sovia_close(fd);
  }
  ASSERT_EQ(sovia_close_range(502, 506, 0), 0);
  EXPECT_TRUE(table::find(500));
  EXPECT_FALSE(table::find(502));
  EXPECT_FALSE(table::find(506));
  EXPECT_TRUE(table::find(508));
  EXPECT_EQ(fcntl(504, F_GETFD), -1);
  EXPECT_EQ(sovia_close_range(9, 8, 0), -1);
  EXPECT_EQ(errno, EINVAL);
  sovia_close(500);
  sovia_close(508);
}

TEST(Table, AcceptedSocketsOfAListener) {
  const int listener = tcp();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(sovia_bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(sovia_listen(listener, 5), 0);
  sovia_getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  const int client = tcp();
  ASSERT_EQ(sovia_connect(client, reinterpret_cast<sockaddr*>(&address), length), 0);
  const int accepted = sovia_accept(listener, nullptr, nullptr);
  EXPECT_TRUE(table::find(accepted));
  for (const int fd : {listener, client, accepted}) sovia_close(fd);
}

// References are counted: a socket that another thread closes is not another one's all of a sudden.
TEST(Table, StandsThreadsThatCloseWhileOthersLook) {
  const int fd = sovia_fcntl(tcp(), F_DUPFD, 600);
  std::atomic<bool> done{false};
  std::thread looker([&] {
    while (!done) {
      const SocketRef socket = table::find(fd);
      if (socket) {
        EXPECT_LE(socket->descriptors(), 2);
      }
    }
  });
  const int spare = tcp();
  for (int i = 0; i < 20000; ++i) {
    sovia_dup2(spare, fd);
    sovia_close(fd);
  }
  done = true;
  looker.join();
  EXPECT_EQ(table::find(spare)->descriptors(), 1);
  sovia_close(spare);
}

}  // namespace
}  // namespace viaduct::sovia
