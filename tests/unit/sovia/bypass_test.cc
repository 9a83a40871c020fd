// Connections that were refused a lane: for some calls the kernel has them alone.
#include <errno.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "sovia/background/requests.h"
#include "sovia/process/libc.h"
#include "sovia/process/options.h"
#include "sovia/socket/lane_life.h"
#include "sovia/sovia.h"
#include "tests/unit/sovia/laned_connection.h"

namespace viaduct::sovia::ready {
namespace {

// Calls of the kernel's that are those of the library's own way.
int g_own_way;

class Bypass : public testing::Test {
 protected:
  void SetUp() override {
    libc::prepare();
    libc::sendmsg = [](int fd, const msghdr* message, int flags) {
      ++g_own_way;
      return ::sendmsg(fd, message, flags);
    };
    libc::recvmsg = [](int fd, msghdr* message, int flags) {
      ++g_own_way;
      return ::recvmsg(fd, message, flags);
    };
    g_own_way = 0;
    connection_.lane_is_refused();
  }
  // Bytes, or errno below 0.
  static long result(ssize_t bytes) { return bytes < 0 ? -errno : bytes; }
  long send() const { return result(sovia_send(fd_, "x", 1, MSG_NOSIGNAL)); }
  long receive() const {
    char byte;
    return result(sovia_recv(fd_, &byte, 1, MSG_DONTWAIT));
  }

  Connection connection_;
  const int fd_ = connection_.fd();
};

// Connections with its peer have ended before they used their lanes.
TEST(RestOfShortConnections, EndsForOneThatIsNotLikeThem) {
  libc::prepare();
  Connection connection;
  Flow flow;
  ASSERT_TRUE(flow_of(connection.fd(), flow));
  const auto learn = [&](bool used) {
    background::requests().learn(peer_of(flow, Role::kCaller), used);
  };
  connection_made(connection.socket(), connection.fd(), Role::kCaller);
  EXPECT_FALSE(connection.socket().demand.bypasses());
  learn(false);
  connection_made(connection.socket(), connection.fd(), Role::kCaller);
  ASSERT_TRUE(connection.socket().demand.bypasses());
  std::string part(options().upgrade_bytes / 8, 'x');
  const auto bytes = static_cast<ssize_t>(part.size());
  for (unsigned n = 0; n < 8; ++n) {
    ASSERT_EQ(sovia_send(connection.fd(), part.data(), part.size(), MSG_NOSIGNAL), bytes);
    ASSERT_EQ(::recv(connection.peer(), part.data(), part.size(), MSG_WAITALL), bytes);
  }
  EXPECT_FALSE(connection.socket().demand.bypasses());
  learn(true);
  learn(true);
  EXPECT_EQ(background::calls_before_lane(connection.fd(), Role::kCaller), 0u);
  background::requests().known.clear();
}

TEST_F(Bypass, LeavesCallsToTheKernel) {
  ASSERT_TRUE(connection_.socket().demand.bypasses());
  EXPECT_EQ(receive(), -EAGAIN);
  connection_.peer_sends("abc");
  EXPECT_EQ(receive(), 1);
  char byte = 0;
  EXPECT_EQ(sovia_read(fd_, &byte, 1), 1);
  EXPECT_EQ(byte, 'b');
  EXPECT_EQ(send(), 1);
  EXPECT_EQ(sovia_write(fd_, "y", 1), 1);
  EXPECT_EQ(g_own_way, 0);
  char two[3] = {};
  EXPECT_EQ(::recv(connection_.peer(), two, 2, MSG_WAITALL), 2);
  EXPECT_STREQ(two, "xy");
}

TEST_F(Bypass, EndsAfterSomeCallsThatMoveData) {
  for (int i = 0; i < 1000 && connection_.socket().demand.bypasses(); ++i) {
    EXPECT_EQ(send(), 1);
    EXPECT_EQ(receive(), -EAGAIN) << "moves nothing, and does not count";
  }
  EXPECT_FALSE(connection_.socket().demand.bypasses());
  EXPECT_EQ(g_own_way, 0);
  EXPECT_EQ(send(), 1);
  EXPECT_EQ(g_own_way, 1);
}

TEST_F(Bypass, CostsPollOneCall) {
  connection_.peer_sends("a");
  calls.poll = 0;
  pollfd at{fd_, POLLIN, 0};
  EXPECT_EQ(sovia_poll(&at, 1, 1000), 1);
  EXPECT_EQ(at.revents, POLLIN);
  EXPECT_EQ(calls.poll, 1);
  fd_set read;
  FD_ZERO(&read);
  FD_SET(fd_, &read);
  timeval limit{1, 0};
  EXPECT_EQ(sovia_select(fd_ + 1, &read, nullptr, nullptr, &limit), 1);
  EXPECT_EQ(calls.poll, 1) << "select is the kernel's too";
}

// A thread that waits in the kernel would not hear of a lane.
TEST_F(Bypass, IsNotFollowedByALaneWhileACallIsUnderWay) {
  Socket& socket = connection_.socket();
  ASSERT_TRUE(begin_bypass(socket));
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(send(), 1);
  EXPECT_FALSE(socket.demand.bypasses());
  EXPECT_FALSE(begin_bypass(socket));
  // Refused: there is no background thread here. A socket that asks rests again then, or is the kernel's.
  EXPECT_TRUE(socket.may_use_lane() && !socket.demand.bypasses());
  end_bypass(socket, false);
  EXPECT_EQ(send(), 1);
  EXPECT_TRUE(!socket.may_use_lane() || socket.demand.bypasses());
}

}  // namespace
}  // namespace viaduct::sovia::ready
