// A program's view of a connection whose directions come to a lane and leave it again and again.
#include <endian.h>
#include <errno.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstdarg>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <string>

#include "sovia/process/clock.h"
#include "sovia/process/libc.h"
#include "sovia/process/options.h"
#include "sovia/socket/fallback.h"
#include "sovia/socket/fork_handoff.h"
#include "sovia/socket/lane_life.h"
#include "sovia/sovia.h"
#include "tests/unit/sovia/laned_connection.h"

namespace viaduct::sovia::ready {
namespace {

// All that the program can read now.
std::string all_of(Connection& connection) {
  std::string all;
  for (std::string part = connection.receive(); !part.empty(); part = connection.receive()) all += part;
  return all;
}
// All that has come to the peer through the kernel, records too.
std::string at_peer(const Connection& connection) {
  std::string all;
  char part[4096];
  for (ssize_t n; (n = ::recv(connection.peer(), part, sizeof part, MSG_DONTWAIT)) > 0;) {
    all.append(part, static_cast<std::size_t>(n));
  }
  return all;
}
int unread(const Connection& connection) {
  int bytes = -1;
  EXPECT_EQ(sovia_ioctl(connection.fd(), FIONREAD, &bytes), 0);
  return bytes;
}
bool is_readable(const Connection& connection) {
  pollfd at{connection.fd(), POLLIN, 0};
  return sovia_poll(&at, 1, 0) == 1 && (at.revents & POLLIN) != 0;
}
long receive(const Connection& from) {
  char byte;
  const ssize_t bytes = sovia_recv(from.fd(), &byte, 1, MSG_DONTWAIT);
  return bytes < 0 ? -errno : bytes;
}
std::string much(char byte, std::size_t bytes) { return std::string(bytes, byte); }

// ---------------------------------------------------------------------------- receiving

// A fork would else wait for ever for bytes that nobody has sent.
TEST(Receiving, GathersNoMoreThanComes) {
  Connection c;
  c.up();
  c.lane_brings("lane");
  c.peer_goes_down();
  c.peer_sends(c.record_of_peer(4) + "kernel");
  EXPECT_EQ(all_of(c), "lanekernel");
  c.peer_lies(1000);
  c.lane_brings("x");
  char room[8];
  EXPECT_EQ(sovia_recv(c.fd(), room, sizeof room, MSG_PEEK | MSG_DONTWAIT), -1);
  EXPECT_FALSE(c.socket().reset);
  gather(c.socket(), c.fd());
  EXPECT_TRUE(c.socket().reset);
}

TEST(Receiving, CountsOnceWhatComesTwice) {
  Connection c;
  c.up();
  for (const bool is_up : {true, false}) {
    if (!is_up) c.peer_sends("kernel");
    c.lane_brings("lane, late");
    c.peer_goes_down();
    c.peer_sends(c.record_of_peer(4) + ", late" + "kernel");
    EXPECT_EQ(unread(c), is_up ? 16 : 22);
    EXPECT_EQ(all_of(c), is_up ? "lane, latekernel" : "kernellane, latekernel");
    EXPECT_EQ(unread(c), 0);
  }
}

// What has come stays to be read behind a shutdown; TCP refuses what comes later, where both directions are shut.
TEST(Receiving, RefusesBehindAShutdownOnlyWhatComesLater) {
  for (const bool later : {false, true}) {
    Connection c;
    c.up();
    c.lane_brings("lane");
    c.peer_goes_down();
    EXPECT_EQ(all_of(c), "lane");
    if (!later) c.peer_sends(c.record_of_peer(4) + "kernel");
    ASSERT_EQ(sovia_shutdown(c.fd(), SHUT_RDWR), 0);
    if (later) c.peer_sends(c.record_of_peer(4) + "kernel");
    EXPECT_EQ(all_of(c), later ? "" : "kernel");
    EXPECT_EQ(static_cast<bool>(c.socket().reset), later);
  }
}

TEST(Receiving, FollowsThePeerUpAndDown) {
  Connection c;
  c.up();
  std::string sent, got;
  for (int i = 0; i < 20; ++i) {
    const std::string there = "lane" + std::to_string(i), here = "kernel" + std::to_string(i);
    c.lane_brings(there);
    if (i % 3 == 0) got += all_of(c);
    c.peer_goes_down();
    if (i % 4 == 0) got += all_of(c);
    const std::uint64_t stay = there.size();
    c.peer_sends(c.record_of_peer(stay) + here);
    if (i % 2 == 0) got += all_of(c);
    sent += there + here;
  }
  got += all_of(c);
  EXPECT_EQ(got, sent);
}

TEST(Receiving, ReadsTheKernelsBytesBeforeTheLanes) {
  Connection c;
  c.peer_sends("kernel");
  c.receives_on_lane();
  c.lane_brings("lane");
  EXPECT_EQ(unread(c), 10);
  char some[4];
  ASSERT_EQ(sovia_recv(c.fd(), some, 4, MSG_DONTWAIT), 4);
  EXPECT_EQ(std::string(some, 4), "kern");
  EXPECT_EQ(all_of(c), "ellane");
}

TEST(Receiving, WaitsForTheKernelsBytesThatComeBefore) {
  Connection c;
  c.open_lane();
  ASSERT_TRUE(c.peer_lane().tx.go_up(3));
  c.lane_brings("lane");
  EXPECT_FALSE(is_readable(c));
  EXPECT_EQ(receive(c), -EAGAIN);
  c.peer_sends("abc");
  EXPECT_TRUE(is_readable(c));
  EXPECT_EQ(all_of(c), "abclane");
}

// The peer has noticed the end of the lane before its first packet came, and goes on by the kernel without a record.
TEST(Receiving, DropsALaneWhoseFirstPacketIsLate) {
  Connection c;
  c.open_lane();
  c.peer_sends("abc");
  EXPECT_EQ(all_of(c), "abc");
  ASSERT_TRUE(c.peer_lane().tx.go_up(2));
  c.lane_brings("late");
  EXPECT_EQ(receive(c), -EAGAIN);
  EXPECT_FALSE(is_readable(c));
  c.peer_sends("late and more");
  EXPECT_EQ(all_of(c), "late and more");
  EXPECT_TRUE(c.lane_is_over());
}

TEST(Receiving, TakesARecordForNoData) {
  Connection c;
  c.up();
  c.lane_brings("lane");
  c.peer_goes_down();
  EXPECT_EQ(all_of(c), "lane");
  EXPECT_FALSE(is_readable(c));
  const std::string record = c.record_of_peer(4);
  c.peer_sends(record.substr(0, 7));
  EXPECT_FALSE(is_readable(c));
  c.peer_sends(record.substr(7));
  EXPECT_FALSE(is_readable(c));
  EXPECT_EQ(unread(c), 0);
  EXPECT_EQ(receive(c), -EAGAIN);
  c.peer_sends("k");
  EXPECT_TRUE(is_readable(c));
  EXPECT_EQ(unread(c), 1);
  EXPECT_EQ(all_of(c), "k");
}

TEST(Receiving, LooksNoFurtherThanARecord) {
  Connection c;
  c.up();
  c.lane_brings("ab");
  c.peer_goes_down();
  c.peer_sends(c.record_of_peer(2) + "cd");
  char text[20];
  const ssize_t seen = sovia_recv(c.fd(), text, sizeof text, MSG_PEEK | MSG_DONTWAIT);
  ASSERT_GE(seen, 2);
  const auto bytes = static_cast<std::size_t>(seen);
  EXPECT_EQ(std::string(text, bytes), std::string("abcd").substr(0, bytes));
  EXPECT_EQ(unread(c), 4);
  EXPECT_EQ(all_of(c), "abcd");
}

// Records stand between, where the kernel goes on behind the lane.
TEST(Receiving, LooksAtAllThatIsThereAndTellsOfItStill) {
  for (const bool has_told : {false, true}) {
    Connection c;
    Epoll set;
    c.up();
    c.peer_goes_down();
    c.peer_sends(c.record_of_peer(0) + "before");
    ASSERT_EQ(set.add(c.fd(), EPOLLIN, 7), 0);
    if (has_told) {
      EXPECT_EQ(set.wait(), "7:IN");
    }
    for (const char* const behind : {", behind", ", at the end"}) {
      c.lane_brings("lane");
      c.peer_goes_down();
      c.peer_sends(c.record_of_peer(4) + behind);
    }
    const std::string all = "beforelane, behindlane, at the end";
    std::string seen(all.size(), '-');
    EXPECT_EQ(sovia_recv(c.fd(), seen.data(), seen.size(), MSG_PEEK | MSG_DONTWAIT), static_cast<ssize_t>(all.size()));
    EXPECT_EQ(seen, all);
    EXPECT_EQ(set.wait(), "7:IN");
    EXPECT_EQ(unread(c), static_cast<int>(all.size()));
    EXPECT_EQ(all_of(c), all);
    EXPECT_EQ(set.wait(), "");
  }
}

TEST(Receiving, WakesASetForEachCarrier) {
  for (const std::uint32_t how : {EPOLLIN | 0u, EPOLLIN | EPOLLET}) {
    Connection c;
    Epoll set;
    c.up();
    ASSERT_EQ(set.add(c.fd(), how, 7), 0);
    EXPECT_EQ(set.wait(), "");
    for (int i = 0; i < 5; ++i) {
      c.lane_brings("ab");
      EXPECT_EQ(set.wait(), "7:IN");
      EXPECT_EQ(all_of(c), "ab");
      c.peer_goes_down();
      EXPECT_EQ(set.wait(), "");
      c.peer_sends(c.record_of_peer(2) + "cd");
      EXPECT_EQ(set.wait(1000), "7:IN") << i;
      EXPECT_EQ(all_of(c), "cd");
      EXPECT_EQ(set.wait(), "") << i;
    }
  }
}

// A program that reads exactly what one carrier has brought is told of the other's.
TEST(Receiving, TellsALevelTriggeredSetOfTheNextCarriersBytes) {
  Connection c;
  Epoll set;
  c.up();
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, 7), 0);
  c.lane_brings("ab");
  c.peer_goes_down();
  c.peer_sends(c.record_of_peer(2) + "cd");
  c.lane_brings("ef");
  for (const char* const text : {"ab", "cd", "ef"}) {
    EXPECT_EQ(set.wait(1000), "7:IN") << text;
    char two[2];
    ASSERT_EQ(sovia_recv(c.fd(), two, 2, MSG_DONTWAIT), 2);
    EXPECT_EQ(std::string(two, 2), text);
  }
  EXPECT_EQ(set.wait(), "");
}

