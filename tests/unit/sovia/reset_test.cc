// Calls on a connection that was reset as its lane was lost: as on any that was reset.
#include <errno.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>

#include "sovia/lane/packet.h"
#include "sovia/socket/fork_handoff.h"
#include "sovia/socket/inherited_bytes.h"
#include "sovia/socket/table.h"
#include "tests/unit/sovia/connection.h"

namespace viaduct::sovia {
namespace {

class Reset : public test::Connection {
 protected:
  void SetUp() override {
    Connection::SetUp();
    inherit_loss(*table::find(near_), near_);
  }
  // Bytes, or errno below 0.
  long send() const { return result(sovia_send(near_, "x", 1, MSG_NOSIGNAL)); }
  long receive() const {
    char to;
    return result(sovia_recv(near_, &to, 1, 0));
  }

 private:
  static long result(ssize_t bytes) { return bytes < 0 ? -errno : bytes; }
};

TEST_F(Reset, IsToldToWhoSendsFirst) {
  EXPECT_EQ(send(), -ECONNRESET);
  EXPECT_EQ(send(), -EPIPE);
  EXPECT_EQ(receive(), 0);
}

TEST_F(Reset, IsToldToWhoReceivesFirst) {
  EXPECT_EQ(receive(), -ECONNRESET);
  EXPECT_EQ(receive(), 0);
  EXPECT_EQ(send(), -EPIPE);
}

TEST_F(Reset, EndsTheOtherEndToo) {
  char to;
  EXPECT_EQ(sovia_recv(far_, &to, 1, 0), -1);
  EXPECT_EQ(errno, ECONNRESET);
}

class Untold : public testing::Test {
 protected:
  // Over loopback, the far end the kernel's alone.
  void SetUp() override {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    test::Address address = test::listen_on_loopback(listener);
    near_ = sovia_socket(AF_INET, SOCK_STREAM, 0);
    const int room = 20'000;
    ASSERT_EQ(::setsockopt(near_, SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);
    ASSERT_EQ(sovia_connect(near_, address.any(), test::Address::kLength), 0);
    far_ = ::accept(listener, nullptr, nullptr);
    ASSERT_GE(far_, 0);
    ::close(listener);
  }
  void TearDown() override { sovia_close(near_); }
  static bool is_full(int fd) {
    pollfd room{fd, POLLOUT, 0};
    return ::poll(&room, 1, 0) == 0;
  }

  int near_ = -1, far_ = -1;
};

// The kernel tells of a reset once. A send that had sent a part leaves it to a later call, behind what there is to read.
TEST_F(Untold, IsToldAfterASendThatHadSentAPart) {
  const std::string more(4 << 20, 'm');
  std::thread peer([this] {
    EXPECT_EQ(::send(far_, "answer", 6, 0), 6);
    // The near end waits for room: the far end does not read.
    while (!is_full(near_)) std::this_thread::yield();
    ::close(far_);
  });
  const ssize_t sent = sovia_send(near_, more.data(), more.size(), MSG_NOSIGNAL);
  peer.join();
  ASSERT_GT(sent, 0);
  ASSERT_LT(sent, static_cast<ssize_t>(more.size()));
  char to[16];
  EXPECT_EQ(sovia_recv(near_, to, sizeof to, 0), 6);
  EXPECT_EQ(sovia_send(near_, "x", 1, MSG_NOSIGNAL), -1);
  EXPECT_EQ(errno, ECONNRESET);
  EXPECT_EQ(sovia_send(near_, "x", 1, MSG_NOSIGNAL), -1);
  EXPECT_EQ(errno, EPIPE);
}

TEST_F(Untold, IsToldAfterAReceiveThatHadGotAPart) {
  ASSERT_EQ(::send(far_, "answer", 6, 0), 6);
  ASSERT_EQ(sovia_send(near_, "x", 1, MSG_NOSIGNAL), 1);
  pollfd unread{far_, POLLIN, 0};
  ASSERT_EQ(::poll(&unread, 1, 10'000), 1);
  ::close(far_);
  table::find(near_)->demand.put_off();  // calls that wait may be the kernel's alone
  char to[16];
  EXPECT_EQ(sovia_recv(near_, to, sizeof to, MSG_WAITALL), 6);
  EXPECT_EQ(sovia_recv(near_, to, sizeof to, 0), -1);
  EXPECT_EQ(errno, ECONNRESET);
  EXPECT_EQ(sovia_recv(near_, to, sizeof to, 0), 0);
}

// Behind the peer's end the reset is EPIPE, which poll() tells of until a call has.
TEST_F(Untold, IsToldBehindThePeersEnd) {
  const std::string more(4 << 20, 'm');
  ::shutdown(far_, SHUT_WR);
  std::thread peer([this] {
    while (!is_full(near_)) std::this_thread::yield();
    ::close(far_);
  });
  const ssize_t sent = sovia_send(near_, more.data(), more.size(), MSG_NOSIGNAL);
  peer.join();
  ASSERT_GT(sent, 0);
  ASSERT_LT(sent, static_cast<ssize_t>(more.size()));
  char to;
  EXPECT_EQ(sovia_recv(near_, &to, 1, MSG_DONTWAIT), 0);
  pollfd at{near_, POLLOUT, 0};
  EXPECT_EQ(sovia_poll(&at, 1, 0), 1);
  EXPECT_EQ(at.revents & POLLERR, POLLERR);
  EXPECT_EQ(sovia_send(near_, &to, 1, MSG_NOSIGNAL), -1);
  EXPECT_EQ(errno, EPIPE);
  EXPECT_EQ(sovia_poll(&at, 1, 0), 1);
  EXPECT_EQ(at.revents & POLLERR, 0);
}

// A socket whose lane has broken, and whose peer has yet to say so in the kernel's stream.
class Fallen : public test::Connection {
 protected:
  void SetUp() override {
    Connection::SetUp();
    InheritedBytes* const inherited_bytes = make_inherited_bytes(0);
    ASSERT_NE(inherited_bytes, nullptr);
    inherited_bytes->record().expect(kToken, 0, false, false);
    inherit(*table::find(near_), inherited_bytes, Reason::kLost);
  }
  void peer_resumes() const {
    Resume resume{};
    std::reverse_copy(kToken, kToken + kTokenBytes, resume.token);
    ASSERT_EQ(send(far_, &resume, sizeof resume, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof resume));
  }
  static constexpr std::uint8_t kToken[kTokenBytes] = {1, 2, 3, 4, 5, 6, 7};
};

TEST_F(Fallen, ClosesWithoutLossWhateverThePeerSaysAfterwards) {
  const std::string much(100'000, 'm');
  std::size_t sent = 0;
  for (ssize_t n; (n = sovia_send(near_, much.data(), much.size(), MSG_DONTWAIT)) > 0;) {
    sent += static_cast<std::size_t>(n);
  }
  ASSERT_EQ(sovia_close(near_), 0);
  near_ = -1;
  peer_resumes();
  EXPECT_EQ(receive(sent).size(), sent);
  char more;
  EXPECT_EQ(sovia_recv(far_, &more, 1, 0), 0);
}

// The kernel tells of an end then, though the record is yet to come.
TEST_F(Fallen, TakesTheRecordThatComesAfterReadingWasShutDown) {
  ASSERT_EQ(sovia_shutdown(near_, SHUT_RD), 0);
  char to[64];
  EXPECT_EQ(sovia_recv(near_, to, sizeof to, 0), 0);
  pollfd at{near_, POLLIN, 0};
  EXPECT_EQ(sovia_poll(&at, 1, 0), 1);
  EXPECT_EQ(at.revents, POLLIN);
  peer_resumes();
  ASSERT_EQ(send(far_, "more", 4, MSG_NOSIGNAL), 4);
  EXPECT_EQ(sovia_recv(near_, to, sizeof to, 0), 4) << "Linux receives what comes after SHUT_RD";
}

}  // namespace
}  // namespace viaduct::sovia
