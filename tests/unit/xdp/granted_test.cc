// Granted ports: the agent's side, the program's side and the filter between them and the network.
// Root only; skipped otherwise.
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "tests/unit/xdp/fixture.h"
#include "xdp/port_error.h"
#include "xdp/grant/grant.h"
#include "xdp/grant/grant_remains.h"
#include "xdp/grant/granted_child.h"
#include "xdp/grant/granted_port.h"
#include "xdp/grant/macvlan_relay.h"
#include "xdp/host_port.h"
#include "xdp/interface.h"
#include "xdp/port_error.h"

namespace viaduct {
namespace {

constexpr MacAddress kV0{2, 0, 0, 0, 0, 1}, kV1{2, 0, 0, 0, 0, 2};

class GrantedTest : public VethTest {
 protected:
  // A host: an interface with the filter on it.
  struct Host {
    explicit Host(const std::string& interface)
        : lower(query_interface(interface)), filter(lower, 0x88b5) {}
    std::unique_ptr<Grant> grant(std::size_t umem_bytes = 4 << 20) {
      Grant::Options options{filter};
      options.umem_bytes = umem_bytes;
      return std::make_unique<Grant>(options);
    }
    Interface lower;
    GrantFilter filter;
  };

  static const char* open_port(GrantedPort& port, const Grant& grant) {
    return port.open(dup(grant.socket()), dup(grant.umem()), grant.layout());
  }

  // A program with a port of that host.
  struct Program {
    explicit Program(Host& host, std::size_t umem_bytes = 4 << 20) : grant(host.grant(umem_bytes)) {
      EXPECT_STREQ(open_port(port, *grant), nullptr);
    }
    std::unique_ptr<Grant> grant;
    GrantedPort port;
  };

  // A frame as the wire format has it, as far as the filter looks.
  static void write(Frame& frame, const MacAddress& to, const MacAddress& from, std::uint32_t bytes,
                    std::uint64_t number, std::uint8_t type = 1,
                    std::uint16_t ether_type = 0x88b5) {
    write_frame(frame, to, from, bytes, number, ether_type);
    frame.data[14] = std::byte{1};
    frame.data[15] = std::byte{type};
  }
  static std::uint64_t number_in(const Frame& frame) {
    return wire::load64(frame.data + 14) & 0xffff'ffff'ffff;
  }

  template <class AnyPort>
  static void send_one(AnyPort& port, const MacAddress& to, const MacAddress& from,
                       std::uint32_t bytes, std::uint64_t number, std::uint8_t type = 1,
                       std::uint16_t ether_type = 0x88b5) {
    Frame frame;
    ASSERT_TRUE(eventually([&] { return port.reserve({&frame, 1}) == 1; }));
    write(frame, to, from, bytes, number, type, ether_type);
    port.submit({&frame, 1});
    port.flush();
  }

  // The next frame, which is given back at once; its number.
  template <class AnyPort>
  static std::uint64_t next(AnyPort& port, std::uint32_t bytes = 64) {
    Frame frame;
    if (!eventually([&] { return port.receive({&frame, 1}) == 1; })) return 0;
    EXPECT_EQ(frame.length, bytes);
    const std::uint64_t number = number_in(frame);
    port.release({&frame, 1});
    return number;
  }

  template <class AnyPort>
  static bool is_silent(AnyPort& port) {
    Frame frame;
    usleep(20'000);
    return port.receive({&frame, 1}) == 0;
  }

  // The kernel's counts of an interface.
  struct Frames {
    std::uint64_t received = 0, sent = 0;
  };
  static Frames frames_of(const std::string& interface) {
    std::ifstream lines("/proc/net/dev");
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string name;
      std::uint64_t n[10];
      words >> name;
      for (std::uint64_t& each : n) words >> each;
      if (name == interface + ":" && words) return {n[1], n[9]};
    }
    ADD_FAILURE() << "no interface " << interface;
    return {};
  }

  // A frame that goes the kernel's ordinary way.
  static bool send_packet(const Interface& from, std::uint32_t mark, const MacAddress& to,
                          std::uint64_t number) {
    const int fd = socket(AF_PACKET, SOCK_RAW, 0);
    std::byte bytes[64];
    Frame frame{bytes, 0, 0};
    write(frame, to, from.address, sizeof bytes, number);
    sockaddr_ll at{};
    at.sll_family = AF_PACKET;
    at.sll_ifindex = from.index;
    const bool sent = setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof mark) == 0 &&
                      sendto(fd, bytes, sizeof bytes, 0, reinterpret_cast<sockaddr*>(&at),
                             sizeof at) == sizeof bytes;
    ::close(fd);
    return sent;
  }

