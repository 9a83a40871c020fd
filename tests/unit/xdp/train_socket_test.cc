// Trains over the kernel's own UDP: those that arrive, and those dropped because of their sender.
#include "xdp/train/train_socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/udp.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

namespace viaduct {
namespace {

constexpr std::uint32_t kMtu = 1500, kData = 1, kPath = 21, kTypes = 1u << kData | 1u << kPath;
constexpr std::size_t kSource = 6, kType = 15;
constexpr std::size_t kFlags = 17;
constexpr std::byte kChecked{0x80};
constexpr int kUdpGro = 104, kBindToIfIndex = 62;

// So that it stays the socket's, see open_train_socket.cc.
sockaddr_in6 bind_to_free_port(int fd, const char* at) {
  for (int attempt = 0;; ++attempt) {
    sockaddr_in6 name{};
    name.sin6_family = AF_INET6;
    inet_pton(AF_INET6, at, &name.sin6_addr);
    socklen_t bytes = sizeof name;
    const int other = ::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(bind(other, reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
    EXPECT_EQ(getsockname(other, reinterpret_cast<sockaddr*>(&name), &bytes), 0);
    close(other);
    const bool bound = bind(fd, reinterpret_cast<sockaddr*>(&name), sizeof name) == 0;
    if (bound || attempt == 100) {
      EXPECT_TRUE(bound);
      return name;
    }
  }
}

struct End {
  explicit End(const MacAddress& its, const char* at = "::1") : mac(its) {
    const int fd = ::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;
    const sockaddr_in6 name = bind_to_free_port(fd, at);
    EXPECT_EQ(setsockopt(fd, IPPROTO_UDP, kUdpGro, &on, sizeof on), 0);
    address.port = ntohs(name.sin6_port);
    std::memcpy(address.v6.data(), &name.sin6_addr, address.v6.size());
    EXPECT_EQ(socket.open(fd, address, kMtu, kTypes), nullptr);
  }

  // A frame to `to` whose bytes tell which it is.
  Frame frame(const MacAddress& to, std::uint8_t number, std::uint32_t length, std::uint8_t type = kData) {
    std::vector<std::byte>& bytes = memory.emplace_back(kMtu + 14, std::byte{number});
    std::memcpy(bytes.data(), to.data(), to.size());
    std::memcpy(bytes.data() + kSource, mac.data(), mac.size());
    bytes[kType] = std::byte{type};
    return {bytes.data(), length, number};
  }

  void use_pages() {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    socket.use_pages(ends);
  }
  bool is_connected() const {
    sockaddr_in6 peer;
    socklen_t bytes = sizeof peer;
    return getpeername(socket.descriptor(), reinterpret_cast<sockaddr*>(&peer), &bytes) == 0;
  }
  int interface() const {
    int index = -1;
    socklen_t bytes = sizeof index;
    EXPECT_EQ(getsockopt(socket.descriptor(), SOL_SOCKET, kBindToIfIndex, &index, &bytes), 0);
    return index;
  }

  // The frames that arrive within a short while.
  std::vector<Frame> receive() {
    std::vector<Frame> out;
    for (int looks = 0; looks < 200; ++looks) {
      if (!socket.look()) {
        usleep(100);
        continue;
      }
      Frame room[16];
      for (std::size_t n = 1; (n = socket.receive(room)) != 0;) out.insert(out.end(), room, room + n);
    }
    return out;
  }

  MacAddress mac;
  TrainAddress address;
  TrainSocket socket;
  std::vector<std::vector<std::byte>> memory;
};

struct TrainSockets : testing::Test {
  TrainSockets() {
    a.memory.reserve(256), b.memory.reserve(256);
    EXPECT_TRUE(a.socket.learn(b.mac, b.address, 0));
    EXPECT_TRUE(b.socket.learn(a.mac, a.address, 0));
  }
  End a{{2, 0, 0, 0, 0, 1}}, b{{2, 0, 0, 0, 0, 2}};
};

TEST_F(TrainSockets, FramesArriveAsTheyWere) {
  constexpr unsigned kFrames = 44;
  const std::uint32_t whole = 14 + a.socket.payload_limit();
  EXPECT_EQ(whole, kMtu - 48);
  for (unsigned n = 0; n < kFrames; ++n) {
    ASSERT_TRUE(a.socket.add(a.frame(b.mac, static_cast<std::uint8_t>(n), n + 1 == kFrames ? 700 : whole)));
  }
  EXPECT_FALSE(a.socket.add(a.frame(b.mac, 99, whole))) << "more than fits in a datagram";
  EXPECT_EQ(a.socket.waiting().size(), kFrames);
  ASSERT_TRUE(a.socket.send());
  EXPECT_TRUE(a.socket.waiting().empty());
  const std::vector<Frame> got = b.receive();
  ASSERT_EQ(got.size(), kFrames);
  for (unsigned n = 0; n < kFrames; ++n) {
    EXPECT_EQ(got[n].length, n + 1 == kFrames ? 700 : whole);
    EXPECT_TRUE(b.socket.owns(got[n]));
    EXPECT_EQ(std::memcmp(got[n].data, a.memory[n].data(), got[n].length), 0) << n;
  }
  EXPECT_EQ(b.socket.counters().rx_frames, kFrames);
  for (const Frame& frame : got) b.socket.release(frame);
}

// Segments that lie in pieces, between frames, arrive as if each were a frame.
TEST_F(TrainSockets, SegmentsMayLieInPieces) {
  const Frame first = a.frame(b.mac, 1, 1000), second = a.frame(b.mac, 2, 1000), last = a.frame(b.mac, 3, 1000);
  ASSERT_TRUE(a.socket.add(first));
  std::vector<iovec> pieces{{second.data + 70, 300}, {second.data + 370, 1}, {second.data + 371, 629}};
  ASSERT_TRUE(a.socket.add({second.data, 70}, pieces));
  ASSERT_TRUE(a.socket.add(last));
  EXPECT_EQ(a.socket.waiting().size(), 2u);
  pieces.resize(TrainSocket::kMostPieces + 1, {second.data, 1});
  EXPECT_FALSE(a.socket.add({second.data, 70}, pieces)) << "too many pieces";
  ASSERT_TRUE(a.socket.send());
  EXPECT_FALSE(a.socket.has_waiting());
  const std::vector<Frame> got = b.receive();
  ASSERT_EQ(got.size(), 3u);
  for (unsigned n = 0; n < 3; ++n) {
    EXPECT_EQ(got[n].length, 1000u);
    EXPECT_EQ(std::memcmp(got[n].data, a.memory[n].data(), 1000), 0) << n;
  }
}

// Memory that is gone by then costs the train, and no more.
TEST_F(TrainSockets, PiecesThatAreGoneAreNotSent) {
  const Frame frame = a.frame(b.mac, 1, 1000);
  void* const gone = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(gone, 4096);
  const iovec piece{gone, 930};
  ASSERT_TRUE(a.socket.add({frame.data, 70}, {&piece, 1}));
  EXPECT_FALSE(a.socket.send());
  EXPECT_FALSE(a.socket.has_waiting());
  ASSERT_TRUE(a.socket.add(a.frame(b.mac, 2, 100)));
  ASSERT_TRUE(a.socket.send());
  EXPECT_EQ(b.receive().size(), 1u);
}

TEST_F(TrainSockets, ATrainGoesOnBehindTheEndOfAMessage) {
  ASSERT_TRUE(a.socket.add(a.frame(b.mac, 1, 1400)));
  ASSERT_TRUE(a.socket.add(a.frame(b.mac, 2, 500)));
  ASSERT_TRUE(a.socket.add(a.frame(b.mac, 3, 1400)));  // the one before is now as long, filled with zeros
  EXPECT_FALSE(a.socket.add(a.frame(b.mac, 4, 1401))) << "longer than the others";
  EXPECT_FALSE(a.socket.add(a.frame({2, 0, 0, 0, 0, 3}, 4, 1400))) << "to another";
  ASSERT_TRUE(a.socket.send());
  const std::vector<Frame> got = b.receive();
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(got[1].length, 1400u);
  EXPECT_EQ(got[1].data[499], std::byte{2});
  EXPECT_EQ(got[1].data[500], std::byte{0});
  EXPECT_EQ(got[1].data[1399], std::byte{0});
  EXPECT_EQ(got[2].data[1399], std::byte{3});
}

// As many trains can be lent as there are buffers; later ones wait in the kernel.
TEST_F(TrainSockets, BuffersAreUsedAgain) {
  std::vector<Frame> kept;
  for (unsigned n = 0; n < TrainSocket::kBuffers + 3; ++n) {
    a.memory.clear();
    ASSERT_TRUE(a.socket.add(a.frame(b.mac, static_cast<std::uint8_t>(n), 100)));
    ASSERT_TRUE(a.socket.send());
    if (!b.socket.look()) continue;
    Frame frame;
    ASSERT_EQ(b.socket.receive({&frame, 1}), 1u);
    kept.push_back(frame);
  }
  EXPECT_EQ(kept.size(), std::size_t{TrainSocket::kBuffers});
  EXPECT_GT(b.socket.counters().rx_no_buffer, 0u);
  for (const Frame& frame : kept) b.socket.release(frame);
  EXPECT_EQ(b.receive().size(), 3u);
}

// However long it has waited, it looks often enough to lose but a small part of that time.
TEST_F(TrainSockets, ATrainThatWasWaitedForIsSeenSoon) {
  const auto send = [&] {
    a.memory.clear();
    ASSERT_TRUE(a.socket.add(a.frame(b.mac, 1, 100)));
    ASSERT_TRUE(a.socket.send());
  };
  // How often it asked whether a look was due until it saw the train.
  const auto asked = [&] {
    unsigned n = 1;
    while (n < 100'000 && !(b.socket.is_due() && b.socket.look())) ++n;
    Frame frame;
    EXPECT_EQ(b.socket.receive({&frame, 1}), 1u);
    b.socket.release(frame);
    return n;
  };
  for (const unsigned waits : {0u, 300u, 2'000u, 9'000u, 40'000u}) {
    send();
    asked();
    for (unsigned n = 0; n < waits; ++n) {
      EXPECT_FALSE(b.socket.is_due() && b.socket.look());
    }
    send();
    EXPECT_LE(asked(), 8 + waits / 128) << waits;
  }
}

// Each bad datagram is counted once, and nothing of it is seen.
TEST_F(TrainSockets, StrangersAreDropped) {
  End c({2, 0, 0, 0, 0, 3});
  c.memory.reserve(16);
  const auto wrong_source = [this] { return b.socket.counters().rx_wrong_source; };
  const auto wrong_frame = [this] { return b.socket.counters().rx_wrong_frame; };
  // A host that has told no address, in its own name and in that of one that has.
  ASSERT_TRUE(c.socket.learn(b.mac, b.address, 0));
  ASSERT_TRUE(c.socket.add(c.frame(b.mac, 1, 200)));
  ASSERT_TRUE(c.socket.send());
  EXPECT_TRUE(b.receive().empty());
  EXPECT_EQ(wrong_source(), 1u);
  Frame forged = c.frame(b.mac, 1, 200);
  std::memcpy(forged.data + kSource, a.mac.data(), a.mac.size());
  ASSERT_TRUE(c.socket.add(forged));
  ASSERT_TRUE(c.socket.send());
  EXPECT_TRUE(b.receive().empty());
  EXPECT_EQ(wrong_source(), 2u);
  // One that has, in the name of another, at once and behind a frame of its own.
  ASSERT_TRUE(b.socket.learn(c.mac, c.address, 0));
  ASSERT_TRUE(c.socket.add(forged));
  ASSERT_TRUE(c.socket.send());
  EXPECT_TRUE(b.receive().empty());
  EXPECT_EQ(wrong_source(), 3u);
  ASSERT_TRUE(c.socket.add(c.frame(b.mac, 1, 200)));
  ASSERT_TRUE(c.socket.add(forged));
  ASSERT_TRUE(c.socket.send());
  EXPECT_TRUE(b.receive().empty());
  EXPECT_EQ(wrong_frame(), 1u);
  // Types that begin or end a connection, and unknown ones.
  for (const int type : {0, 2, 4, 5, 9, 13, 14, 16, 19, 20, 22, 31, 32, 33, 255}) {
    const std::uint64_t before = wrong_frame();
    ASSERT_TRUE(a.socket.add(a.frame(b.mac, 1, 200, static_cast<std::uint8_t>(type))));
    ASSERT_TRUE(a.socket.send());
    EXPECT_TRUE(b.receive().empty()) << type;
    EXPECT_EQ(wrong_frame(), before + 1) << type;
  }
  // Too short to be a frame.
  ASSERT_TRUE(a.socket.add(a.frame(b.mac, 1, 59)));
  ASSERT_TRUE(a.socket.send());
  EXPECT_TRUE(b.receive().empty());
  EXPECT_EQ(wrong_source(), 4u);
}

// A peer may begin the next connection before it knows that the last one has ended here.
TEST_F(TrainSockets, APeerThatHasLeftIsTakenUntilItsPlaceIsNeeded) {
  const auto arrives = [this] {
    EXPECT_TRUE(a.socket.add(a.frame(b.mac, 1, 200)));
    EXPECT_TRUE(a.socket.send());
    const std::vector<Frame> got = b.receive();
    for (const Frame& frame : got) b.socket.release(frame);
    return got.size() == 1;
  };
  const auto learn_another = [this](std::uint8_t n) {
    // Addresses that share the place of a's.
    return b.socket.learn({2, 0, 0, n, 0, 1}, a.address, 0);
  };
  std::uint8_t others = 0;
  while (others < 100 && learn_another(static_cast<std::uint8_t>(others + 1))) ++others;
  EXPECT_LT(others, 100) << "places are few";
  EXPECT_TRUE(arrives());
  b.socket.leave(a.mac);
  EXPECT_TRUE(arrives());
  EXPECT_TRUE(learn_another(static_cast<std::uint8_t>(others + 1)));
  EXPECT_FALSE(arrives());
  EXPECT_EQ(b.socket.counters().rx_wrong_source, 1u);
}

struct TrainPagesTest : TrainSockets {
  TrainPagesTest() {
    constexpr int kLoopback = 1;
    EXPECT_EQ(setsockopt(a.socket.descriptor(), SOL_SOCKET, kBindToIfIndex, &kLoopback, sizeof kLoopback), 0);
    a.use_pages();
    if (!a.socket.pages().can()) can = false;
  }
  // Two frames that tell their number, from a to b.
  bool send_train(std::uint8_t number, bool checked) {
    a.memory.clear();
    for (int n = 0; n < 2; ++n) {
      const Frame frame = a.frame(b.mac, number, 100);
      if (checked) frame.data[kFlags] = kChecked;
      if (!checked) frame.data[kFlags] = std::byte{};
      EXPECT_TRUE(a.socket.add(frame));
    }
    const bool sent = a.socket.send();
    for (std::vector<std::byte>& gone : a.memory) gone.assign(gone.size(), std::byte{0xee});
    return sent;
  }
  // The numbers of the trains that have come.
  std::vector<unsigned> numbers() {
    std::vector<unsigned> out;
    for (int vain = 0; vain < 50; ++vain) {
      for (; b.socket.look(); vain = 0) {
        Frame got[2];
        EXPECT_EQ(b.socket.receive(got), 2u);
        EXPECT_EQ(std::memcmp(got[0].data, got[1].data, got[0].length), 0);
        out.push_back(std::to_integer<unsigned>(got[0].data[got[0].length - 1]));
        for (const Frame& frame : got) b.socket.release(frame);
      }
      usleep(100);
    }
    return out;
  }
  bool can = true;
};

TEST_F(TrainPagesTest, TheOnlyPeerIsSentPages) {
  if (!can) GTEST_SKIP() << "not with this kernel";
  EXPECT_FALSE(a.is_connected());
  for (std::uint8_t n = 1; n < 10; ++n) ASSERT_TRUE(send_train(n, true));
  EXPECT_TRUE(a.is_connected());
  EXPECT_EQ(numbers(), (std::vector<unsigned>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
  // It answers.
  ASSERT_TRUE(b.socket.add(b.frame(a.mac, 1, 100)));
  ASSERT_TRUE(b.socket.send());
  EXPECT_EQ(a.receive().size(), 1u);
}

TEST_F(TrainPagesTest, LongTrainsArriveAsTheyWere) {
  if (!can) GTEST_SKIP() << "not with this kernel";
  const std::uint32_t whole = 14 + a.socket.payload_limit();
  for (unsigned round = 0; round < 200; ++round) {
    a.memory.clear();
    for (std::uint8_t n = 0; n < 44; ++n) {
      const Frame frame = a.frame(b.mac, static_cast<std::uint8_t>(n + round), n == 43 ? 700 : whole);
      frame.data[kFlags] = kChecked;
      ASSERT_TRUE(a.socket.add(frame));
    }
    ASSERT_TRUE(a.socket.send());
    Frame got[44];
    while (!b.socket.look()) continue;
    ASSERT_EQ(b.socket.receive(got), 44u);
    for (unsigned n = 0; n < 44; ++n) {
      ASSERT_EQ(got[n].length, n == 43 ? 700 : whole);
      ASSERT_EQ(std::memcmp(got[n].data, a.memory[n].data(), got[n].length), 0) << n;
      b.socket.release(got[n]);
    }
  }
}

// A page is used again, whether it has been read or not. Frames without a checksum to detect that are copied.
TEST_F(TrainPagesTest, FramesWithoutChecksumAreCopied) {
  if (!can) GTEST_SKIP() << "not with this kernel";
  constexpr unsigned kMany = TrainPages::kTrains + 1;
  for (unsigned n = 0; n < kMany; ++n) ASSERT_TRUE(send_train(static_cast<std::uint8_t>(n), false));
  std::vector<unsigned> got = numbers();
  ASSERT_EQ(got.size(), kMany);
  for (unsigned n = 0; n < kMany; ++n) EXPECT_EQ(got[n], n);
  for (unsigned n = 0; n < kMany; ++n) ASSERT_TRUE(send_train(static_cast<std::uint8_t>(n), true));
  got = numbers();
  ASSERT_EQ(got.size(), kMany);
  EXPECT_EQ(got[0], kMany - 1) << "if it is copied too, this test says nothing";
}

TEST_F(TrainPagesTest, AnotherPeerIsHeard) {
  if (!can) GTEST_SKIP() << "not with this kernel";
  ASSERT_TRUE(send_train(1, true));
  ASSERT_TRUE(a.is_connected());
  EXPECT_TRUE(a.socket.learn(b.mac, b.address, 0));
  EXPECT_TRUE(a.is_connected()) << "nothing new";
  End c({2, 0, 0, 0, 0, 3});
  c.memory.reserve(4);
  ASSERT_TRUE(c.socket.learn(a.mac, a.address, 0));
  ASSERT_TRUE(a.socket.learn(c.mac, c.address, 0));
  EXPECT_FALSE(a.is_connected());
  EXPECT_EQ(a.interface(), 1);
  ASSERT_TRUE(c.socket.add(c.frame(a.mac, 1, 100)));
  ASSERT_TRUE(c.socket.send());
  EXPECT_EQ(a.receive().size(), 1u) << "its port is the same";
  ASSERT_TRUE(send_train(2, true));
  EXPECT_FALSE(a.is_connected());
  EXPECT_EQ(numbers(), (std::vector<unsigned>{1, 2}));
}

// Another user of the peer's host has the address, but not the port.
TEST_F(TrainSockets, AnotherUserOfThePeersHostIsAStranger) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  const Frame frame = a.frame(b.mac, 1, 200);
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(1);
    const int fd = ::socket(AF_INET6, SOCK_DGRAM, 0);
    sockaddr_in6 own{}, to{};
    own.sin6_family = to.sin6_family = AF_INET6;
    own.sin6_port = htons(a.address.port), to.sin6_port = htons(b.address.port);
    own.sin6_addr = to.sin6_addr = in6addr_loopback;
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    if (bind(fd, reinterpret_cast<sockaddr*>(&own), sizeof own) == 0) _exit(2);  // the port is taken
    _exit(sendto(fd, frame.data, frame.length, 0, reinterpret_cast<sockaddr*>(&to), sizeof to) ==
                  static_cast<ssize_t>(frame.length) ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(b.receive().empty());
  EXPECT_EQ(b.socket.counters().rx_wrong_source, 1u);
}

// Where a peer has both, one after the other is tried; without a common one there is no way.
TEST(TrainSocketPeers, AddressesAreTriedInTurn) {
  End a({2, 0, 0, 0, 0, 1});
  TrainAddress none, v4;
  EXPECT_FALSE(a.socket.learn({2, 0, 0, 0, 0, 2}, none, 0));
  v4.port = 9, v4.v4 = {127, 0, 0, 1};
  EXPECT_FALSE(a.socket.learn({2, 0, 0, 0, 0, 2}, v4, 0)) << "we have no IPv4 address";
  EXPECT_FALSE(a.socket.is_due()) << "nobody may send";
  // There is room for so many; no known peer is driven out.
  TrainAddress v6;
  v6.port = 9, v6.v6[15] = 1;
  unsigned learnt = 0;
  for (unsigned n = 0; n < 1000; ++n) {
    learnt += a.socket.learn({2, 1, 0, 0, static_cast<std::uint8_t>(n >> 8), static_cast<std::uint8_t>(n)}, v6, 0);
  }
  EXPECT_GT(learnt, 100u);
  EXPECT_LT(learnt, 1000u);
  EXPECT_TRUE(a.socket.knows({2, 1, 0, 0, 0, 0}));
}

}  // namespace
}  // namespace viaduct
