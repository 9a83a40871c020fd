// Frames of several chunks on real interfaces. Root only; skipped otherwise.
#include <dlfcn.h>
#include <linux/bpf.h>
#include <linux/if_xdp.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cstdarg>

#include "tests/unit/xdp/fixture.h"
#include "xdp/port_error.h"
#include "xdp/xsk/chunk.h"
#include "xdp/grant/grant.h"
#include "xdp/grant/granted_port.h"
#include "xdp/grant/macvlan_relay.h"
#include "xdp/host_port.h"
#include "xdp/interface.h"
#include "xdp/port_error.h"

#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4)
#endif

namespace {

// True: refuse as a kernel or a driver without such frames does.
bool refuse_sockets = false;
bool refuse_programs = false;
int asked_for_parts = 0;

}  // namespace

// In front of the C library's.
extern "C" [[gnu::visibility("default")]] int bind(int fd, const sockaddr* address,
                                                   socklen_t bytes) noexcept {
  if (address->sa_family == AF_XDP &&
      (reinterpret_cast<const sockaddr_xdp*>(address)->sxdp_flags & XDP_USE_SG) != 0) {
    ++asked_for_parts;
    if (refuse_sockets) {
      errno = EOPNOTSUPP;
      return -1;
    }
  }
  static const auto real =
      reinterpret_cast<int (*)(int, const sockaddr*, socklen_t)>(dlsym(RTLD_NEXT, "bind"));
  return real(fd, address, bytes);
}