std::function<void()> g_meanwhile;
int ioctl_and_more(int fd, unsigned long request, ...) noexcept {
  va_list rest;
  va_start(rest, request);
  void* const value = va_arg(rest, void*);
  va_end(rest);
  const int result = ::ioctl(fd, request, value);
  if (request == SIOCINQ && g_meanwhile) std::exchange(g_meanwhile, nullptr)();
  return result;
}

// The lane is looked at behind the kernel: what the kernel has by then may be a record.
TEST(Receiving, ReadsNoMoreOfTheKernelThanThereWasBeforeALookAtTheLane) {
  Connection c;
  c.open_lane();
  c.peer_sends("old");
  const auto real = libc::ioctl;
  libc::ioctl = ioctl_and_more;
  g_meanwhile = [&] {
    c.lane_brings("lane");
    c.peer_goes_down();
    c.peer_sends(c.record_of_peer(4) + "new");
  };
  char text[100];
  const ssize_t got = sovia_recv(c.fd(), text, sizeof text, MSG_DONTWAIT);
  libc::ioctl = real;
  EXPECT_FALSE(g_meanwhile) << "nobody looked";
  ASSERT_GE(got, 3);
  EXPECT_EQ(std::string(text, static_cast<std::size_t>(got)) + all_of(c), "oldlanenew");
}

