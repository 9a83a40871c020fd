// Connections that keep the boundaries of messages, over TCP and over a lane.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "sovia/message/frame.h"
#include "sovia/sovia.h"
#include "tests/unit/sovia/laned_connection.h"
#include "tests/unit/sovia/loopback.h"

namespace viaduct::sovia {
namespace {

// Before the first look at the options.
const int g_rendezvous_is_on = setenv("SOVIA_RENDEZVOUS", "16k", 1);

using test::Address;

constexpr int kOn = 1;

// The result, or errno below 0.
long result(ssize_t bytes) { return bytes < 0 ? -errno : bytes; }

long give(int fd, const std::string& text, int flags = 0) {
  return result(sovia_send(fd, text.data(), text.size(), flags | MSG_NOSIGNAL));
}

std::string take(int fd, std::size_t room = 256, int flags = 0) {
  std::string text(room, '\0');
  const long got = result(sovia_recv(fd, text.data(), room, flags));
  if (got < 0) return "errno " + std::to_string(-got);
  text.resize(std::min(room, static_cast<std::size_t>(got)));
  return text;
}

std::string error(int number) { return "errno " + std::to_string(number); }

bool readable(int fd, int timeout = 0) {
  pollfd one{fd, POLLIN, 0};
  return sovia_poll(&one, 1, timeout) == 1 && (one.revents & POLLIN) != 0;
}

std::string frame(std::uint32_t length, std::uint32_t number, FrameKind kind = FrameKind::kMessage) {
  std::string bytes(kFrameBytes, '\0');
  Frame{kind, length, number}.write(reinterpret_cast<std::byte*>(bytes.data()));
  return bytes;
}

std::string much(std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>((i * 0x9e3779b97f4a7c15ull) >> 56);
  return text;
}

// Two sockets of the library that carry messages, over TCP.
class Messages : public testing::Test {
 protected:
  void SetUp() override {
    const int listener = sovia_socket(AF_INET, SOCK_SEQPACKET, IPPROTO_TCP);
    Address address = test::listen_on_loopback(listener);
    near_ = sovia_socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_EQ(sovia_setsockopt(near_, SOL_SOVIA, SOVIA_MESSAGES, &kOn, sizeof kOn), 0);
    ASSERT_EQ(sovia_connect(near_, address.any(), Address::kLength), 0);
    far_ = sovia_accept(listener, nullptr, nullptr);
    ASSERT_GE(far_, 0);
    sovia_close(listener);
  }
  void TearDown() override {
    if (near_ >= 0) sovia_close(near_);
    if (far_ >= 0) sovia_close(far_);
  }
  int near_ = -1, far_ = -1;
};

TEST_F(Messages, KeepTheirBoundaries) {
  const std::string long_one = much(100'000);
  EXPECT_EQ(give(near_, "a"), 1);
  EXPECT_EQ(give(near_, "bcd"), 3);
  EXPECT_EQ(give(near_, ""), 0);
  EXPECT_EQ(give(near_, long_one), 100'000);
  EXPECT_EQ(sovia_write(near_, "e", 1), 1);
  EXPECT_EQ(take(far_), "a");
  EXPECT_EQ(take(far_), "bcd");
  EXPECT_EQ(take(far_), "");
  EXPECT_EQ(take(far_, 200'000), long_one);
  char byte = 0;
  EXPECT_EQ(sovia_read(far_, &byte, 0), 0);
  EXPECT_EQ(sovia_read(far_, &byte, 1), 1);
  EXPECT_EQ(byte, 'e');
  EXPECT_EQ(take(far_, 10, MSG_DONTWAIT), error(EAGAIN));
  EXPECT_EQ(give(far_, "back"), 4);
  EXPECT_EQ(take(near_), "back");
}

TEST_F(Messages, AreGatheredAndScattered) {
  char one[] = "ab", two[] = "cde";
  const iovec out[] = {{one, 2}, {nullptr, 0}, {two, 3}};
  EXPECT_EQ(sovia_writev(near_, out, 3), 5);
  EXPECT_EQ(sovia_pwritev2(near_, out, 3, -1, 0), 5);
  char into[8] = {};
  iovec in[] = {{into, 3}, {into + 3, 5}};
  EXPECT_EQ(sovia_readv(far_, in, 2), 5);
  EXPECT_STREQ(into, "abcde");
  msghdr message{};
  message.msg_iov = in;
  message.msg_iovlen = 1;
  EXPECT_EQ(sovia_recvmsg(far_, &message, 0), 3);
  EXPECT_EQ(message.msg_flags, MSG_TRUNC);
  std::vector<iovec> pieces(1024, iovec{one, 1});
  EXPECT_EQ(sovia_writev(near_, pieces.data(), 1024), 1024);
  EXPECT_EQ(take(far_, 2000), std::string(1024, 'a'));
}

TEST_F(Messages, AreCutToTheReceiversBuffer) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(give(near_, "12345678"), 8);
  EXPECT_EQ(give(near_, "next"), 4);
  EXPECT_EQ(take(far_, 3), "123");
  char into[3];
  EXPECT_EQ(sovia_recv(far_, into, sizeof into, MSG_TRUNC), 8);
  EXPECT_EQ(take(far_, 0), "");
  EXPECT_EQ(take(far_), "next");
}

TEST_F(Messages, StayWhenTheyArePeekedAt) {
  EXPECT_EQ(give(near_, "12345678"), 8);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(readable(far_, 5000));
    EXPECT_EQ(take(far_, 100, MSG_PEEK), "12345678");
    EXPECT_EQ(take(far_, 2, MSG_PEEK), "12");
  }
  EXPECT_TRUE(readable(far_));
  EXPECT_EQ(take(far_), "12345678");
  EXPECT_FALSE(readable(far_));
  EXPECT_EQ(give(near_, ""), 0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(readable(far_, 5000));
    EXPECT_EQ(take(far_, 100, MSG_PEEK), "");
  }
  EXPECT_EQ(take(far_), "");
  EXPECT_FALSE(readable(far_));
}

TEST_F(Messages, TellTheLengthOfTheNextOne) {
  int bytes = -1;
  EXPECT_EQ(sovia_ioctl(far_, FIONREAD, &bytes), 0);
  EXPECT_EQ(bytes, 0);
  EXPECT_EQ(give(near_, "12345678"), 8);
  EXPECT_TRUE(readable(far_, 5000));
  EXPECT_EQ(sovia_ioctl(far_, FIONREAD, &bytes), 0);
  EXPECT_EQ(bytes, 8);
  EXPECT_EQ(take(far_), "12345678");
}

TEST_F(Messages, EndWithTheConnection) {
  EXPECT_EQ(give(near_, "last"), 4);
  EXPECT_EQ(sovia_shutdown(near_, SHUT_WR), 0);
  EXPECT_EQ(give(near_, "x"), -EPIPE);
  EXPECT_EQ(take(far_), "last");
  EXPECT_EQ(take(far_), "");
  EXPECT_EQ(give(far_, "answer"), 6);
  EXPECT_EQ(take(near_), "answer");
}

TEST_F(Messages, RefuseWhatIsNoMessage) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  EXPECT_EQ(result(sovia_sendmsg(near_, &message, 0)), -EOPNOTSUPP);
  EXPECT_EQ(result(sovia_send(near_, "x", 1, MSG_OOB)), -EOPNOTSUPP);
  EXPECT_EQ(result(sovia_sendfile(near_, 0, nullptr, 1)), -EINVAL);
  EXPECT_EQ(result(sovia_splice(0, nullptr, near_, nullptr, 1, 0)), -EINVAL);
  iovec pieces[] = {{nullptr, 1u << 30}, {nullptr, 1}};
  EXPECT_EQ(result(sovia_writev(near_, pieces, 2)), -EMSGSIZE);
  EXPECT_EQ(give(near_, "good"), 4);
  EXPECT_EQ(take(far_), "good");
}

TEST_F(Messages, AreAskedForBeforeDataHasGone) {
  const int off = 0;
  int value = 0;
  socklen_t length = sizeof value;
  EXPECT_EQ(sovia_getsockopt(far_, SOL_SOVIA, SOVIA_MESSAGES, &value, &length), 0);
  EXPECT_EQ(value, 1);
  EXPECT_EQ(length, sizeof value);
  EXPECT_EQ(result(sovia_getsockopt(far_, SOL_SOVIA, 77, &value, &length)), -ENOPROTOOPT);
  EXPECT_EQ(sovia_setsockopt(near_, SOL_SOVIA, SOVIA_MESSAGES, &off, sizeof off), 0);
  EXPECT_EQ(sovia_setsockopt(near_, SOL_SOVIA, SOVIA_MESSAGES, &kOn, sizeof kOn), 0);
  EXPECT_EQ(result(sovia_setsockopt(near_, SOL_SOVIA, SOVIA_MESSAGES, &off, 1)), -EINVAL);
  EXPECT_EQ(give(near_, "x"), 1);
  EXPECT_EQ(result(sovia_setsockopt(near_, SOL_SOVIA, SOVIA_MESSAGES, &off, sizeof off)), -EISCONN);
  EXPECT_EQ(take(far_), "x");
  EXPECT_EQ(result(sovia_setsockopt(far_, SOL_SOVIA, SOVIA_MESSAGES, &off, sizeof off)), -EISCONN);
}

// Takes messages until the end; each is to be this one.
int count_messages(int fd, const std::string& expected) {
  std::string text(expected.size() + 1, '\0');
  for (int count = 0;; ++count) {
    const ssize_t got = sovia_recv(fd, text.data(), text.size(), 0);
    if (got <= 0) return got == 0 ? count : -errno;
    const std::size_t bytes = static_cast<std::size_t>(got);
    EXPECT_TRUE(bytes == expected.size() && text.compare(0, bytes, expected) == 0);
  }
}

// More than the kernel takes at once: the library has the rest.
TEST_F(Messages, AreTakenAsAWholeByCallsThatDoNotWait) {
  const std::string one = much(3'000'000);
  int sent = 0;
  while (give(near_, one, MSG_DONTWAIT) == 3'000'000) ++sent;
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_GT(sent, 0);
  int got = 0;
  std::thread reader([&] { got = count_messages(far_, one); });
  EXPECT_EQ(give(near_, one), 3'000'000);
  sovia_close(near_);
  near_ = -1;
  reader.join();
  EXPECT_EQ(got, sent + 1);
}

TEST_F(Messages, GoOnAfterTheirSocketIsClosed) {
  const std::string one = much(9'000'000);
  ASSERT_EQ(give(near_, one, MSG_DONTWAIT), 9'000'000);
  sovia_close(near_);
  near_ = -1;
  EXPECT_EQ(count_messages(far_, one), 1);
}

TEST_F(Messages, GoOnAfterAShutdown) {
  const std::string one = much(9'000'000);
  ASSERT_EQ(give(near_, one, MSG_DONTWAIT), 9'000'000);
  EXPECT_EQ(sovia_shutdown(near_, SHUT_WR), 0);
  EXPECT_EQ(give(near_, "x"), -EPIPE);
  EXPECT_EQ(count_messages(far_, one), 1);
}

TEST_F(Messages, OfSeveralThreadsDoNotMix) {
  const std::string one = much(300'000);
  constexpr int kEach = 5;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < kEach; ++k) EXPECT_EQ(give(near_, one), 300'000);
    });
  }
  int got[2];
  for (int& here : got) threads.emplace_back([&, to = &here] { *to = count_messages(far_, one); });
  threads[0].join();
  threads[1].join();
  sovia_shutdown(near_, SHUT_WR);
  threads[2].join();
  threads[3].join();
  EXPECT_EQ(got[0] + got[1], 2 * kEach);
}

// A peer that does as it likes.
class HostilePeer : public Messages {
 protected:
  void SetUp() override {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    Address address = test::listen_on_loopback(listener);
    near_ = sovia_socket(AF_INET, SOCK_SEQPACKET | SOCK_NONBLOCK, IPPROTO_TCP);
    sovia_connect(near_, address.any(), Address::kLength);
    far_ = ::accept(listener, nullptr, nullptr);
    ::close(listener);
  }
  void write(const std::string& bytes) {
    EXPECT_EQ(::send(far_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  // The result of the call when something has come.
  std::string next() {
    EXPECT_TRUE(readable(near_, 5000));
    return take(near_, 100);
  }
};

TEST_F(HostilePeer, BringsAMessageByteByByte) {
  const std::string bytes = frame(5, 0) + "hello";
  for (std::size_t i = 0; i + 1 < bytes.size(); ++i) {
    write(bytes.substr(i, 1));
    EXPECT_EQ(next(), error(EAGAIN));
    EXPECT_FALSE(readable(near_)) << "of what has been taken off the stream";
  }
  write(bytes.substr(bytes.size() - 1));
  EXPECT_EQ(next(), "hello");
}

TEST_F(HostilePeer, SendsNoMessages) {
  write("220 some service ready\r\n");
  EXPECT_EQ(next(), error(EPROTO));
  EXPECT_EQ(take(near_), error(EPROTO));
  EXPECT_EQ(give(near_, "x"), -EPROTO);
  char byte;
  EXPECT_EQ(::recv(far_, &byte, 1, 0), 0) << "the peer is told";
}

TEST_F(HostilePeer, LeavesAMessageOut) {
  write(frame(1, 0) + "a" + frame(1, 2) + "b");
  EXPECT_EQ(next(), "a");
  EXPECT_EQ(next(), error(EPROTO));
}

TEST_F(HostilePeer, LiesAboutTheLength) {
  write(frame(kMostMessage + 1, 0));
  EXPECT_EQ(next(), error(EPROTO));
}

// The memory that a message takes is that of what has come of it.
TEST_F(HostilePeer, PromisesMuch) {
  write(frame(kMostMessage, 0) + "only this");
  EXPECT_EQ(next(), error(EAGAIN));
  ::shutdown(far_, SHUT_WR);
  EXPECT_EQ(next(), error(ECONNRESET));
}

TEST_F(HostilePeer, EndsInsideAFrame) {
  write(frame(1, 0).substr(0, 7));
  ::shutdown(far_, SHUT_WR);
  std::string got = next();
  if (got == error(EAGAIN)) got = next();
  EXPECT_EQ(got, error(ECONNRESET));
}

TEST_F(HostilePeer, OffersAMessageThatHasComeInTheStream) {
  write(frame(1, 0) + "a" + frame(1, 0, FrameKind::kOffer) + frame(1, 1) + "b");
  EXPECT_EQ(next(), "a");
  EXPECT_EQ(next(), error(EPROTO));
}

TEST_F(HostilePeer, SendsFramesOfNoKnownKind) {
  write(frame(1, 0, static_cast<FrameKind>(9)) + "a");
  EXPECT_EQ(next(), error(EPROTO));
}

// ---------------------------------------------------------------------------- over a lane
class LanedMessages : public testing::Test {
 protected:
  void SetUp() override {
    connection_.up();
    connection_.socket().modes.carry_messages();
  }
  ready::Connection connection_;
  const int fd_ = connection_.fd();
};

TEST_F(LanedMessages, ComeFromTheLane) {
  connection_.lane_brings(frame(3, 0) + "abc" + frame(2, 1));
  EXPECT_TRUE(readable(fd_));
  EXPECT_EQ(take(fd_), "abc");
  EXPECT_EQ(take(fd_), error(EAGAIN));
  connection_.lane_brings("de");
  EXPECT_EQ(take(fd_, 10, MSG_PEEK), "de");
  EXPECT_TRUE(readable(fd_));
  EXPECT_EQ(take(fd_), "de");
  EXPECT_FALSE(readable(fd_));
}

TEST_F(LanedMessages, GoToTheLane) {
  EXPECT_EQ(give(fd_, "abc"), 3);
  EXPECT_EQ(connection_.lane_takes(), frame(3, 0) + "abc");
  const std::string one = much(2'000'000);
  EXPECT_EQ(give(fd_, one), 2'000'000);
  EXPECT_EQ(give(fd_, "x"), -EAGAIN);
  std::string got;
  while (got.size() < kFrameBytes + one.size()) got += connection_.lane_takes();
  EXPECT_EQ(got, frame(2'000'000, 1) + one);
}

TEST_F(LanedMessages, BeginOnTheLaneAndEndInTheKernel) {
  connection_.lane_brings(frame(6, 0) + "abc");
  EXPECT_EQ(take(fd_), error(EAGAIN));
  connection_.peer_ends_lane();
  connection_.peer_sends("def");
  EXPECT_TRUE(readable(fd_, 5000));
  EXPECT_EQ(take(fd_), "abcdef");
}

// ---------------------------------------------------------------------------- to the receiver's buffer
// The peer's end of the lane is the test's; calls of the program wait in a thread.
class PlacedMessages : public testing::Test {
 protected:
  static constexpr std::uint32_t kLong = 100'000;
  void SetUp() override {
    connection_.socket().modes.carry_messages();
    connection_.open_lane();
    connection_.receives_on_lane();
    sovia_fcntl(fd_, F_SETFL, 0);
    // The direction goes up with the first message.
    EXPECT_EQ(give(fd_, "u"), 1);
    connection_.settle();
    EXPECT_EQ(connection_.lane_takes(), frame(1, 0) + "u");
  }
  void TearDown() override { sovia_fcntl(fd_, F_SETFL, O_NONBLOCK); }
  template <class Done>
  void until(Done&& done) {
    for (;;) {
      {
        const std::lock_guard guard(connection_.mutex());
        connection_.settle();
        if (done()) return;
      }
      std::this_thread::yield();
    }
  }
  Lane& lane() { return connection_.peer_lane(); }
  // The peer writes a message to the program's buffer.
  void place(const std::string& message) {
    const auto* const data = reinterpret_cast<const std::byte*>(message.data());
    const auto bytes = static_cast<std::uint32_t>(message.size());
    const std::uint32_t all = std::min(bytes, lane().sinks.target_bytes());
    EXPECT_EQ(lane().sinks.write_to_sink(data, 0, bytes, 7), all);
    EXPECT_TRUE(lane().sinks.tell_placed(bytes));
    connection_.settle();
  }

  ready::Connection connection_;
  const int fd_ = connection_.fd();
  const std::string long_ = much(kLong);
};

TEST_F(PlacedMessages, GoToTheBufferOfACallThatWaits) {
  connection_.lane_brings(frame(kLong, 0, FrameKind::kOffer));
  std::string got;
  std::thread reader([&] { got = take(fd_, kLong + 10); });
  until([&] { return lane().sinks.target(0) == LaneSinks::Target::kSink; });
  EXPECT_EQ(lane().sinks.target_bytes(), kLong + 10);
  place(long_);
  reader.join();
  EXPECT_TRUE(got == long_);
  // The next one need not be offered.
  std::thread next([&] { got = take(fd_, 50'000); });
  until([&] { return lane().sinks.target(1) == LaneSinks::Target::kSink; });
  place(long_);
  next.join();
  EXPECT_TRUE(got == long_.substr(0, 50'000));
  connection_.lane_brings(frame(1, 2) + "s");
  EXPECT_EQ(take(fd_), "s");
}

TEST_F(PlacedMessages, ComeInTheStreamToACallThatDoesNotWait) {
  connection_.lane_brings(frame(kLong, 0, FrameKind::kOffer));
  EXPECT_EQ(take(fd_, kLong, MSG_DONTWAIT), error(EAGAIN));
  connection_.settle();
  EXPECT_EQ(lane().sinks.target(0), LaneSinks::Target::kStream);
  connection_.lane_brings(frame(3, 0) + "abc");
  EXPECT_EQ(take(fd_, kLong, MSG_DONTWAIT), "abc");
}

// The peer changes its mind, and sends something short where its receiver has a sink open.
TEST_F(PlacedMessages, MayComeInTheStreamAllTheSame) {
  connection_.lane_brings(frame(kLong, 0, FrameKind::kOffer));
  std::string got;
  std::thread reader([&] { got = take(fd_, kLong); });
  until([&] { return lane().sinks.target(0) == LaneSinks::Target::kSink; });
  connection_.lane_brings(frame(3, 0) + "abc");
  reader.join();
  EXPECT_EQ(got, "abc");
}

TEST_F(PlacedMessages, WaitForACallAfterOneThatEndedBefore) {
  const timeval limit{0, 1000};
  sovia_setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  connection_.lane_brings(frame(kLong, 0, FrameKind::kOffer));
  std::string got;
  {
    const ready::Answering answering(connection_);
    got = take(fd_, kLong);
  }
  EXPECT_EQ(got, error(EAGAIN));
  EXPECT_EQ(lane().sinks.target(0), LaneSinks::Target::kStream);
  connection_.lane_brings(frame(3, 0) + "abc");
  EXPECT_EQ(take(fd_, kLong), "abc");
}

TEST_F(PlacedMessages, OfABrokenLaneComeThroughTheKernelOnce) {
  connection_.lane_brings(frame(kLong, 0, FrameKind::kOffer));
  std::string got;
  std::thread reader([&] { got = take(fd_, kLong); });
  until([&] { return lane().sinks.target(0) == LaneSinks::Target::kSink; });
  place(long_);
  reader.join();
  EXPECT_TRUE(got == long_);
  // Its sender does not know that it has come.
  connection_.lane_brings(frame(kLong, 0, FrameKind::kOffer) + frame(3, 0) + "abc" + frame(4, 1) + "next");
  EXPECT_EQ(take(fd_), "next");
}

// Their offers waited for credits meanwhile.
TEST_F(PlacedMessages, AreTakenOnceIfTheirOffersComeLate) {
  std::string got;
  for (std::uint32_t number = 0; number < 3; ++number) {
    if (number == 0) connection_.lane_brings(frame(kLong, 0, FrameKind::kOffer));
    std::thread reader([&] { got = take(fd_, kLong); });
    until([&] { return lane().sinks.target(number) == LaneSinks::Target::kSink; });
    place(long_);
    reader.join();
    EXPECT_TRUE(got == long_);
  }
  connection_.lane_brings(frame(kLong, 1, FrameKind::kOffer) + frame(kLong, 2, FrameKind::kOffer) + frame(1, 3) + "s");
  EXPECT_EQ(take(fd_), "s");
}

TEST_F(PlacedMessages, AreWrittenToThePeersBuffer) {
  std::vector<std::byte> buffer(kLong);
  const std::uint32_t memory = connection_.peer_transport().open_memory(buffer.data(), kLong);
  EXPECT_TRUE(lane().sinks.open_sink(1, buffer.data(), kLong, memory));
  connection_.settle();
  std::thread writer([&] { EXPECT_EQ(give(fd_, long_), kLong); });
  until([&] { return lane().sinks.sink() == LaneSinks::SinkState::kPlaced; });
  {
    const ready::Answering answering(connection_);
    writer.join();
  }
  EXPECT_EQ(lane().sinks.placed_length(), kLong);
  EXPECT_EQ(std::memcmp(buffer.data(), long_.data(), kLong), 0);
  EXPECT_EQ(connection_.lane_takes(), "") << "nothing of it in the stream";
  EXPECT_EQ(give(fd_, "next"), 4);
  EXPECT_EQ(connection_.lane_takes(), frame(4, 2) + "next");
}

TEST_F(PlacedMessages, GoInTheStreamToAPeerThatDoesNotAnswer) {
  std::thread writer([&] { EXPECT_EQ(give(fd_, long_), kLong); });
  std::string got;
  const std::string all = frame(kLong, 1, FrameKind::kOffer) + frame(kLong, 1) + long_;
  until([&] { return (got += connection_.lane_takes()).size() >= all.size(); });
  writer.join();
  EXPECT_TRUE(got == all);
}

}  // namespace
}  // namespace viaduct::sovia