extern "C" [[gnu::visibility("default")]] long syscall(long number, ...) noexcept {
  va_list rest;
  va_start(rest, number);
  long a[6];
  for (long& each : a) each = va_arg(rest, long);
  va_end(rest);
  if (number == SYS_bpf && a[0] == BPF_PROG_LOAD && refuse_programs &&
      (reinterpret_cast<const bpf_attr*>(a[1])->prog_flags & BPF_F_XDP_HAS_FRAGS) != 0) {
    errno = EINVAL;
    return -1;
  }
  static const auto real = reinterpret_cast<long (*)(long, ...)>(dlsym(RTLD_NEXT, "syscall"));
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

namespace viaduct {
namespace {

constexpr MacAddress kV0{2, 0, 0, 0, 0, 1}, kV1{2, 0, 0, 0, 0, 2};
constexpr std::uint32_t kOneChunk = 4096 - 256 - 18;

// ---------------------------------------------------------------------------- the agent's port

class JumboTest : public VethTest {
 protected:
  void SetUp() override {
    refuse_sockets = refuse_programs = false;
    asked_for_parts = 0;
    VethTest::SetUp();
    if (IsSkipped()) return;
    make_pair("mtu 9000");
  }
  void TearDown() override {
    refuse_sockets = refuse_programs = false;
    VethTest::TearDown();
  }

  unsigned notes_with(const std::string& text) const {
    unsigned n = 0;
    for (std::size_t at = 0; (at = notes_.find(text, at)) != std::string::npos; ++at) ++n;
    return n;
  }

  static void expect_frame(Port& from, Port& to, std::uint32_t bytes, std::uint64_t number) {
    ASSERT_TRUE(send(from, to.address(), bytes, number));
    Frame frame;
    ASSERT_TRUE(receive(to, frame)) << bytes;
    EXPECT_TRUE(is_right(frame, bytes, number)) << bytes;
    to.release({&frame, 1});
  }
};

class JumboPortTest : public JumboTest, public ::testing::WithParamInterface<PortKind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, JumboPortTest,
                         ::testing::Values(PortKind::kXdpNative, PortKind::kXdpGeneric),
                         [](const auto& info) {
                           return info.param == PortKind::kXdpNative ? "Native" : "Generic";
                         });

TEST_P(JumboPortTest, FramesOfEverySizeArriveWholeInBothDirections) {
  const auto a = open("v0", GetParam()), b = open("v1", GetParam());
  ASSERT_EQ(a->mtu(), 9000u);
  EXPECT_EQ(notes_.find("not 9000"), std::string::npos) << notes_;
  EXPECT_EQ(asked_for_parts, 2);
  std::uint64_t number = 0;
  for (const std::uint32_t bytes : {60u, 1514u, 3839u, 3840u, 3841u, 4095u, 4096u, 4097u, 7679u,
                                    7680u, 7681u, 8192u, 8193u, 9013u, 9014u}) {
    ASSERT_NO_FATAL_FAILURE(expect_frame(*a, *b, bytes, ++number));
    ASSERT_NO_FATAL_FAILURE(expect_frame(*b, *a, bytes, ++number));
  }
  const PortCounters c = a->counters();
  EXPECT_EQ(c.tx_frames, 15u);
  EXPECT_EQ(c.rx_frames, 15u);
  EXPECT_EQ(c.rx_bytes, c.tx_bytes);
}

TEST_P(JumboPortTest, LongAndShortFramesArriveInOrder) {
  const auto a = open("v0", GetParam()), b = open("v1", GetParam());
  constexpr std::uint64_t kFrames = 6000;
  const auto size = [](std::uint64_t n) {
    return static_cast<std::uint32_t>(n % 5 == 0 ? 9014 : 60 + n * 7919 % 8955);
  };
  std::uint64_t sent = 0, expected = 0;
  ASSERT_TRUE(eventually([&] {
    while (sent < kFrames && sent - expected < 64) {
      Frame frame;
      if (a->reserve({&frame, 1}) != 1) break;
      write_frame(frame, kV1, kV0, size(sent), sent);
      ++sent;
      a->submit({&frame, 1});
    }
    a->flush();
    Frame frames[7];
    const std::size_t n = b->receive(frames);
    for (std::size_t i = 0; i < n; ++i, ++expected) {
      EXPECT_TRUE(is_right(frames[i], size(expected), expected)) << expected;
    }
    b->release({frames, n});
    return expected == kFrames;
  })) << expected;
}

TEST_P(JumboPortTest, KeptFramesStayAsTheyAreAndDoNotStarveTheOthers) {
  const auto a = open("v0", GetParam(), 1024, 256), b = open("v1", GetParam(), 1024, 256);
  std::vector<Frame> kept;
  std::uint64_t number = 0;
  for (; kept.size() < b->lendable(); ++number) {
    ASSERT_TRUE(send(*a, kV1, number % 2 ? 9014 : 200, number));
    kept.emplace_back();
    ASSERT_TRUE(receive(*b, kept.back())) << number;
  }
  for (const std::uint64_t end = number + 2000; number < end; ++number) {
    ASSERT_NO_FATAL_FAILURE(expect_frame(*a, *b, number % 3 ? 9014 : 64, number));
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    ASSERT_TRUE(is_right(kept[i], i % 2 ? 9014 : 200, i)) << i;
  }
  b->release(kept);
}

TEST_P(JumboPortTest, ReservedBuffersRunOutAndComeBack) {
  const auto a = open("v0", GetParam(), 1024, 256);
  for (int round = 0; round < 4; ++round) {
    std::vector<Frame> all;
    Frame some[100];
    for (std::size_t n; (n = a->reserve(some)) != 0;) all.insert(all.end(), some, some + n);
    ASSERT_EQ(all.size(), 256u / 3);
    for (Frame& frame : all) {
      ASSERT_GE(frame.length, 9014u);
      write_frame(frame, kV1, kV0, round % 2 ? 9014 : 64, 5);
    }
    if (round == 1) {
      a->cancel(all);
      continue;
    }
    a->submit(all);
    a->flush();
    ASSERT_TRUE(eventually([&] {
      a->flush();
      Frame frame;
      if (a->reserve({&frame, 1}) != 1) return false;
      a->cancel({&frame, 1});
      return true;
    }));
  }
}

TEST_P(JumboPortTest, AFrameThatIsTooLongIsLostAndCounted) {
  make_pair("mtu 4500");
  const auto a = open("v0", GetParam());
  ASSERT_EQ(a->mtu(), 4500u);
  run("ip link set v0 mtu 9000 && ip link set v1 mtu 9000");
  const auto b = open("v1", GetParam());
  ASSERT_EQ(b->mtu(), 9000u);
  for (std::uint64_t n = 0; n < 3000; ++n) {
    ASSERT_TRUE(send(*b, kV0, 9014, n));
    // Nothing is lost but these.
    if (n % 100 != 0) continue;
    ASSERT_NO_FATAL_FAILURE(expect_frame(*b, *a, 4514, n));
  }
  ASSERT_TRUE(eventually([&] {
    Frame frame;
    EXPECT_EQ(a->receive({&frame, 1}), 0u);
    return a->counters().rx_dropped_invalid == 3000;
  })) << a->counters().rx_dropped_invalid;
}

// (veth has no native mode where only one end is long.)
TEST_F(JumboTest, APeerOfAnotherMtuGetsWhatItCanTake) {
  run("ip link set v1 mtu 1500");
  const auto a = open("v0", PortKind::kXdpGeneric), b = open("v1", PortKind::kXdpGeneric);
  EXPECT_EQ(b->mtu(), 1500u);
  EXPECT_EQ(asked_for_parts, 1);
  ASSERT_NO_FATAL_FAILURE(expect_frame(*a, *b, 1514, 1));
  ASSERT_NO_FATAL_FAILURE(expect_frame(*b, *a, 1514, 2));
}

TEST_P(JumboPortTest, WhereSocketsAreRefusedFramesAreOfOneChunk) {
  refuse_sockets = true;
  const auto a = open("v0", GetParam());
  EXPECT_EQ(a->mtu(), kOneChunk);
  EXPECT_EQ(notes_with("Operation not supported"), 1u) << notes_;
  EXPECT_EQ(notes_with("not 9000"), 1u) << notes_;
  const auto b = open("v1", GetParam());
  ASSERT_NO_FATAL_FAILURE(expect_frame(*a, *b, kOneChunk + 14, 1));
  ASSERT_NO_FATAL_FAILURE(expect_frame(*b, *a, kOneChunk + 14, 2));
}

TEST_P(JumboPortTest, NothingChangesBelow) {
  for (const char* mtu : {"mtu 1500", "mtu 3498", "mtu 3822"}) {
    make_pair(mtu);
    refuse_sockets = true;
    const auto a = open("v0", GetParam()), b = open("v1", GetParam());
    EXPECT_EQ(asked_for_parts, 0) << mtu;
    EXPECT_EQ("mtu " + std::to_string(a->mtu()), mtu);
    ASSERT_NO_FATAL_FAILURE(expect_frame(*a, *b, a->mtu() + 14, 1));
  }
}

TEST_F(JumboTest, WhereProgramsAreRefusedFramesAreOfOneChunk) {
  refuse_programs = true;
  const auto a = open("v0", PortKind::kXdpGeneric);
  EXPECT_EQ(a->mtu(), kOneChunk);
  EXPECT_EQ(asked_for_parts, 0);
  EXPECT_EQ(notes_with("several chunks"), 1u) << notes_;
  EXPECT_EQ(notes_with("not 9000"), 1u) << notes_;
  const auto b = open("v1", PortKind::kXdpGeneric);
  ASSERT_NO_FATAL_FAILURE(expect_frame(*a, *b, kOneChunk + 14, 1));
}

TEST_F(JumboTest, ThereIsALimit) {
  make_pair("mtu 60000");
  const auto a = open("v0", PortKind::kXdpGeneric), b = open("v1", PortKind::kXdpGeneric);
  EXPECT_EQ(a->mtu(), kLongestMtu);
  ASSERT_NO_FATAL_FAILURE(expect_frame(*a, *b, kLongestMtu + 14, 1));
}

// ---------------------------------------------------------------------------- granted ports

class JumboGrantTest : public JumboTest {
 protected:
  struct Program {
    explicit Program(GrantFilter& filter, std::string* notes = nullptr) {
      Grant::Options options{filter};
      options.umem_bytes = 6 << 20;
      if (notes != nullptr) options.note = [notes](std::string_view text) { *notes += text; };
      grant = std::make_unique<Grant>(options);
      EXPECT_STREQ(port.open(dup(grant->socket()), dup(grant->umem()), grant->layout()), nullptr);
    }
    std::unique_ptr<Grant> grant;
    GrantedPort port;
  };

  template <class From, class To>
  static void expect_passed(From& from, To& to, const MacAddress& address, std::uint32_t bytes,
                            std::uint64_t number) {
    Frame frame;
    ASSERT_TRUE(eventually([&] { return from.reserve({&frame, 1}) == 1; }));
    ASSERT_GE(frame.length, bytes);
    // A data frame, as far as the filter looks.
    number |= std::uint64_t{0x0301} << 48;
    write_frame(frame, address, from.address(), bytes, number);
    from.submit({&frame, 1});
    from.flush();
    ASSERT_TRUE(eventually([&] { return to.receive({&frame, 1}) == 1; })) << bytes;
    EXPECT_TRUE(is_right(frame, bytes, number)) << bytes;
    to.release({&frame, 1});
  }
};

TEST_F(JumboGrantTest, FramesPassBetweenHostsAndWithinOne) {
  GrantFilter here(query_interface("v0"), 0x88b5), there(query_interface("v1"), 0x88b5);
  const auto wire = open("v1", PortKind::kXdpGeneric);
  Program a(here), b(here), c(there);
  ASSERT_EQ(a.port.mtu(), 9000u);
  std::uint64_t number = 0;
  for (int round = 0; round < 300; ++round) {
    for (const std::uint32_t bytes : {60u, 3840u, 3841u, 4097u, 9014u}) {
      ASSERT_NO_FATAL_FAILURE(expect_passed(a.port, c.port, c.port.address(), bytes, ++number));
      ASSERT_NO_FATAL_FAILURE(expect_passed(c.port, a.port, a.port.address(), bytes, ++number));
      ASSERT_NO_FATAL_FAILURE(expect_passed(a.port, b.port, b.port.address(), bytes, ++number));
      ASSERT_NO_FATAL_FAILURE(expect_passed(a.port, *wire, wire->address(), bytes, ++number));
    }
  }
  EXPECT_EQ(a.grant->counts().too_long, 0u);
}

TEST_F(JumboGrantTest, TheRelayHasThemToo) {
  GrantFilter filter(query_interface("v0"), 0x88b5);
  HostPort agent(open("v0", PortKind::kXdpGeneric));
  agent.open_relay(std::make_unique<MacvlanRelay>(filter, 0x88b5, agent.lendable()));
  Program a(filter);
  agent.add(a.port.address());
  for (std::uint64_t number = 1; number < 3000; ++number) {
    Frame frame;
    ASSERT_TRUE(eventually([&] { return agent.reserve({&frame, 1}) == 1; }));
    write_frame(frame, a.port.address(), agent.address(), 9014, number);
    agent.submit({&frame, 1});
    agent.flush();
    ASSERT_TRUE(eventually([&] { return a.port.receive({&frame, 1}) == 1; })) << number;
    EXPECT_TRUE(is_right(frame, 9014, number));
    a.port.release({&frame, 1});
    ASSERT_NO_FATAL_FAILURE(expect_passed(a.port, agent, agent.relay(), 9014, number));
  }
}

TEST_F(JumboGrantTest, KeptFramesDoNotStarveTheOthers) {
  GrantFilter here(query_interface("v0"), 0x88b5), there(query_interface("v1"), 0x88b5);
  Program a(here), b(there);
  std::vector<Frame> kept;
  while (kept.size() < b.port.lendable()) {
    Frame frame;
    ASSERT_TRUE(eventually([&] { return a.port.reserve({&frame, 1}) == 1; }));
    write_frame(frame, b.port.address(), a.port.address(), 9014, kept.size());
    frame.data[14] = frame.data[15] = std::byte{1};
    a.port.submit({&frame, 1});
    a.port.flush();
    ASSERT_TRUE(eventually([&] { return b.port.receive({&frame, 1}) == 1; })) << kept.size();
    kept.push_back(frame);
  }
  for (std::uint64_t n = 0; n < 2000; ++n) {
    ASSERT_NO_FATAL_FAILURE(expect_passed(a.port, b.port, b.port.address(), 9014, n));
  }
  b.port.release(kept);
}

TEST_F(JumboGrantTest, WhereTheyAreRefusedFramesAreOfOneChunk) {
  GrantFilter here(query_interface("v0"), 0x88b5), there(query_interface("v1"), 0x88b5);
  std::string notes;
  refuse_sockets = true;
  Program a(here, &notes);
  refuse_sockets = false;
  EXPECT_EQ(a.port.mtu(), kOneChunk);
  EXPECT_NE(notes.find("not 9000"), std::string::npos) << notes;
  notes.clear();
  refuse_programs = true;
  Program b(there, &notes);
  EXPECT_EQ(b.port.mtu(), kOneChunk);
  EXPECT_NE(notes.find("not 9000"), std::string::npos) << notes;
  ASSERT_NO_FATAL_FAILURE(expect_passed(a.port, b.port, b.port.address(), kOneChunk + 14, 1));
}

TEST_F(JumboGrantTest, AnAgentWhoseOwnPortIsRefusedGrantsNone) {
  GrantFilter filter(query_interface("v0"), 0x88b5);
  HostPort agent(open("v0", PortKind::kXdpGeneric));
  refuse_sockets = true;
  EXPECT_THROW(
      agent.open_relay(std::make_unique<MacvlanRelay>(filter, 0x88b5, agent.lendable())), PortError);
  EXPECT_FALSE(agent.has_relay());
}

}  // namespace
}  // namespace viaduct