// ---------------------------------------------------------------------------- ... from a lane that breaks

TEST(ReceivingBroken, GoesOnWhereTheRecordSays) {
  Connection c;
  c.up();
  c.lane_brings("abcdef");
  c.lane_breaks();
  EXPECT_EQ(all_of(c), "abcdef");
  c.peer_sends(c.record_of_peer(4) + "efgh");
  EXPECT_EQ(all_of(c), "gh");
  c.peer_sends("ij");
  EXPECT_EQ(all_of(c), "ij");
}

TEST(ReceivingBroken, HasTheWholeStayAgainWithoutARecord) {
  for (const bool reads_first : {false, true}) {
    Connection c;
    c.open_lane();
    c.lane_brings("abc");
    if (reads_first) {
      EXPECT_EQ(all_of(c), "abc");
    }
    c.lane_breaks();
    c.peer_sends("abcdef");
    EXPECT_EQ(all_of(c), reads_first ? "def" : "abcdef");
  }
}

// Its peer does not know that anything has come.
TEST(ReceivingBroken, HasTheWholeStayAgainAlsoBehindItsEnd) {
  Connection c;
  c.open_lane();
  c.lane_brings("abc");
  c.peer_goes_down();
  EXPECT_EQ(all_of(c), "abc");
  c.lane_breaks();
  c.peer_sends("abcdef");
  EXPECT_EQ(all_of(c), "def");
}

