// A UDP socket's sends and receives on its lanes, over transports without a VI.
#include "sovia/datagram/datagram_socket.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "sovia/process/clock.h"
#include "sovia/process/libc.h"

namespace viaduct::sovia::datagram::test {
namespace {

sockaddr_in peer(std::uint16_t port) {
  sockaddr_in made{};
  made.sin_family = AF_INET;
  made.sin_port = htons(port);
  made.sin_addr.s_addr = htonl(0x0a000001);
  return made;
}

class FakeTransport final : public DatagramTransport {
 public:
  FakeTransport() : send_(kSendPlaces), receive_(kReceivePlaces) {
    for (auto& place : send_) place.resize(kMostBytes);
    for (auto& place : receive_) place.resize(kMostBytes);
    for (std::uint32_t i = 0; i < kReceivePlaces; ++i) free.push_back(i);
  }
  VIP_RETURN connected() override { return VIP_SUCCESS; }
  std::byte* to_send(std::uint32_t place) override { return send_[place].data(); }
  const std::byte* received(std::uint32_t place) override { return receive_[place].data(); }
  bool post(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) override {
    if (over) return false;
    sent.emplace_back(reinterpret_cast<const char*>(send_[place].data()), bytes);
    kinds.push_back(immediate);
    return true;
  }
  bool post_receive(std::uint32_t place) override {
    free.push_back(place);
    return !over;
  }
  std::uint32_t completed() override { return std::exchange(leaves, 0u); }
  void destroy() override {}

  // A message comes: false if there is no receive for it.
  bool come(DatagramLane& lane, Kind kind, const std::string& data, bool lost = false) {
    if (free.empty()) return false;
    const std::uint32_t place = free.front();
    free.pop_front();
    std::memcpy(receive_[place].data(), data.data(), data.size());
    lane.arrived({&receives, lost, false, place, static_cast<std::uint32_t>(data.size()),
                  static_cast<std::uint32_t>(kind)});
    return true;
  }

  std::deque<std::uint32_t> free;
  std::vector<std::string> sent;
  std::vector<std::uint32_t> kinds;
  std::uint32_t leaves = 0;
  bool over = false;

 private:
  std::vector<std::vector<std::byte>> send_, receive_;
};

class DatagramSocketTest : public ::testing::Test {
 protected:
  DatagramSocketTest() {
    libc::prepare();
    fd_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  }
  ~DatagramSocketTest() {
    if (added_) socket_.remove(lane_);
    ::close(fd_);
  }

  void greet(DatagramLane& lane, bool trust) {
    Handshake far;
    far.begin({7});
    far.trust();
    const Handshake::Hello hello = far.next(1);
    lane.handshake.begin({8});
    if (trust) lane.handshake.trust();
    lane.handshake.take(reinterpret_cast<const std::byte*>(&hello), sizeof hello);
  }
  void open(bool trust = true) {
    socket_.add(lane_);
    added_ = true;
    greet(lane_, trust);
  }
  // The first datagrams are held back until the kernel has been found empty.
  void let_pass() {
    await_end_of_hold();
    socket_.kernel_said(false);
  }
  void await_end_of_hold() {
    const std::uint64_t until = socket_.held_until();
    while (until != kNever && now_ns() < until) std::this_thread::yield();
  }
  DatagramSocket::Sent send(const std::string& data, const sockaddr_in& to) {
    const iovec piece{const_cast<char*>(data.data()), data.size()};
    return socket_.send(fd_, {&piece, 1, to, 0}, data.size());
  }
  // "" and false: there is none.
  bool take(std::string& data, std::size_t room = 100, bool peek = false) {
    data.assign(room, 'x');
    const iovec piece{data.data(), room};
    message_ = {&piece, 1, {}, 0};
    const DatagramSocket::Taken taken = socket_.take(message_, length_, peek);
    data.resize(taken == DatagramSocket::Taken::kDone ? std::min(length_, room) : 0);
    return taken == DatagramSocket::Taken::kDone;
  }

