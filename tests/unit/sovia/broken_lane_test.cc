// A program's view of a connection whose lane breaks: because the peer was killed, or while the kernel has a reset to
// report.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "sovia/background/background_state.h"
#include "sovia/lane/engine.h"
#include "sovia/process/libc.h"
#include "sovia/socket/fallback.h"
#include "sovia/socket/socket_pool.h"
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
  EXPECT_NE(falling(connection.socket()), 0);
  go_on_falling(connection.socket(), connection.fd());
  pollfd end{connection.fd(), POLLIN, 0};
  EXPECT_EQ(sovia_poll(&end, 1, 0), 1);
  EXPECT_EQ(end.revents, POLLIN);
  EXPECT_EQ(receive(connection), 0);
}

// As with TCP: the first send finds out that the peer has gone.
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
  connection.lane_misses();
  connection.close_peer();
  connection.lane_breaks();
  long end;
  while ((end = receive(connection)) == 1) continue;
  EXPECT_EQ(end, -ECONNRESET);
  EXPECT_EQ(send(connection), -EPIPE);
  close_descriptor(connection.fd());
}

// It was killed with its first packet posted, which did not come.
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

// The peer may have got the end that was sent behind the first packet, or not even that.
TEST(BrokenLane, ResetsTheConnectionBehindTheKernelsBytes) {
  Connection connection;
  connection.open_lane();
  connection.peer_sends("kernel's");
  connection.sends("x");
  ASSERT_EQ(sovia_shutdown(connection.fd(), SHUT_WR), 0);
  connection.lane_breaks();
  EXPECT_EQ(connection.receive(), "kernel's");
  EXPECT_EQ(receive(connection), -ECONNRESET);
  EXPECT_EQ(receive(connection), 0);
}

// The data of the first packet comes through the kernel, if the peer's process lives and only its lane is gone.
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

// The peer's lane breaks before it has heard that its FIN has come, that of this end does not, or later: it may be
// that only the peer has lost an agent, or has been too long without one.
TEST(PeersLane, BreaksBehindItsEnd) {
  Connection connection;
  connection.up();
  connection.data();
  connection.peer_ends_lane_unanswered();
  connection.peer_sends(connection.record_of_peer(1) + "more");
  EXPECT_EQ(receive(connection), 1);
  EXPECT_EQ(connection.receive(), "more");
  connection.close_peer();
  EXPECT_EQ(receive(connection), 0);
}

TEST(PeersLane, BreaksBehindItsEndAndSendsAgain) {
  Connection connection;
  connection.up();
  connection.data();
  connection.data();
  connection.peer_ends_lane_unanswered();
  EXPECT_EQ(connection.receive(), "dd");
  const std::string record = connection.record_of_peer(1);
  connection.peer_sends(record.substr(0, 9));
  EXPECT_EQ(receive(connection), -EAGAIN);
  connection.peer_sends(record.substr(9) + "dmore");
  EXPECT_EQ(connection.receive(), "more");
  connection.lane_breaks();
  connection.peer_sends("and more");
  EXPECT_EQ(connection.receive(), "and more");
}

// Its FINACK has come although this end does not know.
TEST(PeersLane, EndsWithoutARecord) {
  Connection connection;
  connection.up();
  connection.peer_ends_lane_unanswered();
  EXPECT_EQ(receive(connection), -EAGAIN);
  connection.peer_sends("more");
  EXPECT_EQ(connection.receive(), "more");
}

// Both streams have ended on the lane; but a record may yet come.
TEST(PeersLane, IsKeptUntilThePeerHasItsAnswer) {
  Connection connection;
  connection.up();
  ASSERT_EQ(sovia_shutdown(connection.fd(), SHUT_WR), 0);
  connection.settle();
  connection.peer_ends_lane_unanswered();
  EXPECT_EQ(receive(connection), -EAGAIN);
  EXPECT_FALSE(connection.lane_is_over());
  connection.settle();
  EXPECT_TRUE(connection.lane_is_over());
}