TEST(ReceivingBroken, HasALaterStayAgain) {
  Connection c;
  c.up();
  c.lane_brings("abc");
  c.peer_goes_down();
  c.peer_sends(c.record_of_peer(3) + "def");
  EXPECT_EQ(all_of(c), "abcdef");
  c.lane_brings("ghi");
  EXPECT_EQ(all_of(c), "ghi");
  c.lane_breaks();
  c.peer_sends("ghijkl");
  EXPECT_EQ(all_of(c), "jkl");
}

TEST(ReceivingBroken, HasNothingAgainIfTheFirstPacketWasLost) {
  Connection c;
  c.open_lane();
  ASSERT_TRUE(c.peer_lane().tx.go_up(0));
  c.lane_breaks();
  c.peer_sends("abc");
  EXPECT_EQ(all_of(c), "abc");
}

TEST(ReceivingBroken, IsResetByARecordThatLeavesAGap) {
  Connection c;
  c.up();
  c.lane_brings("abc");
  c.lane_breaks();
  c.peer_sends(c.record_of_peer(4) + "e");
  EXPECT_EQ(c.receive(), "abc");
  EXPECT_EQ(receive(c), -ECONNRESET);
}

// The end of the lane is known to the peer; a record that it owes since it went down comes all the same.
TEST(Receiving, TakesARecordBehindTheEndOfTheLane) {
  Connection c;
  c.up();
  c.lane_brings("abc");
  c.peer_goes_down();
  EXPECT_EQ(all_of(c), "abc");
  c.peer_ends_lane();
  EXPECT_EQ(receive(c), -EAGAIN);
  ASSERT_EQ(sovia_shutdown(c.fd(), SHUT_WR), 0);
  c.settle();
  c.lane_is_over();
  c.peer_sends(c.record_of_peer(3) + "def");
  EXPECT_EQ(all_of(c), "def");
}

// ---------------------------------------------------------------------------- bytes that nobody has announced

TEST(ForeignBytes, AreNoRecord) {
  Connection c;
  c.up();
  EXPECT_FALSE(has_foreign_bytes(c.socket(), c.fd()));
  c.peer_sends("x");
  EXPECT_TRUE(has_foreign_bytes(c.socket(), c.fd()));
  reset_for_foreign_bytes(c.socket(), c.fd());
  c.lane_cuts();  // as the background thread does
  EXPECT_EQ(receive(c), -ECONNRESET);
}

TEST(ForeignBytes, AreNotThoseOfAPeerWhoseLaneBreaks) {
  Connection c;
  c.up();
  c.peer_sends(c.record_of_peer(0).substr(0, 3));
  EXPECT_FALSE(has_foreign_bytes(c.socket(), c.fd()));
}

TEST(ForeignBytes, AreNoneBesideALaneThatTheDirectionIsNotOn) {
  Connection c;
  c.open_lane();
  c.peer_sends("x");
  EXPECT_FALSE(has_foreign_bytes(c.socket(), c.fd()));
}

// ---------------------------------------------------------------------------- sending

Resume record_in(const std::string& bytes) {
  Resume resume{};
  std::memcpy(&resume, bytes.data(), std::min(bytes.size(), sizeof resume));
  return resume;
}