  FakeTransport transport_;
  DatagramSocket socket_{false};
  DatagramLane lane_{socket_, transport_, peer(1)};
  bool added_ = false;
  int fd_ = -1;
  Message message_{};
  std::size_t length_ = 0;
  std::string data_;
};

TEST_F(DatagramSocketTest, GivesWhatCameInOrderWithItsSender) {
  open();
  ASSERT_TRUE(transport_.come(lane_, Kind::kData, "one"));
  ASSERT_TRUE(transport_.come(lane_, Kind::kData, ""));
  ASSERT_TRUE(transport_.come(lane_, Kind::kData, "three"));
  let_pass();
  EXPECT_TRUE(take(data_, 100, true));
  EXPECT_EQ(data_, "one") << "a peek";
  EXPECT_TRUE(take(data_));
  EXPECT_EQ(data_, "one");
  EXPECT_TRUE(same_peer(message_.peer, peer(1)));
  EXPECT_EQ(message_.flags, 0);
  EXPECT_TRUE(take(data_));
  EXPECT_EQ(data_, "");
  EXPECT_TRUE(take(data_, 2));
  EXPECT_EQ(data_, "th");
  EXPECT_EQ(length_, 5u);
  EXPECT_EQ(message_.flags, MSG_TRUNC);
  EXPECT_FALSE(take(data_)) << "the rest of a datagram is dropped";
  EXPECT_EQ(transport_.free.size(), kReceivePlaces) << "places are posted again";
}

TEST_F(DatagramSocketTest, HoldsWhatComesFirstUntilTheKernelIsEmpty) {
  open();
  ASSERT_TRUE(transport_.come(lane_, Kind::kData, "later"));
  EXPECT_FALSE(socket_.readable());
  EXPECT_FALSE(take(data_));
  EXPECT_TRUE(socket_.kernel_first());
  socket_.kernel_said(false);  // too early to mean anything
  EXPECT_FALSE(take(data_));
  await_end_of_hold();
  EXPECT_TRUE(socket_.readable()) << "a receive has something to do";
  EXPECT_FALSE(take(data_)) << "but the kernel is asked first";
  socket_.kernel_said(true);
  EXPECT_FALSE(take(data_)) << "which had something";
  socket_.kernel_said(false);
  EXPECT_TRUE(take(data_));
  ASSERT_TRUE(transport_.come(lane_, Kind::kData, "next"));
  EXPECT_TRUE(socket_.readable()) << "only the first is held";
  EXPECT_TRUE(take(data_));
}

TEST_F(DatagramSocketTest, TakesNothingFromAPeerThatIsNotTrusted) {
  open(false);
  ASSERT_TRUE(transport_.come(lane_, Kind::kData, "evil"));
  EXPECT_EQ(socket_.held_until(), kNever);
  EXPECT_FALSE(take(data_));
  EXPECT_EQ(transport_.free.size(), kReceivePlaces);
  EXPECT_EQ(send("secret", peer(1)), DatagramSocket::Sent::kKernel) << "nor is it sent anything";
  EXPECT_TRUE(transport_.sent.empty());
}

TEST_F(DatagramSocketTest, SendsToThePeerOfTheLaneAlone) {
  open();
  EXPECT_EQ(send("hello", peer(1)), DatagramSocket::Sent::kDone);
  EXPECT_EQ(send("other", peer(2)), DatagramSocket::Sent::kKernel);
  EXPECT_EQ(send("", peer(1)), DatagramSocket::Sent::kDone);
  EXPECT_EQ(transport_.sent, (std::vector<std::string>{"hello", ""}));
  EXPECT_EQ(transport_.kinds[0], static_cast<std::uint32_t>(Kind::kData));
}

TEST_F(DatagramSocketTest, TellsOfMemoryThatIsNotThere) {
  open();
  const iovec bad{reinterpret_cast<void*>(16), 10};
  EXPECT_EQ(socket_.send(fd_, {&bad, 1, peer(1), 0}, 10), DatagramSocket::Sent::kFault);
  EXPECT_TRUE(transport_.sent.empty());
  ASSERT_TRUE(transport_.come(lane_, Kind::kData, "data"));
  let_pass();
  Message into{&bad, 1, {}, 0};
  EXPECT_EQ(socket_.take(into, length_, false), DatagramSocket::Taken::kFault);
  EXPECT_EQ(transport_.free.size(), kReceivePlaces);
}

TEST_F(DatagramSocketTest, LeavesThePairToTheKernelForADatagramTooLong) {
  open();
  EXPECT_EQ(send(std::string(kMostBytes, 'a'), peer(1)), DatagramSocket::Sent::kDone);
  EXPECT_EQ(send(std::string(kMostBytes + 1, 'a'), peer(1)), DatagramSocket::Sent::kNoRoom);
  EXPECT_TRUE(lane_.leaves);
  EXPECT_EQ(send("short", peer(1)), DatagramSocket::Sent::kNoRoom) << "or they would overtake each other";
  ASSERT_TRUE(transport_.come(lane_, Kind::kLeft, ""));
  EXPECT_EQ(send("short", peer(1)), DatagramSocket::Sent::kKernel);
  EXPECT_EQ(send(std::string(kMostBytes + 1, 'a'), peer(1)), DatagramSocket::Sent::kKernel);
  EXPECT_EQ(transport_.sent.size(), 1u);
  socket_.remove(lane_);
  added_ = false;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(socket_.count(peer(1), now_ns())) << "it would go back and forth";
}

TEST_F(DatagramSocketTest, DropsWhatAPeerThatTakesNothingIsSentAfterAMoment) {
  open();
  for (std::uint32_t i = 0; i < kSendPlaces; ++i) ASSERT_EQ(send("a", peer(1)), DatagramSocket::Sent::kDone);
  ASSERT_EQ(send("b", peer(1)), DatagramSocket::Sent::kNoRoom);
  while (send("b", peer(1)) == DatagramSocket::Sent::kNoRoom) std::this_thread::yield();
  EXPECT_EQ(transport_.sent.size(), kSendPlaces);
  transport_.leaves = 1;
  EXPECT_EQ(send("c", peer(1)), DatagramSocket::Sent::kDone);
  EXPECT_EQ(transport_.sent.back(), "c");
}

TEST_F(DatagramSocketTest, KeepsWhatIsUnreadWhenTheLaneGoes) {
  open();
  ASSERT_EQ(send("before", peer(1)), DatagramSocket::Sent::kDone);
  ASSERT_TRUE(transport_.come(lane_, Kind::kData, "one"));
  ASSERT_TRUE(transport_.come(lane_, Kind::kData, ""));
  ASSERT_TRUE(transport_.come(lane_, Kind::kLeave, ""));
  EXPECT_TRUE(lane_.answer_due);
  EXPECT_EQ(send("back", peer(1)), DatagramSocket::Sent::kNoRoom) << "what went before is on its way";
  transport_.leaves = 1;
  EXPECT_EQ(send("back", peer(1)), DatagramSocket::Sent::kKernel);
  socket_.give_up(Reason::kOption);
  socket_.remove(lane_);
  added_ = false;
  EXPECT_FALSE(socket_.kernel_alone());
  EXPECT_FALSE(socket_.kernel_first()) << "what came over the lane is older";
  EXPECT_TRUE(take(data_));
  EXPECT_EQ(data_, "one");
  EXPECT_TRUE(take(data_));
  EXPECT_EQ(data_, "");
  EXPECT_TRUE(socket_.kernel_alone());
}

// Programs look at how long the next datagram is, and then take it.
TEST_F(DatagramSocketTest, GivesNextWhatTheProgramHasLookedAt) {
  open();
  ASSERT_TRUE(transport_.come(lane_, Kind::kData, "one"));
  let_pass();
  ASSERT_TRUE(take(data_, 100, true));
  for (int i = 0; i < 100; ++i) ASSERT_FALSE(socket_.kernel_first()) << "its turn would have come";
  ASSERT_TRUE(take(data_));
  ASSERT_TRUE(transport_.come(lane_, Kind::kData, "two"));
  ASSERT_EQ(socket_.next_bytes(), 3);
  for (int i = 0; i < 100; ++i) ASSERT_FALSE(socket_.kernel_first());
  ASSERT_TRUE(take(data_));

  socket_.kernel_said(true, true);
  ASSERT_TRUE(transport_.come(lane_, Kind::kData, "three"));
  EXPECT_TRUE(socket_.kernel_first());
  EXPECT_TRUE(socket_.kernel_first()) << "until it has been taken";
  EXPECT_EQ(socket_.next_bytes(), -1);
  socket_.kernel_said(true);
  EXPECT_FALSE(socket_.kernel_first());
  EXPECT_TRUE(take(data_));
}

TEST_F(DatagramSocketTest, AsksTheKernelBehindWhatIsLeftOfALane) {
  FakeTransport transport;
  DatagramLane other(socket_, transport, peer(2));
  open();
  socket_.add(other);
  greet(other, true);
  ASSERT_TRUE(transport_.come(lane_, Kind::kData, "open"));
  let_pass();
  ASSERT_TRUE(transport.come(other, Kind::kData, "left"));
  socket_.remove(other);
  for (int i = 0; i < 100; ++i) ASSERT_FALSE(socket_.kernel_first()) << "it may have later ones of that peer";
  ASSERT_TRUE(take(data_));
  ASSERT_TRUE(take(data_));
  EXPECT_EQ(data_, "left");
  ASSERT_TRUE(transport_.come(lane_, Kind::kData, "open"));
  bool asked = false;
  for (int i = 0; i < 100; ++i) asked = asked || socket_.kernel_first();
  EXPECT_TRUE(asked);
}

TEST_F(DatagramSocketTest, TakesNothingOfAPeerThatIsDoubted) {
  open();
  ASSERT_TRUE(transport_.come(lane_, Kind::kData, "before"));
  let_pass();
  lane_.leaves = lane_.doubted = true;
  ASSERT_TRUE(transport_.come(lane_, Kind::kData, "evil"));
  EXPECT_TRUE(take(data_));
  EXPECT_FALSE(take(data_));
  EXPECT_EQ(transport_.free.size(), kReceivePlaces);
  EXPECT_NE(send("secret", peer(1)), DatagramSocket::Sent::kDone);
  EXPECT_TRUE(transport_.sent.empty());
}

TEST_F(DatagramSocketTest, GoesToTheKernelWhenTheConnectionEnds) {
  open();
  ASSERT_EQ(send("a", peer(1)), DatagramSocket::Sent::kDone);
  transport_.come(lane_, Kind::kData, "", true);
  EXPECT_TRUE(lane_.broken);
  EXPECT_EQ(send("b", peer(1)), DatagramSocket::Sent::kKernel);
}

TEST_F(DatagramSocketTest, LivesThroughNonsense) {
  open();
  unsigned random = 1;
  for (int i = 0; i < 20000; ++i) {
    random = random * 1103515245 + 12345;
    const auto kind = static_cast<Kind>(random % 5 == 0 ? random : 0x53550000 + random / 7 % 7);
    if (kind == Kind::kData) continue;
    ASSERT_TRUE(transport_.come(lane_, kind, std::string(random / 64 % 40, static_cast<char>(random / 3))));
    ASSERT_EQ(transport_.free.size(), kReceivePlaces) << "every place is posted again";
    ASSERT_FALSE(socket_.readable());
  }
  EXPECT_EQ(lane_.handshake.peer_token(), Handshake::Token{7});
}

}  // namespace
}  // namespace viaduct::sovia::datagram::test
