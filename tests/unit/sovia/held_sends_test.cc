// Small sends of a thread that waits after its sends: they are held until then.
#include "sovia/socket/held_sends.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "sovia/process/counters.h"
#include "sovia/process/libc.h"
#include "sovia/sovia.h"
#include "tests/unit/sovia/laned_connection.h"

namespace viaduct::sovia::ready {
namespace {

std::uint64_t packets() { return counters::value(Counter::kDataSent); }

class HeldSends : public testing::Test {
 protected:
  void SetUp() override {
    libc::prepare();
    connection_.up();
    const int on = 1;
    ASSERT_EQ(sovia_setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
    ASSERT_EQ(sovia_fcntl(fd_, F_SETFL, O_NONBLOCK), 0);
    connection_.settle();
  }
  void TearDown() override { held_sends::t_habit = {}; }

  void send(const std::string& text) const {
    EXPECT_EQ(sovia_send(fd_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  void wait() const {
    pollfd at{fd_, POLLIN, 0};
    sovia_poll(&at, 1, 0);
  }
  // Sends twice and waits until the sends are held; a busy machine may take the processor away in between. False: never.
  bool learn() {
    for (int n = 0; n < 100'000; ++n) {
      const std::uint64_t before = packets();
      send("x");
      if (packets() == before) return true;
      send("y");
      wait();
      connection_.settle();
      connection_.lane_takes();
    }
    return false;
  }

  Connection connection_;
  const int fd_ = connection_.fd();
};

TEST_F(HeldSends, LeaveAtOnceAtFirst) {
  const std::uint64_t before = packets();
  send("head");
  EXPECT_EQ(packets(), before + 1);
  send("body");
  EXPECT_EQ(packets(), before + 2);
}

TEST_F(HeldSends, AreNoneWhereEachWaitHasOneSend) {
  for (int n = 0; n < 200; ++n) {
    const std::uint64_t before = packets();
    send("x");
    ASSERT_EQ(packets(), before + 1) << "held, as " << n << " before";
    wait();
    connection_.settle();
    connection_.lane_takes();
  }
}

TEST_F(HeldSends, AreOnePacketWhenTheThreadWaits) {
  ASSERT_TRUE(learn());
  wait();
  connection_.settle();
  connection_.lane_takes();
  // Where the machine is slow the second send may find that the first has been held for long enough.
  for (int n = 0;; ++n) {
    ASSERT_LT(n, 1000);
    const std::uint64_t before = packets();
    send("head");
    send("body");
    const bool held = packets() == before;
    wait();
    connection_.settle();
    EXPECT_EQ(connection_.lane_takes(), "headbody");
    if (held) {
      EXPECT_EQ(packets(), before + 1);
      return;
    }
  }
}

TEST_F(HeldSends, LeaveWhenAnotherWayOfWaitingIsTaken) {
  const int set = sovia_epoll_create1(0);
  epoll_event event{};
  for (const int way : {0, 1, 2}) {
    ASSERT_TRUE(learn());
    const std::uint64_t before = packets();
    if (way == 0) sovia_epoll_wait(set, &event, 1, 0);
    timeval none{};
    if (way == 1) sovia_select(0, nullptr, nullptr, nullptr, &none);
    if (way == 2) wait();
    EXPECT_EQ(packets(), before + 1) << way;
    wait();
    connection_.settle();
    connection_.lane_takes();
  }
  sovia_close(set);
}

TEST_F(HeldSends, LargeOnesLeaveAtOnceWithWhatIsHeld) {
  ASSERT_TRUE(learn());
  const std::uint64_t before = packets();
  send(std::string(2 * held_sends::kMostBytes, 'y'));
  EXPECT_EQ(packets(), before + 1);
  connection_.settle();
  EXPECT_EQ(connection_.lane_takes().size(), 2 * held_sends::kMostBytes + 1);
}

TEST_F(HeldSends, LeaveBeforeASendOnAnotherConnectionThatIsNotHeld) {
  Connection other;
  ASSERT_TRUE(learn());
  const std::uint64_t before = packets();
  EXPECT_EQ(sovia_send(other.fd(), "x", 1, MSG_DONTWAIT), 1);  // by the kernel
  EXPECT_EQ(packets(), before + 1);
}

TEST_F(HeldSends, LeaveAtOnceOfAThreadThatDoesOtherThings) {
  ASSERT_TRUE(learn());
  for (int n = 0; n < 8; ++n) {
    wait();
    send("x");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  wait();
  connection_.settle();
  const std::uint64_t before = packets();
  send("x");
  EXPECT_EQ(packets(), before + 1);
}

TEST_F(HeldSends, LeaveAtTheEndOfTheConnection) {
  ASSERT_TRUE(learn());
  const std::uint64_t before = packets();
  EXPECT_EQ(sovia_shutdown(fd_, SHUT_WR), 0);
  EXPECT_EQ(packets(), before + 1);
}

TEST_F(HeldSends, OfABlockingSocketLeaveAtOnce) {
  ASSERT_TRUE(learn());
  wait();
  ASSERT_EQ(sovia_fcntl(fd_, F_SETFL, 0), 0);
  const std::uint64_t before = packets();
  send("x");
  EXPECT_EQ(packets(), before + 1);
}

}  // namespace
}  // namespace viaduct::sovia::ready