TEST(Sending, TakesLongBurstsToTheKernelAndComesBack) {
  const Routes routes(kRouteAuto);
  Connection c;
  c.sends_on_lane();  // a byte
  std::uint64_t stay = 1;
  for (int i = 0; i < 5; ++i) {
    c.sends("small");
    EXPECT_EQ(c.lane_takes(), "small");
    stay += 5;
    const std::string burst = much('k', Burst::kLongSend);
    {
      const Answering peer(c);
      std::size_t sent = 0;
      const long ms = time_of([&] {
        while (sent < burst.size()) {
          const ssize_t n = sovia_send(c.fd(), burst.data() + sent, burst.size() - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
          if (n > 0) sent += static_cast<std::size_t>(n);
        }
      });
      EXPECT_LT(ms, 150) << "the lane is no slower to leave than to give up";
    }
    const std::string got = at_peer(c);
    ASSERT_EQ(got.size(), sizeof(Resume) + burst.size()) << i;
    EXPECT_EQ(be64toh(record_in(got).offset), stay);
    EXPECT_EQ(got.substr(sizeof(Resume)), burst);
    EXPECT_EQ(c.lane_takes(), "") << "the lane has said that the kernel goes on";
    EXPECT_EQ(c.peer_lane().control.receiving(), Lane::State::kIdle);
    c.peer_sends("answer");
    EXPECT_EQ(all_of(c), "answer");
    c.sends("x");
    EXPECT_EQ(c.lane_takes(), "x") << "small again";
    stay = 1;
  }
}

// A program that does not wait for room need not wait for long where its own small data is on its way.
TEST(Sending, LeavesALaneWithDataOnItsWayQuickly) {
  const Routes routes(kRouteAuto);
  Connection c;
  c.sends_on_lane();  // a byte
  c.sends("small");
  const std::string burst = much('k', Burst::kLongSend);
  ssize_t sent = 0;
  {
    const Answering peer(c);
    constexpr int kFlags = MSG_DONTWAIT | MSG_NOSIGNAL;
    // Where the peer's thread does not get a processor for a moment the call says so, and the socket tells when to try again.
    for (int tries = 0; tries < 100 && sent <= 0; ++tries) {
      const long ms = time_of([&] { sent = sovia_send(c.fd(), burst.data(), burst.size(), kFlags); });
      EXPECT_LT(ms, 150);
      if (sent >= 0) break;
      ASSERT_EQ(errno, EAGAIN);
      pollfd writable{c.fd(), POLLOUT, 0};
      ASSERT_EQ(sovia_poll(&writable, 1, 10'000), 1);
    }
  }
  EXPECT_EQ(sent, static_cast<ssize_t>(burst.size()));
  EXPECT_FALSE(c.peer_lane().control.broken());
  const std::string got = at_peer(c);
  ASSERT_EQ(got.size(), sizeof(Resume) + burst.size());
  EXPECT_EQ(be64toh(record_in(got).offset), 6u);
  EXPECT_EQ(c.lane_takes(), "small");
  c.peer_sends("answer");
  EXPECT_EQ(all_of(c), "answer");
  EXPECT_FALSE(c.socket().fallback.done) << "the lane was given up";
  c.sends("x");
  EXPECT_EQ(c.lane_takes(), "x");
}

// Its peer takes nothing off the lane meanwhile, so no credit comes.
TEST(Sending, GoesOnThoughNotAllHasArrived) {
  const Routes routes(kRouteAuto);
  Connection c;
  c.sends_on_lane();
  const std::string small = "on its way", burst = much('k', Burst::kLongSend);
  c.sends(small);
  EXPECT_EQ(sovia_send(c.fd(), burst.data(), burst.size(), MSG_DONTWAIT), static_cast<ssize_t>(burst.size()));
  EXPECT_EQ(c.socket().tx.route, TxRoute::kKernel);
  const std::string got = at_peer(c);
  ASSERT_GE(got.size(), sizeof(Resume));
  const std::uint64_t arrived = be64toh(record_in(got).offset);
  EXPECT_EQ(got.substr(sizeof(Resume)), small + burst);
  EXPECT_EQ(c.lane_takes(), small) << "the lane has it too";
  EXPECT_EQ(c.peer_lane().rx.bytes_received() - small.size(), arrived);
}

TEST(Sending, HasTheKernelsRoomWhileItLands) {
  const Routes routes(kRouteAuto);
  Connection c;
  c.sends_on_lane();
  c.sends("on its way");
  {
    const std::scoped_lock both(c.socket().rx.lock, c.socket().tx.lock, c.lane_lock());
    leave_lane(c.socket(), c.fd(), false);
    EXPECT_EQ(c.socket().tx.route, TxRoute::kLanding);
  }
  EXPECT_EQ(at_peer(c), "");
  pollfd room{c.fd(), POLLOUT, 0};
  EXPECT_EQ(sovia_poll(&room, 1, 0), 1);
  EXPECT_EQ(c.socket().tx.route, TxRoute::kLanding) << "asking sends nothing twice";
  c.settle();
  EXPECT_EQ(sovia_poll(&room, 1, 0), 1);
  EXPECT_EQ(c.socket().tx.route, TxRoute::kKernel);
}

// Alone a record would be answered with a reset if the peer was killed.
TEST(Sending, KeepsARecordForTheNextData) {
  const Routes routes(kRouteLane);
  Connection c;
  c.sends_on_lane();
  {
    const std::scoped_lock both(c.socket().rx.lock, c.socket().tx.lock, c.lane_lock());
    leave_lane(c.socket(), c.fd(), false);
  }
  c.settle();
  {
    const std::scoped_lock both(c.socket().rx.lock, c.socket().tx.lock, c.lane_lock());
    EXPECT_TRUE(land(c.socket(), c.fd()));
  }
  EXPECT_NE(falling(c.socket()), 0);
  go_on_falling(c.socket(), c.fd());
  EXPECT_EQ(at_peer(c), "");
  EXPECT_NE(falling(c.socket()), 0);
  std::this_thread::sleep_for(std::chrono::nanoseconds(OwedBytes::kWaitNs));
  go_on_falling(c.socket(), c.fd());
  EXPECT_EQ(at_peer(c).size(), sizeof(Resume));
  EXPECT_EQ(falling(c.socket()), 0);
  c.sends("x");
  EXPECT_EQ(c.lane_takes(), "x");
}

TEST(SendingBroken, SendsAgainBehindARecord) {
  Connection c;
  c.sends_on_lane();  // a byte
  c.sends("abc");
  c.settle();
  c.sends("def");
  c.lane_breaks();
  const std::string got = at_peer(c);
  ASSERT_EQ(got.size(), sizeof(Resume) + 3);
  EXPECT_EQ(be64toh(record_in(got).offset), 4u);
  EXPECT_EQ(got.substr(sizeof(Resume)), "def");
}

TEST(SendingBroken, SendsAllAgainWithoutARecordIfNothingIsKnownToHaveCome) {
  Connection c;
  c.open_lane();
  c.sends("abc");
  c.sends("def");
  c.lane_breaks();
  EXPECT_EQ(at_peer(c), "abcdef");
  c.sends("ghi");
  EXPECT_EQ(at_peer(c), "ghi");
}

TEST(SendingBroken, SendsNothingAgainOfWhatWasOnNoLane) {
  Connection c;
  c.open_lane();
  c.lane_breaks();
  EXPECT_EQ(at_peer(c), "");
  c.sends("abc");
  EXPECT_EQ(at_peer(c), "abc");
}

// ---------------------------------------------------------------------------- in random order

// The peer sends by what carrier it likes, and the program reads. The peer does what a socket does.
class RandomReceiving {
 public:
  explicit RandomReceiving(std::uint64_t seed) : random_(seed) { c_.open_lane(); }

  void run(unsigned steps, unsigned break_at) {
    for (unsigned i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      if (i == break_at) break_lane();
      step();
    }
    if (up_) down();
    by_kernel(next(5));
    read(1u << 20);
    EXPECT_EQ(read_, written_);
    EXPECT_EQ(receive(c_), -EAGAIN);
  }

 private:
  unsigned one_of(unsigned count) { return static_cast<unsigned>(random_() % count); }
  char byte_at(std::uint64_t at) { return static_cast<char>((at * 0x9e3779b97f4a7c15ull) >> 56); }
  std::string next(unsigned bytes) {
    std::string text;
    for (unsigned i = 0; i < bytes; ++i) text += byte_at(written_++);
    return text;
  }
  FakeTransport& transport() { return c_.peer_transport(); }
  Lane& lane() { return c_.peer_lane(); }

  void step() {
    switch (one_of(8)) {
      case 0: case 1:
        if (broken_ || owed_) return;
        if (!up_) up_ = true, stay_ = written_;
        c_.lane_brings_unanswered(next(1 + one_of(300)));
        break;
      case 2: c_.settle(); break;
      case 3: down(); break;
      case 4:
        if (!up_) by_kernel(next(1 + one_of(300)));
        break;
      case 5: is_readable(c_); break;
      default: read(1 + one_of(400)); break;
    }
  }
  void down() {
    if (!up_ || broken_) return;
    EXPECT_TRUE(lane().tx.go_down());
    c_.arrive_unanswered();
    if (one_of(2) != 0) read(1 + one_of(400));
    if (one_of(4) == 0) return break_lane();
    c_.settle();
    EXPECT_EQ(lane().ring.unsent(), 0u);
    owed_ = lane().tx.bytes_delivered();
    up_ = false;
  }
  void by_kernel(const std::string& text) {
    std::string all;
    if (owed_) all = record(*owed_);
    owed_.reset();
    c_.peer_sends(all + text);
  }
  static std::string record(std::uint64_t offset) {
    const std::uint8_t token[kTokenBytes] = {1};
    Resume resume{};
    std::reverse_copy(std::begin(token), std::end(token), resume.token);
    resume.offset = htobe64(offset);
    return {reinterpret_cast<const char*>(&resume), sizeof resume};
  }
  void break_lane() {
    if (std::exchange(broken_, true)) return;
    c_.lane_breaks();
    lane().cut();
    if (!std::exchange(up_, false)) return;
    std::string kept(lane().ring.unsent(), '\0');
    ASSERT_TRUE(lane().ring.copy_unsent(reinterpret_cast<std::byte*>(kept.data())));
    if (lane().tx.has_delivered_first()) owed_ = lane().tx.bytes_delivered();
    EXPECT_EQ(stay_ + lane().tx.bytes_delivered() + kept.size(), written_);
    if (!kept.empty()) by_kernel(kept);
  }
  void read(std::size_t most) {
    std::string text(most, '\0');
    for (ssize_t n; most != 0 && (n = sovia_recv(c_.fd(), text.data(), most, MSG_DONTWAIT)) > 0;) {
      for (ssize_t i = 0; i < n; ++i, ++read_) {
        if (text[static_cast<std::size_t>(i)] == byte_at(read_)) continue;
        ADD_FAILURE() << "wrong byte at " << read_;
        return;
      }
      most -= static_cast<std::size_t>(n);
    }
  }

  std::mt19937_64 random_;
  Connection c_;
  bool up_ = false, broken_ = false;
  std::uint64_t written_ = 0, stay_ = 0, read_ = 0;
  std::optional<std::uint64_t> owed_;
};

// The program sends by what carrier its socket likes, and the peer reads. The peer does what a socket does.
class RandomSending {
 public:
  explicit RandomSending(std::uint64_t seed) : random_(seed) { c_.open_lane(); }

  void run(unsigned steps, unsigned break_at) {
    for (unsigned i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
      if (i == break_at) break_lane();
      step();
    }
    settle();
    send(10);
    for (int i = 0; i < 100 && read_ != written_; ++i) {
      settle();
      const std::uint64_t before = read_;
      read(1u << 20);
      pollfd at{c_.peer(), POLLIN, 0};
      if (read_ == before) ::poll(&at, 1, 100);  // for what the kernel holds back, as it is small
    }
    EXPECT_EQ(read_, written_);
    EXPECT_TRUE(kernel_.empty());
  }
  unsigned downs() const { return downs_; }

 private:
  static constexpr std::uint64_t kLong = Burst::kLongSend;
  unsigned one_of(unsigned count) { return static_cast<unsigned>(random_() % count); }
  static char byte_at(std::uint64_t at) { return static_cast<char>((at * 0x9e3779b97f4a7c15ull) >> 56); }
  Lane& lane() { return c_.peer_lane(); }

  void step() {
    switch (one_of(10)) {
      case 0: case 1: case 2: send(1 + one_of(300)); break;
      case 3:
        if (one_of(4) != 0) return;
        let_land();
        send(kLong + one_of(kLong));
        break;
      case 4: leave(); break;
      case 5: settle(); break;
      case 6:
        c_.near_transport().deliver();
        c_.peer_transport().take_in(lane());
        break;
      case 7:
        c_.peer_sends("a");
        EXPECT_EQ(c_.receive(), "a");
        break;
      default: read(1 + one_of(2000)); break;
    }
  }
  void send(std::uint64_t bytes) {
    if (c_.socket().tx.route == TxRoute::kLanding) let_land();
    std::string text;
    for (std::uint64_t i = 0; i < bytes; ++i) text += byte_at(written_ + i);
    const ssize_t sent = sovia_send(c_.fd(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) written_ += static_cast<std::uint64_t>(sent);
    EXPECT_TRUE(sent >= 0 || errno == EAGAIN);
  }
  void leave() {
    const std::scoped_lock both(c_.socket().rx.lock, c_.socket().tx.lock, c_.lane_lock());
    leave_lane(c_.socket(), c_.fd(), false);
  }
  void settle() {
    if (broken_) return;
    c_.settle();
    {
      const std::scoped_lock guard(c_.lane_lock());
      c_.socket().link.end->lane.tx.flush();  // as the background thread does
    }
    c_.settle();
  }
  // A send would wait until all has arrived, which takes credits.
  void let_land() {
    settle();
    read(1u << 20);
    settle();
  }
  void break_lane() {
    if (std::exchange(broken_, true)) return;
    while (c_.peer_transport().take_in(lane())) continue;
    const int on = 1;  // small bytes need not wait for the peer's answer
    EXPECT_EQ(::setsockopt(c_.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
    c_.lane_breaks();
    lane().cut();
  }

  // ------------------------------------------------------------------ the peer
  void follow() {
    LaneRx& rx = lane().rx;
    for (;;) {
      if (on_lane_) {
        if (!leaves_ && !rx.has_turns() && lane().control.is_cut()) {
          expects_ = rx.bytes_here();
          leaves_ = true;
        }
        if (rx.unread_here() != 0) return;
        if (const auto here = rx.take_down()) {
          expects_ = *here;
          ++downs_;
        } else if (!leaves_) {
          return;
        }
        on_lane_ = leaves_ = false;
        continue;
      }
      const auto first = rx.first();
      if (!first || expects_ || drop_ != 0 || *first > kernel_read_) return;
      EXPECT_EQ(*first, kernel_read_);
      rx.go_up();
      on_lane_ = true;
    }
  }
  void read(std::size_t most) {
    follow();
    if (on_lane_) {
      std::string text(most, '\0');
      const iovec piece{text.data(), most};
      text.resize(lane().rx.read(&piece, 1, 0, false));
      take(text);
      return follow();
    }
    kernel_ += at_peer(c_);
    if (!take_record()) return;
    std::uint64_t limit = std::min<std::uint64_t>(most, kernel_.size());
    while (c_.peer_transport().take_in(lane())) continue;
    if (const auto first = lane().rx.first()) limit = std::min(limit, std::max(*first, kernel_read_) - kernel_read_);
    take(kernel_.substr(0, limit));
    off_kernel(limit);
    follow();
  }
  bool take_record() {
    if (expects_) {
      if (kernel_.empty()) return false;
      const std::string token = std::string(kTokenBytes - 1, '\0') + '\1';
      std::uint64_t offset = 0;
      if (kernel_.compare(0, kTokenBytes, token) == 0) {
        if (kernel_.size() < sizeof(Resume)) return false;
        offset = be64toh(record_in(kernel_).offset);
        off_kernel(sizeof(Resume));
      }
      EXPECT_LE(offset, *expects_);
      drop_ = *expects_ - offset;
      expects_.reset();
    }
    const std::uint64_t here = std::min<std::uint64_t>(drop_, kernel_.size());
    off_kernel(here);
    drop_ -= here;
    return drop_ == 0;
  }
  void off_kernel(std::uint64_t bytes) {
    kernel_.erase(0, bytes);
    kernel_read_ += bytes;
  }
  void take(const std::string& text) {
    for (const char byte : text) {
      if (byte == byte_at(read_++)) continue;
      ADD_FAILURE() << "wrong byte at " << read_ - 1;
      return;
    }
  }

  const Routes routes_{kRouteAuto};
  std::mt19937_64 random_;
  Connection c_;
  bool broken_ = false, on_lane_ = false, leaves_ = false;
  std::uint64_t written_ = 0, read_ = 0, kernel_read_ = 0, drop_ = 0;
  unsigned downs_ = 0;
  std::string kernel_;  // that has come there and is not read
  std::optional<std::uint64_t> expects_;  // a record, behind so many bytes of the lane's
};

TEST(RandomSending, KeepsTheStream) {
  unsigned downs = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    RandomSending sending(seed);
    sending.run(150, ~0u);
    downs += sending.downs();
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  EXPECT_GT(downs, 300u);
}

TEST(RandomSending, KeepsTheStreamOfALaneThatBreaks) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomSending(seed).run(60, static_cast<unsigned>(seed % 60));
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

TEST(RandomReceiving, KeepsTheStream) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    RandomReceiving(seed).run(100, ~0u);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

TEST(RandomReceiving, KeepsTheStreamOfALaneThatBreaks) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    RandomReceiving(seed).run(40, static_cast<unsigned>(seed % 40));
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

}  // namespace
}  // namespace viaduct::sovia::ready