  static bool exists(const std::string& name) { return if_nametoindex(name.c_str()) != 0; }
};

// A connection's end may come by the kernel: frames that the peer put into its ring before must come first.
TEST_F(GrantedTest, WhatComesByTheKernelComesBehindAllOfTheRing) {
  Host host("v0"), other("v1");
  Program taker(host), sender(other);
  const MacAddress to = taker.port.address(), from = sender.port.address();
  const int file = memfd_create("local", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(ftruncate(file, local::kFileBytes), 0);
  ASSERT_EQ(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  ASSERT_EQ(taker.port.add_local(from, 1, dup(file), 0, WholeFrame{}), nullptr);
  ASSERT_EQ(sender.port.add_local(to, 2, file, 1, WholeFrame{}), nullptr);
  constexpr std::uint64_t kInRing = 100;
  constexpr std::uint32_t kBytes = 2000;
  for (std::uint64_t n = 1; n <= kInRing; ++n) {
    Frame frame;
    ASSERT_TRUE(sender.port.reserve_for(to, kBytes, frame));
    write(frame, to, from, kBytes, n);
    sender.port.submit({&frame, 1});
  }
  send_one(sender.port, to, from, 64, kInRing + 1);
  usleep(50'000);
  std::vector<std::uint64_t> order;
  EXPECT_TRUE(eventually([&] {
    Frame frames[64];
    const std::size_t n = taker.port.receive(frames);
    for (std::size_t f = 0; f < n; ++f) order.push_back(number_in(frames[f]));
    taker.port.release({frames, n});
    return order.size() > kInRing;
  }));
  for (std::uint64_t n = 1; n <= kInRing + 1; ++n) EXPECT_EQ(order.at(n - 1), n);
  EXPECT_FALSE(taker.port.has_frames());
}

TEST_F(GrantedTest, FramesOfEverySizeGoBetweenTwoHosts) {
  Host one("v0"), two("v1");
  Program a(one), b(two);
  EXPECT_EQ(a.port.address(), a.grant->address());
  EXPECT_EQ(a.port.mtu(), 1500u);
  EXPECT_GE(a.port.lendable(), 256u);
  std::uint64_t number = 0;
  for (const std::uint32_t bytes : {60u, 61u, 64u, 300u, 1513u, 1514u}) {
    for (GrantedPort* from : {&a.port, &b.port}) {
      GrantedPort& to = from == &a.port ? b.port : a.port;
      EXPECT_FALSE(to.has_frames());
      ASSERT_NO_FATAL_FAILURE(send_one(*from, to.address(), from->address(), bytes, ++number));
      ASSERT_TRUE(eventually([&] { return to.has_frames(); }));
      Frame frame;
      ASSERT_EQ(to.receive({&frame, 1}), 1u);
      ASSERT_EQ(frame.length, bytes);
      EXPECT_EQ(number_in(frame), number);
      for (std::uint32_t i = 22; i < bytes; ++i) {
        ASSERT_EQ(frame.data[i], std::byte(number * 7 + i));
      }
      to.release({&frame, 1});
    }
  }
  EXPECT_EQ(a.port.counters().tx_frames, 6u);
  EXPECT_EQ(a.port.counters().rx_frames, 6u);
  EXPECT_EQ(b.port.counters().rx_bytes, a.port.counters().tx_bytes);
  EXPECT_EQ(a.grant->counts().passed, 6u);
  EXPECT_EQ(one.filter.counts().passed, 6u);
}

TEST_F(GrantedTest, ABurstOfFiveHundredAndTwelveFramesIsNotLost) {
  for (const char* mtu : {"mtu 1500", "mtu 3498"}) {
    make_pair(mtu);
    Host one("v0"), two("v1");
    Program a(one), b(two);
    std::uint64_t sent = 0, expected = 0;
    for (int round = 0; round < 50; ++round) {
      while (sent - expected < 512) {
        Frame frames[256];
        ASSERT_EQ(a.port.reserve(frames), 256u) << round;
        for (Frame& frame : frames) {
          write(frame, b.port.address(), a.port.address(), a.port.mtu() + 14, sent++);
        }
        a.port.submit(frames);
        a.port.flush();
      }
      // In odd pieces, so that batches of all lengths are under way.
      while (expected < sent) {
        Frame some[37];
        std::size_t n = 0;
        ASSERT_TRUE(eventually([&] { return (n = b.port.receive(some)) != 0; })) << expected;
        for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(number_in(some[i]), expected++);
        b.port.release({some, n});
      }
    }
    const PortCounters c = b.port.counters();
    EXPECT_EQ(c.rx_dropped_no_fill + c.rx_dropped_ring_full + c.rx_dropped_invalid, 0u);
  }
}

TEST_F(GrantedTest, KeptFramesStayAsTheyAreAndDoNotStarveTheOthers) {
  Host one("v0"), two("v1");
  Program a(one), b(two);
  std::vector<Frame> kept;
  std::uint64_t number = 0;
  for (; kept.size() < b.port.lendable(); ++number) {
    ASSERT_NO_FATAL_FAILURE(send_one(a.port, b.port.address(), a.port.address(), 200, number));
    kept.emplace_back();
    ASSERT_TRUE(eventually([&] { return b.port.receive({&kept.back(), 1}) == 1; }));
  }
  for (const std::uint64_t end = number + 3000; number < end; ++number) {
    ASSERT_NO_FATAL_FAILURE(send_one(a.port, b.port.address(), a.port.address(), 64, number));
    ASSERT_EQ(next(b.port), number);
  }
  for (std::size_t i = 0; i < kept.size(); ++i) ASSERT_EQ(number_in(kept[i]), i);
  b.port.release(kept);
  EXPECT_EQ(b.port.counters().rx_dropped_no_fill, 0u);
}

TEST_F(GrantedTest, ReservedBuffersRunOutAndComeBack) {
  Host one("v0");
  Program a(one, 256 << 10);
  GrantedPort& port = a.port;
  for (int round = 0; round < 3; ++round) {
    std::vector<Frame> all(1000);
    all.resize(port.reserve(all));
    EXPECT_EQ(all.size(), a.grant->layout().send);
    for (Frame& frame : all) write(frame, kV1, port.address(), 64, 1);
    if (round == 1) {
      port.cancel(all);
    } else {
      port.submit(all);
      port.flush();
    }
  }
  EXPECT_GE(port.counters().tx_no_buffer, 3u);
  EXPECT_EQ(port.counters().tx_frames, 2u * a.grant->layout().send);
}

TEST_F(GrantedTest, WhatTheBorrowerHasNotGotItCannotGiveBack) {
  Host one("v0");
  Program a(one, 64 << 10);
  GrantedPort& port = a.port;
  // Would write behind the lists, if it were believed.
  for (int i = 0; i < 100'000; ++i) {
    const Frame wrong{nullptr, 64, static_cast<std::uint32_t>(i % 40)};
    const Frame mad{nullptr, 64, 0x7fffffff};
    port.release({&wrong, 1});
    port.cancel({&wrong, 1});
    port.submit({&mad, 1});
    port.release({&mad, 1});
  }
  std::vector<Frame> all(1000);
  EXPECT_EQ(port.reserve(all), a.grant->layout().send);
}

TEST_F(GrantedTest, TheDescriptorTellsThatAFrameIsThere) {
  Host one("v0"), two("v1");
  Program a(one), b(two);
  pollfd state{b.port.descriptor(), POLLIN, 0};
  EXPECT_EQ(poll(&state, 1, 0), 0);
  ASSERT_NO_FATAL_FAILURE(send_one(a.port, b.port.address(), a.port.address(), 64, 1));
  EXPECT_EQ(poll(&state, 1, 10'000), 1);
}

TEST_F(GrantedTest, ALayoutThatMakesNoSenseIsRefused) {
  Host one("v0");
  Program a(one);
  for (const int what : {0, 1, 2, 3, 4}) {
    GrantedLayout layout = a.grant->layout();
    if (what == 0) layout.chunk = 1000;
    if (what == 1) layout.ring = 1000;
    if (what == 2) layout.receive *= 2;
    if (what == 3) layout.send = 0;
    if (what == 4) layout.mtu = 9000;
    GrantedPort port;
    EXPECT_NE(port.open(dup(a.grant->socket()), dup(a.grant->umem()), layout), nullptr) << what;
    EXPECT_EQ(port.descriptor(), -1);
    Frame frame;
    EXPECT_EQ(port.receive({&frame, 1}), 0u);
    EXPECT_EQ(port.reserve({&frame, 1}), 0u);
    port.flush();
    port.counters();
  }
}

// ---------------------------------------------------------------------------- protection

TEST_F(GrantedTest, WhatIsNotTheProgramsOwnDoesNotLeaveTheHost) {
  // Frames of the kernel's own would be counted, too.
  run("for each in v0 v1; do echo 1 >/proc/sys/net/ipv6/conf/$each/disable_ipv6; done 2>/dev/null || true");
  Host one("v0"), two("v1");
  Program a(one), b(two);
  const auto to = b.port.address(), own = a.port.address();
  const std::uint32_t all = query_interface("v1").mtu + 14;
  const auto seen = [] { return frames_of("v1").received; };  // by the other end of the link
  const std::uint64_t before = seen();
  MacAddress near = own;
  near[0] ^= 4;
  for (const MacAddress& from : {kV0, kV1, to, near, kBroadcast, MacAddress{}}) {
    ASSERT_NO_FATAL_FAILURE(send_one(a.port, to, from, 64, 1));
  }
  EXPECT_EQ(a.grant->counts().forged_source, 6u);
  constexpr std::uint16_t kOthers[] = {0x0800, 0x86dd, 0x0806, 0x88b6, 0x8100};
  for (const std::uint16_t type : kOthers) {
    ASSERT_NO_FATAL_FAILURE(send_one(a.port, to, own, 64, 1, 1, type));
  }
  EXPECT_EQ(a.grant->counts().wrong_type, 5u);
  ASSERT_NO_FATAL_FAILURE(send_one(a.port, to, own, all + 1, 1));
  EXPECT_EQ(a.grant->counts().too_long, 1u);
  ASSERT_NO_FATAL_FAILURE(send_one(a.port, to, own, 64, 1, 3));
  ASSERT_NO_FATAL_FAILURE(send_one(a.port, to, own, 64, 1, 14));
  ASSERT_NO_FATAL_FAILURE(send_one(a.port, to, own, 64, 1, 15));
  ASSERT_NO_FATAL_FAILURE(send_one(a.port, kBroadcast, own, 64, 1));
  ASSERT_NO_FATAL_FAILURE(send_one(a.port, to, own, 15, 1));  // so short that it has no type
  EXPECT_EQ(a.grant->counts().forbidden, 5u);
  EXPECT_EQ(a.grant->counts().passed, 0u);
  EXPECT_EQ(seen(), before);
  ASSERT_NO_FATAL_FAILURE(send_one(a.port, to, own, all, 77));
  EXPECT_EQ(next(b.port, all), 77u);
  EXPECT_EQ(seen(), before + 1);
  EXPECT_TRUE(is_silent(b.port));
}

TEST_F(GrantedTest, AConnectionRequestSaysWhichHostItComesFrom) {
  constexpr auto kAt = static_cast<std::uint32_t>(wire::kEthernetBytes + wire::kHeaderBytes);
  static_assert(kAt == kConnectHostAt);
  Host one("v0"), two("v1");
  Program a(one), b(two);
  constexpr std::uint8_t kTypes[] = {1, 4, 5, 6};
  for (const std::uint8_t type : kTypes) {
    for (const bool honest : {true, false}) {
      Frame frame;
      ASSERT_EQ(a.port.reserve({&frame, 1}), 1u);
      write(frame, b.port.address(), a.port.address(), 120, type, type);
      MacAddress host = kV0;
      if (!honest) host[5] ^= 1;
      std::memcpy(frame.data + kAt, host.data(), host.size());
      a.port.submit({&frame, 1});
      a.port.flush();
      if (honest || type == 1 || type == 6) {
        EXPECT_EQ(next(b.port, 120), type);
      } else {
        EXPECT_TRUE(is_silent(b.port));
      }
    }
  }
  ASSERT_NO_FATAL_FAILURE(send_one(a.port, b.port.address(), a.port.address(), kAt + 5, 4, 4));
  EXPECT_EQ(a.grant->counts().forbidden, 3u);  // one was cut off
}

TEST_F(GrantedTest, OtherTrafficPassesTheFilter) {
  Host one("v0"), two("v1");
  const auto va = open("v0", PortKind::kXdpGeneric), vb = open("v1", PortKind::kXdpGeneric);
  Program a(one), b(two);
  ASSERT_TRUE(send(*va, kV1, 64, 5));
  Frame frame;
  ASSERT_TRUE(receive(*vb, frame));
  EXPECT_TRUE(is_right(frame, 64, 5));
  vb->release({&frame, 1});
  for (const std::uint32_t mark : {0x0u, 0x5648ffffu, 0x564a0000u, 0xffffffffu}) {
    ASSERT_TRUE(send_packet(one.lower, mark, kV1, 7));
    EXPECT_EQ(next(*vb), 7u) << mark;
  }
  EXPECT_FALSE(send_packet(one.lower, 0x56490000, kV1, 8));
  EXPECT_TRUE(is_silent(*vb));
  EXPECT_EQ(one.filter.counts().passed, 0u);
  // A mark of the range that no program has been given.
  Program other(one);
  GrantedPort& port = other.port;
  const int mark = 0x56490000 + 1023;
  ASSERT_EQ(setsockopt(port.descriptor(), SOL_SOCKET, SO_MARK, &mark, sizeof mark), 0);
  ASSERT_NO_FATAL_FAILURE(send_one(port, kV1, port.address(), 64, 6));
  ASSERT_NO_FATAL_FAILURE(send_one(port, kV1, MacAddress{}, 64, 6));
  EXPECT_TRUE(is_silent(*vb));
}

TEST_F(GrantedTest, FramesOfOthersAreNotSeen) {
  Host one("v0"), two("v1");
  auto vb = open("v1", PortKind::kXdpGeneric);
  const auto va = open("v0", PortKind::kXdpGeneric);
  Program a(one), b(two), c(two);
  for (std::uint64_t number = 1; number <= 20; ++number) {
    ASSERT_NO_FATAL_FAILURE(send_one(a.port, b.port.address(), a.port.address(), 64, number));
    ASSERT_NO_FATAL_FAILURE(send_one(a.port, kV1, a.port.address(), 64, number));
    ASSERT_TRUE(send(*va, kBroadcast, 64, number));
  }
  EXPECT_TRUE(is_silent(c.port));
  for (std::uint64_t number = 1; number <= 20; ++number) EXPECT_EQ(next(b.port), number);
  EXPECT_TRUE(is_silent(b.port));
  // The agent's port has taken the broadcasts; without it they come to every child.
  vb.reset();
  ASSERT_TRUE(send(*va, kBroadcast, 64, 21));
  EXPECT_TRUE(is_silent(b.port));
  EXPECT_TRUE(is_silent(c.port));
  // And no program gets frames of other protocols than ours, even at the right address.
  ASSERT_TRUE(send(*va, b.port.address(), 64, 1, 0x88b6));
  EXPECT_TRUE(is_silent(b.port));
}

// The rights of a program without any privilege on its port. Returns the number of the first thing that it should not
// be able to do, or should be and is not; 0 if all is well.
int unprivileged_program(const Grant& grant, const MacAddress& to) {
  if (setgroups(0, nullptr) != 0 || setresgid(65534, 65534, 65534) != 0 ||
      setresuid(65534, 65534, 65534) != 0) {
    return 1;
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct caps[2];
  if (syscall(SYS_capget, &header, caps) != 0) return 2;
  if ((caps[0].effective | caps[1].effective | caps[0].permitted | caps[1].permitted) != 0)
    return 3;

  GrantedPort port;
  if (port.open(dup(grant.socket()), dup(grant.umem()), grant.layout()) != nullptr) return 4;
  const auto say = [&](const MacAddress& from, std::uint32_t bytes, std::uint8_t type,
                       std::uint16_t ether_type) {
    Frame frame;
    if (port.reserve({&frame, 1}) != 1) return;
    std::memset(frame.data, 0, bytes);
    std::memcpy(frame.data, to.data(), 6);
    std::memcpy(frame.data + 6, from.data(), 6);
    wire::store16(frame.data + 12, ether_type);
    frame.data[15] = std::byte{type};
    frame.length = bytes;
    port.submit({&frame, 1});
    port.flush();
  };
  say(kV0, 64, 1, 0x88b5);
  say(port.address(), 64, 1, 0x0800);
  say(port.address(), 64, 15, 0x88b5);
  say(port.address(), 1515, 1, 0x88b5);
  for (const int mark : {0, 1, 0x56490000, 0x56490001}) {
    if (setsockopt(port.descriptor(), SOL_SOCKET, SO_MARK, &mark, sizeof mark) == 0) return 5;
    if (errno != EPERM) return 6;
  }
  say(kV0, 64, 1, 0x88b5);
  if (ftruncate(grant.umem(), 4096) == 0) return 7;
  if (fcntl(grant.umem(), F_ADD_SEALS, F_SEAL_WRITE) == 0) return 8;
  if (socket(AF_XDP, SOCK_RAW, 0) >= 0) return 9;
  say(port.address(), 64, 1, 0x88b5);
  // The answer.
  for (int i = 0; i < 10'000; ++i) {
    Frame frame;
    if (port.receive({&frame, 1}) == 1) return 0;
    usleep(1000);
  }
  return 10;
}

TEST_F(GrantedTest, AProgramWithoutPrivilegeCanUseItsPortAndNoMore) {
  Host one("v0"), two("v1");
  const auto grant = one.grant();
  Program b(two);
  const pid_t child = fork();
  if (child == 0) _exit(unprivileged_program(*grant, b.port.address()));
  Frame frame;
  ASSERT_TRUE(eventually([&] { return b.port.receive({&frame, 1}) == 1; }));
  MacAddress source;
  std::memcpy(source.data(), frame.data + 6, source.size());
  EXPECT_EQ(source, grant->address());
  b.port.release({&frame, 1});
  send_one(b.port, grant->address(), b.port.address(), 64, 1);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(is_silent(b.port));
  const GrantFilter::Counts counts = grant->counts();
  EXPECT_EQ(counts.passed, 1u);
  EXPECT_EQ(counts.forged_source, 2u);
  EXPECT_EQ(counts.wrong_type, 1u);
  EXPECT_EQ(counts.forbidden, 1u);
  EXPECT_EQ(counts.too_long, 1u);
}

TEST_F(GrantedTest, ACopyOfTheSocketIsOfNoUseOnceTheGrantIsGone) {
  Host one("v0"), two("v1");
  Program a(one), b(two);
  const MacAddress from = a.port.address();
  a.grant.reset();
  // At once, while the kernel is still at deleting the interface.
  ASSERT_NO_FATAL_FAILURE(send_one(a.port, b.port.address(), from, 64, 1));
  const auto again = one.grant();
  ASSERT_NO_FATAL_FAILURE(send_one(a.port, b.port.address(), from, 64, 1));
  ASSERT_NO_FATAL_FAILURE(send_one(a.port, b.port.address(), again->address(), 64, 1));
  EXPECT_TRUE(is_silent(b.port));
  EXPECT_TRUE(is_silent(a.port));
}

// The agent dies; its programs do not, nor do they get any further.
TEST_F(GrantedTest, TheFilterOutlivesTheAgentAndGoesWithTheRemains) {
  const auto vb = open("v1", PortKind::kXdpGeneric);
  Host two("v1");
  Program b(two);
  int alive[2];
  ASSERT_EQ(pipe(alive), 0);
  const pid_t agent = fork();
  if (agent == 0) {
    Host one("v0");
    const auto grant = one.grant();
    if (fork() == 0) {
      ::close(alive[1]);
      char byte;
      while (read(alive[0], &byte, 1) > 0) {
      }
      GrantedPort port;
      open_port(port, *grant);
      send_one(port, b.port.address(), kV0, 64, 1);
      send_one(port, b.port.address(), port.address(), 64, 2);
      _exit(0);
    }
    _exit(0);  // without any destructor, as if killed
  }
  ::close(alive[1]);
  waitpid(agent, nullptr, 0);
  EXPECT_EQ(next(b.port), 2u);
  const Interface lower = query_interface("v0");
  const std::string left = child_name(lower, 0);
  EXPECT_TRUE(exists(left));
  EXPECT_TRUE(exists(b.grant->name()));
  EXPECT_EQ(remove_remains(lower), 1u);
  EXPECT_FALSE(exists(left));
  EXPECT_TRUE(exists(b.grant->name())) << "a child of another interface";
  // Nothing of the old filter: a frame with its mark goes where it likes.
  ASSERT_TRUE(send_packet(lower, 0x56490000, kV1, 9));
  EXPECT_EQ(next(*vb), 9u);
  ::close(alive[0]);
}

TEST_F(GrantedTest, OnlyOurOwnRemainsAreRemoved) {
  const Interface lower = query_interface("v0");
  const std::string prefix = "vdg" + std::to_string(lower.index) + ".";
  const auto child = [&](const std::string& name, const std::string& alias) {
    run("ip link add link v0 name " + name + " type macvlan && ip link set " + name + " alias '" +
        alias + "'");
  };
  child(prefix + "0", kChildAlias);
  child(prefix + "7", kChildAlias);
  child(prefix + "8", "mine");
  child("other0", kChildAlias);
  run("ip link add link v1 name " + prefix + "9 type macvlan && ip link set " + prefix +
      "9 alias '" + kChildAlias + "'");
  EXPECT_EQ(remove_remains(lower), 2u);
  EXPECT_FALSE(exists(prefix + "0"));
  EXPECT_FALSE(exists(prefix + "7"));
  EXPECT_TRUE(exists(prefix + "8"));
  EXPECT_TRUE(exists("other0"));
  EXPECT_TRUE(exists(prefix + "9"));
}

TEST_F(GrantedTest, AGrantLeavesNothingBehind) {
  auto host = std::make_unique<Host>("v0");
  Program a(*host);
  const std::string name = a.grant->name();
  EXPECT_TRUE(exists(name));
  EXPECT_TRUE(has_program(name));
  run("test \"$(ip -o link show dev " + name + " | grep -c 'alias viaduct granted port')\" = 1");
  GrantedPort& port = a.port;
  ASSERT_NO_FATAL_FAILURE(send_one(port, kV1, port.address(), 64, 1));
  a.grant.reset();
  EXPECT_TRUE(eventually([&] { return !exists(name); }));
  EXPECT_EQ(host->filter.counts().passed, 1u);
  auto next = host->grant();
  EXPECT_NE(next->name(), name);
  EXPECT_NE(next->address(), port.address());
  EXPECT_EQ(next->counts().passed, 0u);
  // Numbers come again only when all others have been used, and then they count from the start.
  for (int i = 2; i < 1024; ++i) host->filter.remove(host->filter.add());
  auto again = host->grant();
  EXPECT_EQ(again->name(), name);
  EXPECT_EQ(again->counts().passed, 0u);
  const std::string last = next->name();
  next.reset();
  again.reset();
  host.reset();
  EXPECT_FALSE(exists(last));
}

TEST_F(GrantedTest, TheKernelSendsNothingOfItsOwnFromAChild) {
  Host one("v0");
  Program a(one);
  usleep(1'200'000);  // duplicate address detection and the like would have begun
  run("test \"$(ip -6 -o addr show dev " + a.grant->name() + " | wc -l)\" = 0");
  EXPECT_EQ(frames_of(a.grant->name()).sent, 0u);
}

TEST_F(GrantedTest, RunningOutOfChildrenIsAnError) {
  EXPECT_THROW(Host("lo"), PortError);
  Host one("v0");
  Grant::Options options{one.filter};
  options.umem_bytes = 4096;
  EXPECT_THROW(Grant{options}, PortError);
  run("ip link del v0");
  EXPECT_THROW(one.grant(), PortError);
}

// ---------------------------------------------------------------------------- one host

TEST_F(GrantedTest, TwoProgramsOfOneHostReachEachOtherThroughTheFilter) {
  Host one("v0");
  Program a(one), b(one);
  for (std::uint64_t number = 1; number <= 1000; ++number) {
    ASSERT_NO_FATAL_FAILURE(send_one(a.port, b.port.address(), a.port.address(), 64, number));
    ASSERT_EQ(next(b.port), number);
    ASSERT_NO_FATAL_FAILURE(send_one(b.port, a.port.address(), b.port.address(), 64, number));
    ASSERT_EQ(next(a.port), number);
  }
  ASSERT_NO_FATAL_FAILURE(send_one(a.port, b.port.address(), kV0, 64, 1));
  ASSERT_NO_FATAL_FAILURE(send_one(a.port, b.port.address(), b.port.address(), 64, 1));
  ASSERT_NO_FATAL_FAILURE(send_one(a.port, b.port.address(), a.port.address(), 64, 1, 15));
  ASSERT_NO_FATAL_FAILURE(send_one(a.port, b.port.address(), a.port.address(), 64, 1, 1, 0x0800));
  EXPECT_TRUE(is_silent(b.port));
  EXPECT_EQ(a.grant->counts().passed, 1000u);
  EXPECT_EQ(a.grant->counts().forged_source, 2u);
}

TEST_F(GrantedTest, TheAgentSpeaksForADeadProgram) {
  Host one("v0"), two("v1");
  Program a(one), b(one), c(two);
  std::byte bytes[64];
  Frame frame{bytes, 64, 0};
  for (GrantedPort* peer : {&b.port, &c.port}) {
    write(frame, peer->address(), a.grant->address(), 64, 9, 9);
    ASSERT_TRUE(a.grant->say(bytes));
    EXPECT_EQ(next(*peer), 9u);
  }
}

class HostPortTest : public GrantedTest {
 protected:
  void open_agent(PortKind kind = PortKind::kXdpGeneric) {
    agent_ = std::make_unique<HostPort>(open("v0", kind));
  }
  void open_relay() {
    agent_->open_relay(
        std::make_unique<MacvlanRelay>(host_->filter, 0x88b5, agent_->lendable()));
  }
  void TearDown() override {
    agent_.reset();
    host_.reset();
    GrantedTest::TearDown();
  }
  std::unique_ptr<Host> host_;  // outlives the relay
  std::unique_ptr<HostPort> agent_;
};

TEST_F(HostPortTest, ReachesAGrantedProgramAndBack) {
  open_agent();
  host_ = std::make_unique<Host>("v0");
  EXPECT_FALSE(agent_->has_relay());
  open_relay();
  ASSERT_TRUE(agent_->has_relay());
  Program a(*host_), b(*host_);
  agent_->add(a.grant->address());
  for (std::uint64_t number = 1; number <= 500; ++number) {
    ASSERT_NO_FATAL_FAILURE(send_one(*agent_, a.port.address(), kV0, 64, number));
    Frame frame;
    ASSERT_TRUE(eventually([&] { return a.port.receive({&frame, 1}) == 1; }));
    ASSERT_EQ(number_in(frame), number);
    ASSERT_EQ(std::memcmp(frame.data + 6, agent_->relay().data(), 6), 0);
    a.port.release({&frame, 1});
    ASSERT_NO_FATAL_FAILURE(send_one(a.port, agent_->relay(), a.port.address(), 64, number));
    pollfd state{agent_->descriptor(), POLLIN, 0};
    ASSERT_EQ(poll(&state, 1, 10'000), 1);
    ASSERT_TRUE(receive(*agent_, frame));
    ASSERT_EQ(number_in(frame), number);
    ASSERT_EQ(std::memcmp(frame.data, kV0.data(), 6), 0);
    ASSERT_EQ(std::memcmp(frame.data + 6, a.port.address().data(), 6), 0);
    agent_->release({&frame, 1});
  }
  agent_->remove(a.grant->address());
  ASSERT_NO_FATAL_FAILURE(
      send_one(*agent_, a.port.address(), kV0, 64, 1));  // to the wire, to no program
  EXPECT_TRUE(is_silent(a.port));
}

TEST_F(HostPortTest, ReachesTheWireAsBefore) {
  open_agent();
  host_ = std::make_unique<Host>("v0");
  const auto peer = open("v1", PortKind::kXdpGeneric);
  for (const bool relay : {false, true}) {
    if (relay) open_relay();
    Program a(*host_);
    agent_->add(a.grant->address());
    for (std::uint64_t number = 1; number <= 100; ++number) {
      ASSERT_NO_FATAL_FAILURE(send_one(*agent_, kV1, kV0, 64, number));
      ASSERT_EQ(next(*peer), number);
      ASSERT_NO_FATAL_FAILURE(send_one(*peer, kV0, kV1, 64, number));
      pollfd state{agent_->descriptor(), POLLIN, 0};
      ASSERT_EQ(poll(&state, 1, 10'000), 1);
      ASSERT_EQ(next(*agent_), number);
      ASSERT_NO_FATAL_FAILURE(send_one(*agent_, kV0, kV0, 64, number));  // to itself
      ASSERT_EQ(next(*agent_), number);
    }
    agent_->remove(a.grant->address());
  }
  EXPECT_EQ(host_->filter.counts().passed, 0u);
}

TEST_F(HostPortTest, KeptFramesOfTheRelayAreGivenBackToIt) {
  open_agent();
  host_ = std::make_unique<Host>("v0");
  open_relay();
  Program a(*host_);
  const auto peer = open("v1", PortKind::kXdpGeneric);
  std::uint64_t number = 0;
  for (int round = 0; round < 5; ++round) {
    std::vector<Frame> kept;
    while (kept.size() < agent_->lendable()) {
      ++number;
      if (number % 2 == 0) {
        ASSERT_NO_FATAL_FAILURE(send_one(a.port, agent_->relay(), a.port.address(), 64, number));
      } else {
        ASSERT_NO_FATAL_FAILURE(send_one(*peer, kV0, kV1, 64, number));
      }
      kept.emplace_back();
      ASSERT_TRUE(receive(*agent_, kept.back()));
      ASSERT_EQ(number_in(kept.back()), number);
    }
    for (std::size_t i = 0; i < kept.size(); ++i) {
      ASSERT_EQ(number_in(kept[i]), number - kept.size() + 1 + i);
    }
    agent_->release(kept);
  }
  const PortCounters c = agent_->counters();
  EXPECT_EQ(c.rx_frames, number);
  EXPECT_EQ(c.rx_dropped_no_fill + c.rx_dropped_invalid, 0u);
}

TEST_F(HostPortTest, WorksOverEveryKindOfPort) {
  for (const PortKind kind : {PortKind::kXdpNative, PortKind::kPcap}) {
    open_agent(kind);
    host_.reset();
    host_ = std::make_unique<Host>("v0");
    open_relay();
    Program a(*host_);
    agent_->add(a.grant->address());
    ASSERT_NO_FATAL_FAILURE(send_one(*agent_, a.port.address(), kV0, 64, 3));
    ASSERT_EQ(next(a.port), 3u);
    ASSERT_NO_FATAL_FAILURE(send_one(a.port, agent_->relay(), a.port.address(), 64, 4));
    ASSERT_EQ(next(*agent_), 4u);
    agent_.reset();
  }
}

}  // namespace
}  // namespace viaduct
