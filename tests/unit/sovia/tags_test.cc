// Tagged buffers: puts to those of the peer, and gets from them, over TCP and over a lane.
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "sovia/message/frame.h"
#include "sovia/message/tag_frames.h"
#include "sovia/message/tag_table.h"
#include "sovia/socket/lane_life.h"
#include "sovia/socket/table.h"
#include "sovia/sovia.h"
#include "tests/unit/sovia/laned_connection.h"
#include "tests/unit/sovia/loopback.h"

namespace viaduct::sovia {
namespace {

using test::Address;
using Tag = struct sovia_tag;

constexpr int kOn = 1;
constexpr int kBoth = SOVIA_TAG_PUT | SOVIA_TAG_GET;

// The result, or errno below 0.
long result(ssize_t value) { return value < 0 ? -errno : value; }

std::string much(std::size_t bytes, std::size_t seed = 0) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(((i + seed) * 0x9e3779b97f4a7c15ull) >> 56);
  return text;
}

std::string take(int fd, int flags = 0) {
  std::string text(1000, '\0');
  const long got = result(sovia_recv(fd, text.data(), text.size(), flags));
  if (got < 0) return "errno " + std::to_string(-got);
  text.resize(static_cast<std::size_t>(got));
  return text;
}

void give(int fd, const std::string& text) {
  EXPECT_EQ(result(sovia_send(fd, text.data(), text.size(), MSG_NOSIGNAL)), static_cast<long>(text.size()));
}

bool readable(int fd, int timeout = 0) {
  pollfd one{fd, POLLIN, 0};
  return sovia_poll(&one, 1, timeout) == 1 && (one.revents & POLLIN) != 0;
}

// ---------------------------------------------------------------------------- the table
TEST(TagTable, AllowsWhatIsInside) {
  TagTable table;
  std::byte there[100];
  const std::uint64_t key = table.add({there, 100, SOVIA_TAG_PUT});
  EXPECT_NE(key, 0u);
  EXPECT_EQ(table.check(key, SOVIA_TAG_PUT, {0, 100}, {0, 100}), 0);
  EXPECT_EQ(table.check(key, SOVIA_TAG_PUT, {99, 1}, {90, 10}), 0);
  EXPECT_EQ(table.check(key, SOVIA_TAG_PUT, {0, 0}, {100, 0}), ERANGE) << "not a piece of the whole";
  EXPECT_EQ(table.check(key, SOVIA_TAG_PUT, {0, 1}, {0, 101}), ERANGE) << "a good piece of a bad whole";
  EXPECT_EQ(table.check(key, SOVIA_TAG_PUT, {50, 10}, {0, 50}), ERANGE) << "behind the whole";
  EXPECT_EQ(table.check(key, SOVIA_TAG_PUT, {~0ull, 2}, {~0ull, 2}), ERANGE) << "around the end";
  EXPECT_EQ(table.check(key, SOVIA_TAG_PUT, {1, ~0ull}, {1, ~0ull}), ERANGE);
  EXPECT_EQ(table.check(key, SOVIA_TAG_GET, {0, 1}, {0, 1}), EACCES);
  EXPECT_EQ(table.check(key + 1, SOVIA_TAG_PUT, {0, 1}, {0, 1}), EACCES);
  table.remove(key);
  EXPECT_EQ(table.check(key, SOVIA_TAG_PUT, {0, 1}, {0, 1}), EACCES);
}

// ---------------------------------------------------------------------------- over TCP
// Two sockets of the library's; the far one serves while a thread is in a receive.
class Tags : public testing::Test {
 protected:
  void SetUp() override { connect(near_, far_); }
  void TearDown() override {
    for (const int fd : {near_, far_}) {
      if (fd >= 0) sovia_close(fd);
    }
  }
  static void connect(int& near, int& far) {
    const int listener = sovia_socket(AF_INET, SOCK_SEQPACKET, IPPROTO_TCP);
    Address address = test::listen_on_loopback(listener);
    near = sovia_socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_EQ(sovia_setsockopt(near, SOL_SOVIA, SOVIA_MESSAGES, &kOn, sizeof kOn), 0);
    ASSERT_EQ(sovia_connect(near, address.any(), Address::kLength), 0);
    far = sovia_accept(listener, nullptr, nullptr);
    ASSERT_GE(far, 0);
    sovia_close(listener);
  }
  Tag tag(std::string& buffer, int access = kBoth) {
    Tag made;
    EXPECT_EQ(result(sovia_tag(far_, buffer.data(), buffer.size(), access, &made)), 0);
    return made;
  }
  // Runs `calls` at the near end while the far one waits for a message.
  template <class Calls>
  void while_far_receives(Calls&& calls) {
    std::thread receiver([this] { EXPECT_EQ(take(far_), "end"); });
    calls();
    give(near_, "end");
    receiver.join();
  }
  int near_ = -1, far_ = -1;
};

TEST_F(Tags, TakeWhatIsPut) {
  std::string buffer(300'000, 'x');
  const std::string data = much(200'000);
  const Tag there = tag(buffer, SOVIA_TAG_PUT);
  while_far_receives([&] {
    EXPECT_EQ(result(sovia_put(near_, &there, 1000, data.data(), data.size())), 0);
    EXPECT_EQ(result(sovia_done(near_, -1)), 0);
    EXPECT_TRUE(buffer == std::string(1000, 'x') + data + std::string(99'000, 'x'));
  });
}

TEST_F(Tags, GiveWhatIsGot) {
  std::string buffer = much(3'000'000), got(2'000'000, 'x');
  const Tag there = tag(buffer, SOVIA_TAG_GET);
  while_far_receives([&] {
    EXPECT_EQ(result(sovia_get(near_, &there, 5, got.data(), got.size())), 0);
    EXPECT_EQ(result(sovia_done(near_, -1)), 0);
  });
  EXPECT_TRUE(buffer.substr(5, got.size()) == got);
}

TEST_F(Tags, RefuseAtTheCaller) {
  std::string buffer(100, 'x'), data(200, 'y');
  const Tag puts = tag(buffer, SOVIA_TAG_PUT), gets = tag(buffer, SOVIA_TAG_GET);
  EXPECT_EQ(result(sovia_put(near_, &gets, 0, data.data(), 1)), -EACCES);
  EXPECT_EQ(result(sovia_get(near_, &puts, 0, data.data(), 1)), -EACCES);
  EXPECT_EQ(result(sovia_put(near_, &puts, 0, data.data(), 101)), -ERANGE);
  EXPECT_EQ(result(sovia_put(near_, &puts, 100, data.data(), 1)), -ERANGE);
  EXPECT_EQ(result(sovia_put(near_, &puts, ~std::size_t{0}, data.data(), 2)), -ERANGE);
  EXPECT_EQ(result(sovia_get(near_, &gets, 1, data.data(), 100)), -ERANGE);
  EXPECT_EQ(result(sovia_put(near_, &puts, 100, data.data(), 0)), 0);
  const Tag none{};
  EXPECT_EQ(result(sovia_put(near_, &none, 0, data.data(), 1)), -EINVAL);
  EXPECT_EQ(result(sovia_done(near_, -1)), 0) << "nothing has been begun";
  EXPECT_FALSE(readable(far_));
  EXPECT_EQ(buffer, std::string(100, 'x'));
}

TEST_F(Tags, AreOfSocketsWithMessages) {
  std::string buffer(100, 'x');
  Tag made;
  EXPECT_EQ(result(sovia_tag(far_, buffer.data(), 0, kBoth, &made)), -EINVAL);
  EXPECT_EQ(result(sovia_tag(far_, buffer.data(), 1, 4, &made)), -EINVAL);
  EXPECT_EQ(result(sovia_tag(far_, buffer.data(), 1, 0, &made)), -EINVAL);
  EXPECT_EQ(result(sovia_tag(far_, buffer.data(), 1, kBoth, nullptr)), -EFAULT);
  EXPECT_EQ(result(sovia_tag(-1, buffer.data(), 1, kBoth, &made)), -EBADF);
  const int plain = sovia_socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(result(sovia_tag(plain, buffer.data(), 1, kBoth, &made)), -EOPNOTSUPP);
  EXPECT_EQ(result(sovia_done(plain, 0)), -EOPNOTSUPP);
  sovia_close(plain);
  const int file = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  EXPECT_EQ(result(sovia_tag(file, buffer.data(), 1, kBoth, &made)), -ENOTSOCK);
  ::close(file);
}

TEST_F(Tags, RefuseWhenTheyAreWithdrawn) {
  std::string buffer(100, 'x');
  const Tag there = tag(buffer);
  EXPECT_EQ(result(sovia_untag(near_, &there)), -EINVAL) << "it is the other end's";
  EXPECT_EQ(result(sovia_untag(far_, &there)), 0);
  EXPECT_EQ(result(sovia_untag(far_, &there)), -EINVAL);
  while_far_receives([&] {
    EXPECT_EQ(result(sovia_put(near_, &there, 0, "new", 3)), 0);
    EXPECT_EQ(result(sovia_done(near_, -1)), -EACCES);
    EXPECT_EQ(result(sovia_done(near_, -1)), 0) << "it is told once";
  });
  EXPECT_EQ(buffer, std::string(100, 'x'));
}

TEST_F(Tags, AreOfOneConnection) {
  int other_near, other_far;
  connect(other_near, other_far);
  std::string buffer(100, 'x');
  Tag others;
  EXPECT_EQ(sovia_tag(other_far, buffer.data(), buffer.size(), kBoth, &others), 0);
  while_far_receives([&] {
    EXPECT_EQ(result(sovia_put(near_, &others, 0, "new", 3)), 0);
    EXPECT_EQ(result(sovia_done(near_, -1)), -EACCES);
  });
  EXPECT_EQ(buffer, std::string(100, 'x'));
  sovia_close(other_near);
  sovia_close(other_far);
}

TEST_F(Tags, KeepMessagesThatComeBeforeTheAnswer) {
  std::string buffer(100, 'x');
  const std::string text = much(150'000);
  const Tag there = tag(buffer);
  std::thread far([&] {
    give(far_, "first");
    give(far_, text);
    EXPECT_EQ(take(far_), "end");
    give(far_, "last");
  });
  EXPECT_EQ(result(sovia_put(near_, &there, 0, "new", 3)), 0);
  EXPECT_EQ(result(sovia_done(near_, -1)), 0);
  EXPECT_EQ(buffer.substr(0, 4), "newx");
  EXPECT_TRUE(readable(near_));
  EXPECT_EQ(take(near_, MSG_DONTWAIT), "first");
  std::string got(text.size(), '\0');
  EXPECT_TRUE(readable(near_));
  EXPECT_EQ(result(sovia_recv(near_, got.data(), got.size(), 0)), static_cast<long>(text.size()));
  EXPECT_TRUE(got == text);
  EXPECT_FALSE(readable(near_));
  give(near_, "end");
  EXPECT_EQ(take(near_), "last");
  far.join();
}

// A socket that will have no lane, in an epoll set: messages that were read ahead are nothing that the kernel knows.
class TagsInASet : public Tags, public testing::WithParamInterface<bool> {
 protected:
  int wait() const {
    epoll_event event{};
    return sovia_epoll_wait(set_, &event, 1, 0);
  }
  void enter() const {
    epoll_event event{};
    event.events = EPOLLIN;
    // The second time all that can be known of the socket is.
    ASSERT_EQ(sovia_epoll_ctl(set_, EPOLL_CTL_ADD, near_, &event), 0);
    ASSERT_EQ(sovia_epoll_ctl(set_, EPOLL_CTL_MOD, near_, &event), 0);
  }
  const int set_ = sovia_epoll_create1(EPOLL_CLOEXEC);
};

TEST_P(TagsInASet, KeepMessagesOfWhichTheSetTells) {
  const bool messages_first = GetParam();
  if (!messages_first) {
    constexpr int kOff = 0;
    ASSERT_EQ(sovia_setsockopt(near_, SOL_SOVIA, SOVIA_MESSAGES, &kOff, sizeof kOff), 0);
  }
  forbid(*table::find(near_), Reason::kOption);
  ASSERT_TRUE(table::find(near_)->kernel_alone());
  enter();
  if (!messages_first) {
    ASSERT_EQ(sovia_setsockopt(near_, SOL_SOVIA, SOVIA_MESSAGES, &kOn, sizeof kOn), 0);
  }
  std::string buffer(100, 'x');
  const Tag there = tag(buffer);
  std::thread far([&] {
    give(far_, "first");
    EXPECT_EQ(take(far_), "end");
  });
  EXPECT_EQ(result(sovia_put(near_, &there, 0, "new", 3)), 0);
  EXPECT_EQ(result(sovia_done(near_, -1)), 0);
  EXPECT_EQ(wait(), 1);
  EXPECT_EQ(take(near_, MSG_DONTWAIT), "first");
  EXPECT_EQ(wait(), 0);
  give(near_, "end");
  far.join();
  sovia_close(set_);
}

INSTANTIATE_TEST_SUITE_P(Messages, TagsInASet, testing::Bool(),
                         [](const auto& info) { return info.param ? "AskedForBefore" : "AskedForLater"; });

TEST_F(Tags, AreServedByCallsThatDoNotWait) {
  std::string buffer(100, 'x');
  const Tag there = tag(buffer);
  EXPECT_EQ(result(sovia_put(near_, &there, 0, "new", 3)), 0);
  EXPECT_EQ(result(sovia_done(near_, 10)), -ETIMEDOUT);
  EXPECT_EQ(buffer[0], 'x');
  EXPECT_TRUE(readable(far_, 5000));
  EXPECT_EQ(take(far_, MSG_DONTWAIT), "errno " + std::to_string(EAGAIN));
  EXPECT_EQ(buffer[0], 'n');
  EXPECT_EQ(result(sovia_done(near_, -1)), 0);
}

TEST_F(Tags, OfBothEndsAreUsedAtOnce) {
  constexpr std::size_t kBytes = 8'000'000;
  std::string near_buffer(kBytes, 'x'), far_buffer(kBytes, 'x');
  const std::string to_near = much(kBytes, 1), to_far = much(kBytes, 2);
  Tag of_near;
  const Tag of_far = tag(far_buffer);
  EXPECT_EQ(sovia_tag(near_, near_buffer.data(), kBytes, kBoth, &of_near), 0);
  const auto end = [&](int fd, const Tag& there, const std::string& data) {
    EXPECT_EQ(result(sovia_put(fd, &there, 0, data.data(), data.size())), 0);
    EXPECT_EQ(result(sovia_done(fd, -1)), 0);
    give(fd, "done");
    EXPECT_EQ(take(fd), "done");
  };
  std::thread far([&] { end(far_, of_near, to_near); });
  end(near_, of_far, to_far);
  far.join();
  EXPECT_TRUE(near_buffer == to_near);
  EXPECT_TRUE(far_buffer == to_far);
}

// One thread receives all that comes, while others put and get.
TEST_F(Tags, AreUsedBesideAReader) {
  constexpr int kMessages = 300;
  std::string buffer = much(200'000);
  const Tag there = tag(buffer);
  std::thread far([&] {
    for (int i = 0; i < kMessages; ++i) give(far_, std::to_string(i));
    EXPECT_EQ(take(far_), "end");
  });
  std::thread reader([&] {
    for (int i = 0; i < kMessages; ++i) ASSERT_EQ(take(near_), std::to_string(i));
  });
  const std::string before = buffer;
  for (int i = 0; i < 20; ++i) {
    std::string got(buffer.size(), '\0');
    EXPECT_EQ(result(sovia_get(near_, &there, 0, got.data(), got.size())), 0);
    EXPECT_EQ(result(sovia_done(near_, -1)), 0);
    EXPECT_TRUE(got == before);
    EXPECT_EQ(result(sovia_put(near_, &there, 0, got.data(), got.size())), 0);
    EXPECT_EQ(result(sovia_done(near_, -1)), 0);
  }
  reader.join();
  give(near_, "end");
  far.join();
}

TEST_F(Tags, OutliveMemoryThatIsNotThere) {
  std::string buffer(200'000, 'x');
  const Tag there = tag(buffer);
  void* const hole = ::mmap(nullptr, 200'000, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  while_far_receives([&] {
    EXPECT_EQ(result(sovia_put(near_, &there, 0, hole, 200'000)), -EFAULT);
    EXPECT_EQ(result(sovia_get(near_, &there, 0, hole, 200'000)), 0);
    EXPECT_EQ(result(sovia_done(near_, -1)), -EFAULT);
    EXPECT_EQ(result(sovia_put(near_, &there, 0, "new", 3)), 0);
    EXPECT_EQ(result(sovia_done(near_, -1)), 0);
  });
  EXPECT_EQ(buffer.substr(0, 4), "newx");
  Tag bad;
  EXPECT_EQ(sovia_tag(far_, hole, 200'000, kBoth, &bad), 0);
  while_far_receives([&] {
    EXPECT_EQ(result(sovia_put(near_, &bad, 0, "new", 3)), 0);
    EXPECT_EQ(result(sovia_done(near_, -1)), -EFAULT);
  });
  ::munmap(hole, 200'000);
}

TEST_F(Tags, EndWithTheConnection) {
  std::string buffer(100, 'x');
  const Tag there = tag(buffer);
  EXPECT_EQ(result(sovia_put(near_, &there, 0, "new", 3)), 0);
  sovia_close(far_);
  far_ = -1;
  EXPECT_EQ(result(sovia_done(near_, -1)), -ECONNRESET);
  EXPECT_EQ(buffer[0], 'x');
}

// ---------------------------------------------------------------------------- a peer that does as it likes
std::string bytes_of(const void* from, std::size_t bytes) { return {static_cast<const char*>(from), bytes}; }

std::string frame(FrameKind kind, std::uint32_t number, const std::string& body) {
  std::string bytes(kFrameBytes, '\0');
  Frame{kind, static_cast<std::uint32_t>(body.size()), number}.write(reinterpret_cast<std::byte*>(bytes.data()));
  return bytes + body;
}

std::uint64_t key_of(const Tag& tag) {
  TagBytes bytes;
  std::memcpy(&bytes, &tag, sizeof bytes);
  return bytes.key;
}

std::string range(std::uint64_t key, std::uint64_t at, std::uint64_t first, std::uint64_t bytes) {
  const Range range{key, htobe64(at), htobe64(first), htobe64(bytes)};
  return bytes_of(&range, sizeof range);
}

std::string get_range(std::uint64_t key, std::uint64_t at, std::uint64_t first, std::uint64_t all, std::uint32_t bytes) {
  const std::uint32_t rest[2] = {htobe32(bytes), 0};
  return range(key, at, first, all) + bytes_of(rest, sizeof rest);
}

class HostileTags : public Tags {
 protected:
  void SetUp() override {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    Address address = test::listen_on_loopback(listener);
    far_ = sovia_socket(AF_INET, SOCK_SEQPACKET | SOCK_NONBLOCK, IPPROTO_TCP);
    sovia_connect(far_, address.any(), Address::kLength);
    peer_ = ::accept(listener, nullptr, nullptr);
    ::close(listener);
  }
  void TearDown() override {
    ::close(peer_);
    Tags::TearDown();
  }
  void write(const std::string& bytes) {
    EXPECT_EQ(::send(peer_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  std::string next() {
    EXPECT_TRUE(readable(far_, 5000));
    return take(far_);
  }
  // The status of the answer to this.
  int status(const std::string& request) {
    write(request);
    next();
    char answer[kFrameBytes + sizeof(Answer)] = {};
    if (::recv(peer_, answer, sizeof answer, MSG_WAITALL) != sizeof answer) return -1;
    Frame head;
    EXPECT_TRUE(head.read(reinterpret_cast<std::byte*>(answer)) && head.kind == FrameKind::kAnswer);
    Answer body;
    std::memcpy(&body, answer + kFrameBytes, sizeof body);
    return static_cast<int>(be32toh(body.status));
  }
  int peer_ = -1;
};

TEST_F(HostileTags, RefuseWhatIsOutside) {
  std::string buffer(100, 'x');
  const std::uint64_t puts = key_of(tag(buffer, SOVIA_TAG_PUT)), gets = key_of(tag(buffer, SOVIA_TAG_GET));
  EXPECT_EQ(status(frame(FrameKind::kPut, 1, range(puts, 99, 99, 2) + "no")), ERANGE);
  EXPECT_EQ(status(frame(FrameKind::kPut, 2, range(puts, 0, 0, 101) + "no")), ERANGE);
  EXPECT_EQ(status(frame(FrameKind::kPut, 3, range(puts, 0, 50, 2) + "no")), ERANGE);
  EXPECT_EQ(status(frame(FrameKind::kPut, 4, range(gets, 0, 0, 2) + "no")), EACCES);
  EXPECT_EQ(status(frame(FrameKind::kPut, 5, range(puts + 1, 0, 0, 2) + "no")), EACCES);
  EXPECT_EQ(status(frame(FrameKind::kGet, 6, get_range(puts, 0, 0, 2, 2))), EACCES);
  EXPECT_EQ(status(frame(FrameKind::kGet, 7, get_range(gets, 100, 100, 2, 2))), ERANGE);
  EXPECT_EQ(status(frame(FrameKind::kGet, 8, get_range(gets, 0, 0, ~0u, ~0u))), EINVAL);
  EXPECT_EQ(buffer, std::string(100, 'x'));
  EXPECT_EQ(status(frame(FrameKind::kPut, 9, range(puts, 98, 98, 2) + "ok")), 0);
  EXPECT_EQ(buffer, std::string(98, 'x') + "ok");
}

TEST_F(HostileTags, ComeByteByByteBetweenMessages) {
  std::string buffer(4, 'x');
  const std::string put = frame(FrameKind::kPut, 9, range(key_of(tag(buffer)), 0, 0, 4) + "abcd");
  write(frame(FrameKind::kMessage, 0, "first"));
  EXPECT_EQ(next(), "first");
  for (const char byte : put) {
    EXPECT_EQ(buffer, "xxxx");
    write({byte});
    EXPECT_EQ(next(), "errno " + std::to_string(EAGAIN));
  }
  EXPECT_EQ(buffer, "abcd");
  write(frame(FrameKind::kMessage, 1, "second"));
  EXPECT_EQ(next(), "second");
}

// A part of a message has come to a reader when the call begins.
TEST_F(HostileTags, KeepAMessageOfWhichAPartHasCome) {
  const TagBytes bytes{{'S', 'V', 'T', 1}, htobe32(SOVIA_TAG_PUT), 5, htobe64(100), 0};
  Tag there;
  std::memcpy(&there, &bytes, sizeof there);
  const std::string message = frame(FrameKind::kMessage, 0, "a whole message");
  write(message.substr(0, 15));
  EXPECT_EQ(next(), "errno " + std::to_string(EAGAIN));
  EXPECT_EQ(result(sovia_put(far_, &there, 0, "new", 3)), 0);
  EXPECT_EQ(result(sovia_done(far_, 10)), -ETIMEDOUT);
  EXPECT_TRUE(readable(far_, 5000)) << "it is in front of the stream again";
  EXPECT_EQ(next(), "errno " + std::to_string(EAGAIN));
  write(message.substr(15));
  const Answer good{};
  const std::string answer = frame(FrameKind::kAnswer, 1, bytes_of(&good, sizeof good));
  write(answer.substr(0, 20));
  EXPECT_EQ(result(sovia_done(far_, 10)), -ETIMEDOUT);
  EXPECT_TRUE(readable(far_));
  write(answer.substr(20) + frame(FrameKind::kMessage, 1, "b"));
  EXPECT_EQ(result(sovia_done(far_, -1)), 0);
  EXPECT_EQ(next(), "a whole message");
  EXPECT_EQ(next(), "b");
  EXPECT_FALSE(readable(far_));
}

TEST_F(HostileTags, EndTheConnectionOfWhoMakesNoSense) {
  write(frame(FrameKind::kAnswer, 77, std::string(sizeof(Answer), '\0')));
  EXPECT_EQ(next(), "errno " + std::to_string(EPROTO));
}

TEST_F(HostileTags, EndTheConnectionOfWhoSendsHalfARange) {
  write(frame(FrameKind::kPut, 1, "half"));
  EXPECT_EQ(next(), "errno " + std::to_string(EPROTO));
}

// ---------------------------------------------------------------------------- over a lane
// The peer's end of the lane is the test's.
class LanedTags : public testing::Test {
 protected:
  static constexpr std::size_t kBytes = 1'000'000;
  void SetUp() override {
    connection_.socket().modes.carry_messages();
    connection_.up();
    sovia_fcntl(fd_, F_SETFL, 0);
  }
  void TearDown() override { sovia_fcntl(fd_, F_SETFL, O_NONBLOCK); }
  Lane& lane() { return connection_.peer_lane(); }
  // The tag that the peer's program has handed over.
  static Tag peers(std::uint32_t access) {
    const TagBytes bytes{{'S', 'V', 'T', 1}, htobe32(access), kKey, htobe64(kBytes), 0};
    Tag tag;
    std::memcpy(&tag, &bytes, sizeof tag);
    return tag;
  }
  static std::string answer(std::uint32_t status, const void* address, std::uint32_t memory) {
    const Answer answer{htobe32(status), htobe32(1), htobe64(reinterpret_cast<std::uint64_t>(address)), htobe32(memory),
                        htobe32(kBoth)};
    return bytes_of(&answer, sizeof answer);
  }
  // Waits for so many bytes in the stream, and reads them.
  std::string next(std::size_t bytes) {
    std::string got;
    while (got.size() < bytes) got += connection_.lane_takes();
    return got;
  }
  static constexpr std::uint64_t kKey = 0x1234;
  ready::Connection connection_;
  const int fd_ = connection_.fd();
};

TEST_F(LanedTags, TakeAndGiveByRdma) {
  std::string buffer(kBytes, 'x'), got(kBytes, '\0');
  const std::string data = much(kBytes - 10);
  const std::uint32_t memory = connection_.peer_transport().open_memory(reinterpret_cast<std::byte*>(buffer.data()),
                                                                        kBytes, RemoteMemory::Access::kBoth);
  const Tag there = peers(kBoth);
  std::thread program([&] {
    EXPECT_EQ(result(sovia_put(fd_, &there, 10, data.data(), data.size())), 0);
    EXPECT_EQ(result(sovia_done(fd_, -1)), 0);
    EXPECT_EQ(result(sovia_get(fd_, &there, 0, got.data(), got.size())), 0);
    EXPECT_EQ(result(sovia_done(fd_, -1)), 0);
  });
  // It asks once where the buffer is.
  EXPECT_EQ(next(kFrameBytes + sizeof(GetRange)), frame(FrameKind::kGet, 1, get_range(kKey, 10, 10, kBytes - 10, 0)));
  connection_.lane_brings(frame(FrameKind::kAnswer, 1, answer(0, buffer.data(), memory)));
  {
    const ready::Answering answering(connection_);
    program.join();
  }
  EXPECT_TRUE(buffer == std::string(10, 'x') + data);
  EXPECT_TRUE(got == buffer);
  EXPECT_EQ(connection_.lane_takes(), "") << "nothing of it in the stream";
}

TEST_F(LanedTags, AreRefusedBeforeAnythingIsWritten) {
  const Tag there = peers(kBoth);
  std::thread program([&] {
    EXPECT_EQ(result(sovia_put(fd_, &there, 0, "new", 3)), 0);
    EXPECT_EQ(result(sovia_done(fd_, -1)), -EACCES);
  });
  next(kFrameBytes + sizeof(GetRange));
  connection_.lane_brings(frame(FrameKind::kAnswer, 1, answer(EACCES, nullptr, 0)));
  // It is asked for all the same, and what the peer says then is what counts.
  EXPECT_EQ(next(kFrameBytes + sizeof(Range) + 3), frame(FrameKind::kPut, 2, range(kKey, 0, 0, 3) + "new"));
  connection_.lane_brings(frame(FrameKind::kAnswer, 2, answer(EACCES, nullptr, 0)));
  const ready::Answering answering(connection_);
  program.join();
}

TEST_F(LanedTags, GoInTheStreamWhereTheLaneIsLost) {
  std::string buffer(kBytes, 'x');
  const std::uint32_t memory = connection_.peer_transport().open_memory(reinterpret_cast<std::byte*>(buffer.data()),
                                                                        kBytes, RemoteMemory::Access::kBoth);
  const Tag there = peers(kBoth);
  const std::string data = much(100);
  std::thread program([&] { EXPECT_EQ(result(sovia_put(fd_, &there, 0, data.data(), data.size())), 0); });
  next(kFrameBytes + sizeof(GetRange));
  connection_.near_transport().hold_writes();
  connection_.lane_brings(frame(FrameKind::kAnswer, 1, answer(0, buffer.data(), memory)));
  while (connection_.near_transport().on_way() == 0) std::this_thread::yield();
  connection_.lane_breaks();
  std::string sent;
  char byte;
  const std::string put = frame(FrameKind::kPut, 2, range(kKey, 0, 0, 100) + data);
  while (sent.find(put) == std::string::npos && ::recv(connection_.peer(), &byte, 1, 0) == 1) sent += byte;
  EXPECT_NE(sent.find(put), std::string::npos);
  program.join();
  EXPECT_EQ(buffer[0], 'x');
  connection_.peer_sends(connection_.record_of_peer(kFrameBytes + sizeof(Answer)) +
                         frame(FrameKind::kAnswer, 2, answer(EACCES, nullptr, 0)));
  EXPECT_EQ(result(sovia_done(fd_, -1)), -EACCES);
}

TEST_F(LanedTags, AreOpenToThePeerUntilTheyAreWithdrawn) {
  std::string buffer(kBytes, 'x');
  Tag mine;
  EXPECT_EQ(sovia_tag(fd_, buffer.data(), buffer.size(), SOVIA_TAG_PUT, &mine), 0);
  connection_.lane_brings(frame(FrameKind::kGet, 5, get_range(key_of(mine), 0, 0, kBytes, 0)));
  EXPECT_EQ(take(fd_, MSG_DONTWAIT), "errno " + std::to_string(EAGAIN));
  const std::string reply = next(kFrameBytes + sizeof(Answer));
  Answer answer;
  std::memcpy(&answer, reply.data() + kFrameBytes, sizeof answer);
  EXPECT_EQ(be32toh(answer.status), 0u);
  EXPECT_EQ(be32toh(answer.lane), 1u);
  EXPECT_EQ(be64toh(answer.address), reinterpret_cast<std::uint64_t>(buffer.data()));
  ASSERT_NE(be32toh(answer.memory), 0u);
  const std::string data = much(100'000);
  {
    const std::lock_guard guard(connection_.mutex());
    EXPECT_EQ(lane().remote.write(reinterpret_cast<const std::byte*>(data.data()), 100'000, 7, be64toh(answer.address),
                                  be32toh(answer.memory)),
              100'000u);
  }
  connection_.settle();
  EXPECT_TRUE(buffer == data + std::string(kBytes - 100'000, 'x'));
  EXPECT_EQ(connection_.near_transport().open_regions(), 1u);
  EXPECT_EQ(sovia_untag(fd_, &mine), 0);
  EXPECT_EQ(connection_.near_transport().open_regions(), 0u);
  const std::uint64_t key = key_of(mine);
  EXPECT_EQ(next(kFrameBytes + sizeof key), frame(FrameKind::kGone, 0, bytes_of(&key, sizeof key)));
}

TEST_F(LanedTags, AreClosedWithTheSocket) {
  std::string buffer(100, 'x');
  Tag mine;
  EXPECT_EQ(sovia_tag(fd_, buffer.data(), buffer.size(), kBoth, &mine), 0);
  connection_.lane_brings(frame(FrameKind::kGet, 5, get_range(key_of(mine), 0, 0, 100, 0)));
  EXPECT_EQ(take(fd_, MSG_DONTWAIT), "errno " + std::to_string(EAGAIN));
  EXPECT_EQ(connection_.near_transport().open_regions(), 1u);
  {
    const ready::Answering answering(connection_);
    sovia_close(fd_);
  }
  EXPECT_EQ(connection_.near_transport().open_regions(), 0u);
}

}  // namespace
}  // namespace viaduct::sovia