// The kernel reports a reset once, to the flush of bytes that the lane has not delivered. Data that came before stays
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

// The kernel's stream ends later, when the lane's data has arrived. Whether the socket is connected is asked before that:
// behind the peer's end it is not any more.
TEST(Shutdown, AsksWhetherItIsConnectedWhileNoOtherThreadCanEndTheStream) {
  static Socket* socket;
  static bool could_be_ended;
  Connection connection;
  connection.up();
  connection.sends("on its way");
  socket = &connection.socket();
  could_be_ended = false;
  const auto real = libc::getpeername;
  libc::getpeername = [](int fd, sockaddr* name, socklen_t* length) noexcept {
    if (socket->tx.lock.try_lock()) {
      could_be_ended = true;
      socket->tx.lock.unlock();
    }
    return ::getpeername(fd, name, length);
  };
  EXPECT_EQ(sovia_shutdown(connection.fd(), SHUT_WR), 0);
  libc::getpeername = real;
  EXPECT_FALSE(could_be_ended);
}

TEST(Route, IsWhatTheDataTakesNow) {
  Connection connection;
  EXPECT_EQ(sovia_route(connection.fd()), 1);
  connection.open_lane();
  EXPECT_EQ(sovia_route(connection.fd()), 1);
  connection.up();
  EXPECT_EQ(sovia_route(connection.fd()), 0);
  connection.down();
  EXPECT_EQ(sovia_route(connection.fd()), 1);
}

// A program may finish its answer before it reads on.
TEST(ClosedPeer, LeavesRoomWhileBytesAreUnread) {
  Connection connection;
  connection.up();
  connection.data();
  connection.peer_lane().finish(true);
  connection.settle();
  connection.lane_cuts();
  pollfd room{connection.fd(), POLLOUT, 0};
  EXPECT_EQ(sovia_poll(&room, 1, 1000), 1);
  EXPECT_EQ(room.revents, POLLOUT);
  EXPECT_EQ(send(connection), 1);
  EXPECT_EQ(receive(connection), 1);
}

// As with TCP, whose buffer has room: a program that did not wait for room need not begin to.
TEST(BrokenLane, TakesASmallSendBeforeItIsCut) {
  Connection connection;
  connection.up();
  connection.near_transport().break_down();  // the NIC refuses what is posted
  EXPECT_EQ(send(connection), 1);
  EXPECT_EQ(send(connection), 1);
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

// The peer has freed the lane, which has ended, and goes on by the kernel, where it ends too.
TEST(FreedLane, LetsAPeekWaitForTheKernelsEnd) {
  Connection connection;
  connection.receives_on_lane();
  connection.lane_brings("a");
  connection.peer_ends_lane();
  connection.lane_cuts();
  ASSERT_EQ(sovia_fcntl(connection.fd(), F_SETFL, 0), 0);
  std::atomic<bool> ends = false;
  std::thread peer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ends = true;
    ::shutdown(connection.peer(), SHUT_WR);
  });
  char all[3];
  EXPECT_EQ(sovia_recv(connection.fd(), all, sizeof all, MSG_PEEK | MSG_WAITALL), 1);
  EXPECT_TRUE(ends);
  peer.join();
}

// No thread looks at the lanes of these tests.
TEST(FreedLane, IsNotLeftInTheQueueOfTheBackgroundThread) {
  background::requests().queue = nullptr;  // it has lanes of the tests before
  const LaneOptions options;
  FakeTransport transport(places_for(options));
  Socket* const socket = SocketPool::make(true);
  auto* const end = new LaneEndpoint(socket->reference(), *socket, transport, options);
  background::state().ends.push_back(end);
  engine::count_lanes(1);
  transport.break_down();
  end->lane.greet(end->token);
  EXPECT_EQ(transport.failures(), 1u);
  EXPECT_EQ(background::requests().queue, end);
  EXPECT_TRUE(background::free_end(background::state().ends.size() - 1));
  EXPECT_EQ(background::requests().queue, nullptr);
}

}  // namespace
}  // namespace viaduct::sovia::ready
