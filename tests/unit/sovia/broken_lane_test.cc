// What a program is told of a connection whose lane breaks: because the peer was killed, or while the kernel
// has a reset to tell.
#include <errno.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include "sovia/sovia.h"
#include "tests/unit/sovia/laned_connection.h"

namespace viaduct::sovia::ready {
namespace {

// Bytes, or errno below 0.
long send(const Connection& to) {
  const ssize_t bytes = sovia_send(to.fd(), "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  return bytes < 0 ? -errno : bytes;
}
long receive(const Connection& from) {
  char byte;
  const ssize_t bytes = sovia_recv(from.fd(), &byte, 1, MSG_DONTWAIT);
  return bytes < 0 ? -errno : bytes;
}

TEST(KilledPeer, EndsTheStreamIfItHadToldOfNothingMore) {
  Connection connection;
  connection.up();
  connection.data();
  connection.close_peer();
  connection.lane_breaks();
  EXPECT_EQ(receive(connection), 1);
  EXPECT_EQ(receive(connection), 0);
  EXPECT_EQ(receive(connection), 0);
}

TEST(KilledPeer, EndsTheStreamWhoeverWasToldFirst) {
  Connection connection;
  connection.up();
  connection.lane_breaks();
  EXPECT_EQ(receive(connection), -EAGAIN);
  connection.close_peer();
  // As the background thread does.
  EXPECT_NE(connection.socket().falling(), 0);
  connection.socket().go_on_falling(connection.fd());
  pollfd end{connection.fd(), POLLIN, 0};
  EXPECT_EQ(sovia_poll(&end, 1, 0), 1);
  EXPECT_EQ(end.revents, POLLIN);
  EXPECT_EQ(receive(connection), 0);
}

// As with TCP: the first send finds out that there is nobody.
TEST(KilledPeer, IsMetByWhoSends) {
  Connection connection;
  connection.up();
  connection.close_peer();
  connection.lane_breaks();
  EXPECT_EQ(receive(connection), 0);
  EXPECT_EQ(send(connection), 1);
  EXPECT_EQ(send(connection), -EPIPE);
}

TEST(KilledPeer, ResetsTheConnectionIfItHadMore) {
  Connection connection;
  connection.up();
  connection.peer_has_more();
  connection.close_peer();
  connection.lane_breaks();
  long end;
  while ((end = receive(connection)) == 1) continue;
  EXPECT_EQ(end, -ECONNRESET);
  EXPECT_EQ(send(connection), -EPIPE);
  close_descriptor(connection.fd());
}

// It was killed with START and what follows posted, of which nothing came.
TEST(KilledPeer, ResetsTheConnectionIfItMayHaveBegun) {
  Connection connection;
  connection.open_lane();
  connection.peer_sends("k");
  connection.lane_misses();
  connection.close_peer();
  connection.lane_breaks();
  EXPECT_EQ(receive(connection), 1);
  EXPECT_EQ(receive(connection), -ECONNRESET);
  EXPECT_EQ(receive(connection), 0);
}

// What was behind START comes through the kernel, if its process lives and only its lane is gone.
TEST(BrokenLane, EndsTheStreamOfAPeerThatEndsLater) {
  Connection connection;
  connection.open_lane();
  connection.lane_misses();
  connection.lane_breaks();
  connection.peer_sends("k");
  connection.close_peer();
  EXPECT_EQ(receive(connection), 1);
  EXPECT_EQ(receive(connection), 0);
}

// The kernel tells of a reset once, to who flushes what the lane has not brought. What came before it stays
// to be read.
TEST(BrokenLane, LeavesAResetToALaterCall) {
  Connection connection;
  connection.sends_on_lane();
  connection.sends("lost");
  connection.peer_sends("answer");
  connection.reset_by_peer();
  connection.lane_breaks();
  EXPECT_EQ(connection.receive(), "answer");
  EXPECT_EQ(receive(connection), -ECONNRESET);
  EXPECT_EQ(receive(connection), 0);
  EXPECT_EQ(send(connection), -EPIPE);
}

TEST(BrokenLane, TellsAResetToWhoSendsFirst) {
  Connection connection;
  connection.sends_on_lane();
  connection.sends("lost");
  connection.peer_sends("answer");
  connection.reset_by_peer();
  connection.lane_breaks();
  EXPECT_EQ(send(connection), -ECONNRESET);
  EXPECT_EQ(send(connection), -EPIPE);
  EXPECT_EQ(connection.receive(), "answer");
  EXPECT_EQ(receive(connection), 0);
}

}  // namespace
}  // namespace viaduct::sovia::ready
