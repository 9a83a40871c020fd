// Frames of several chunks: ports on real interfaces, and a queue whose kernel the test plays. Root
// only; skipped otherwise.
#include <dlfcn.h>
#include <linux/bpf.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstdarg>
#include <deque>
#include <random>
#include <set>

#include "tests/unit/xdp_fixture.h"
#include "xdp/chunk.h"
#include "xdp/grant.h"
#include "xdp/granted_port.h"
#include "xdp/interface.h"
#include "xdp/local_port.h"
#include "xdp/xsk_queue.h"
#include "xdp/xsk_socket.h"

#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4)
#endif
#ifndef XDP_PKT_CONTD
#define XDP_PKT_CONTD (1 << 0)
#endif

namespace {

// What a kernel or a driver that knows no such frames would refuse.
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
  static const auto real = reinterpret_cast<int (*)(int, const sockaddr*, socklen_t)>(
      dlsym(RTLD_NEXT, "bind"));
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

TEST_F(JumboGrantTest, TheDeskHasThemToo) {
  GrantFilter filter(query_interface("v0"), 0x88b5);
  LocalPort agent(open("v0", PortKind::kXdpGeneric));
  agent.open_desk(filter, 0x88b5);
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
    ASSERT_NO_FATAL_FAILURE(expect_passed(a.port, agent, agent.desk(), 9014, number));
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
  LocalPort agent(open("v0", PortKind::kXdpGeneric));
  refuse_sockets = true;
  EXPECT_THROW(agent.open_desk(filter, 0x88b5), PortError);
  EXPECT_FALSE(agent.has_desk());
}

// ---------------------------------------------------------------------------- odd input

// A queue on a socket that nobody else sends to or through: the test is its kernel.
class OddPartsTest : public JumboTest {
 protected:
  static constexpr std::uint32_t kChunk = 4096, kRing = 64, kReceive = 32, kSend = 14, kFilled = 16;
  static constexpr std::uint32_t kFrame = 9018, kAssembled = 5;
  static constexpr std::uint32_t kHead = 256;

  void SetUp() override {
    JumboTest::SetUp();
    if (IsSkipped()) return;
    const XskQueue::Shape shape{12, kReceive, kSend, kRing, kFilled, 3, kFrame, kAssembled};
    bytes_ = std::size_t{kChunk} * (kReceive + kSend);
    area_ = static_cast<std::byte*>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                                         MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
    assembly_.resize(XskQueue::assembly_bytes(shape));
    state_.resize(XskQueue::state_bytes(shape) / 4 + 1);
    queue_.set_up(shape, area_, assembly_.data(), state_.data(), counters_);
    attach();
  }
  void TearDown() override {
    if (area_ != nullptr) {
      drop_socket();
      munmap(area_, bytes_);
    }
    JumboTest::TearDown();
  }

  void attach() {
    const char* what = "";
    ASSERT_TRUE(eventually([&] {
      socket_ = open_xsk_socket({static_cast<int>(if_nametoindex("v0")), 0, area_, bytes_, kChunk,
                                 kRing, true, true},
                                what);
      return socket_ >= 0 || errno != EBUSY;
    }));
    ASSERT_GE(socket_, 0) << what;
    ASSERT_STREQ(queue_.attach(socket_), nullptr);
    ASSERT_STREQ(kernel_.map(socket_, kRing), nullptr);
    filled_.clear();
    filled_seen_ = *kernel_.fill.consumer;
    sent_seen_ = *kernel_.transmit.consumer;
  }
  void drop_socket() {
    queue_.detach();
    kernel_.unmap();
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
  }

  // Chunks that the kernel has to receive into.
  std::deque<std::uint64_t>& filled() {
    const std::uint32_t end = __atomic_load_n(kernel_.fill.producer, __ATOMIC_ACQUIRE);
    for (; filled_seen_ != end; ++filled_seen_) {
      filled_.push_back(kernel_.fill.entries[filled_seen_ & (kRing - 1)]);
    }
    __atomic_store_n(kernel_.fill.consumer, filled_seen_, __ATOMIC_RELEASE);
    return filled_;
  }

  void put(std::uint64_t address, std::uint32_t length, bool more) {
    const std::uint32_t at = *kernel_.receive.producer;
    kernel_.receive.entries[at & (kRing - 1)] = {address, length,
                                                 more ? std::uint32_t{XDP_PKT_CONTD} : 0};
    __atomic_store_n(kernel_.receive.producer, at + 1, __ATOMIC_RELEASE);
  }
  // A part of a frame in the next chunk.
  void put_part(std::uint32_t length, bool more, int byte = 0) {
    ASSERT_FALSE(filled().empty());
    const std::uint64_t address = filled_.front() + kHead;
    filled_.pop_front();
    std::memset(area_ + address, byte, length);
    put(address, length, more);
  }

  std::vector<Frame> take(std::size_t most = 8) {
    std::vector<Frame> frames(most);
    frames.resize(queue_.receive(frames));
    return frames;
  }
  bool is_of(const Frame& frame, std::vector<std::pair<std::uint32_t, int>> parts) {
    std::size_t at = 0;
    for (const auto& [length, byte] : parts) {
      for (std::uint32_t i = 0; i < length; ++i, ++at) {
        if (at >= frame.length || frame.data[at] != std::byte(byte)) return false;
      }
    }
    return at == frame.length;
  }

  // Nothing is lost: the kernel has all the chunks that it should have, each once, and as many
  // frames as ever can be received and kept.
  void expect_whole() {
    std::vector<Frame> kept;
    for (std::uint32_t i = 0; i < kAssembled; ++i) {
      put_part(3840, true, 1);
      put_part(3840, true, 2);
      put_part(1338, false, 3);
      const auto frames = take();
      ASSERT_EQ(frames.size(), 1u) << i;
      ASSERT_TRUE(is_of(frames[0], {{3840, 1}, {3840, 2}, {1338, 3}}));
      kept.push_back(frames[0]);
    }
    queue_.release(kept);
    // The queue gives chunks back in batches of two.
    EXPECT_GE(filled().size(), kFilled - 1);
    const std::set<std::uint64_t> each(filled_.begin(), filled_.end());
    EXPECT_EQ(each.size(), filled_.size());
  }

  // Frames of random shapes, and borrowers that keep some for a while. `made_up`: descriptors that
  // name anything, and a new socket now and then.
  void pour(bool made_up) {
    std::mt19937 engine(4711);
    const auto random = [&engine] { return static_cast<std::uint32_t>(engine()); };
    std::vector<Frame> kept;
    const auto give_back = [&](std::size_t n) {
      std::swap(kept[n], kept.back());
      queue_.release({&kept.back(), 1});
      kept.pop_back();
    };
    for (int round = 0; round < 50'000; ++round) {
      for (unsigned n = random() % 4; n > 0 && !filled().empty(); --n) {
        const std::uint32_t length = random() % 8 == 0 ? 0 : random() % 3841;
        const bool more = random() % 2 != 0;
        if (made_up && random() % 50 == 0) {
          put(random() % (2 * bytes_), length, more);
        } else {
          put(filled_.front() + kHead, length, more);
          filled_.pop_front();
        }
      }
      for (const Frame& frame : take(1 + random() % 4)) {
        ASSERT_LE(frame.length, kFrame);
        kept.push_back(frame);
      }
      while (kept.size() > 6 || (!kept.empty() && random() % 2 != 0)) {
        give_back(random() % kept.size());
      }
      if (made_up && round % 1000 == 0) {
        drop_socket();
        attach();
      }
    }
    while (!kept.empty()) give_back(0);
    put_part(1, false);  // whatever was begun ends here
    for (auto last = take(); !last.empty(); last = take()) queue_.release(last);
  }

  PortCounters counters_;
  XskQueue queue_;
  XskRings kernel_;
  std::byte* area_ = nullptr;
  std::size_t bytes_ = 0;
  std::vector<std::byte> assembly_;
  std::vector<std::uint32_t> state_;
  int socket_ = -1;
  std::deque<std::uint64_t> filled_;
  std::uint32_t filled_seen_ = 0, sent_seen_ = 0;
};

TEST_F(OddPartsTest, AFrameThatComesBitByBitIsTakenWhenItIsWhole) {
  put_part(3840, true, 1);
  EXPECT_TRUE(take().empty());
  put_part(100, true, 2);
  EXPECT_TRUE(take().empty());
  put_part(60, false, 3);
  put_part(64, false, 4);
  const auto frames = take();
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_TRUE(is_of(frames[0], {{3840, 1}, {100, 2}, {60, 3}}));
  EXPECT_TRUE(is_of(frames[1], {{64, 4}}));
  queue_.release(frames);
  EXPECT_EQ(counters_.rx_dropped_invalid, 0u);
  ASSERT_NO_FATAL_FAILURE(expect_whole());
}

TEST_F(OddPartsTest, SmallFramesInManyPiecesAreTaken) {
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 6; ++i) put_part(10, i != 5, i);
    const auto frames = take();
    ASSERT_EQ(frames.size(), 1u) << round;
    EXPECT_TRUE(is_of(frames[0], {{10, 0}, {10, 1}, {10, 2}, {10, 3}, {10, 4}, {10, 5}}));
    queue_.release(frames);
  }
  ASSERT_NO_FATAL_FAILURE(expect_whole());
}

TEST_F(OddPartsTest, ALongFrameThatNeverEndsIsCountedOnceAndTakesNothing) {
  for (int i = 0; i < 1000; ++i) {
    put_part(3840, true);
    EXPECT_TRUE(take().empty());
  }
  EXPECT_EQ(counters_.rx_dropped_invalid, 1u);
  put_part(64, false);
  EXPECT_TRUE(take().empty()) << "its end is no frame";
  EXPECT_EQ(counters_.rx_dropped_invalid, 1u);
  ASSERT_NO_FATAL_FAILURE(expect_whole());
}

TEST_F(OddPartsTest, EmptyPartsWithoutEndAreNoFrame) {
  for (int i = 0; i < 1000; ++i) {
    put_part(0, true);
    EXPECT_TRUE(take().empty());
  }
  put_part(0, false);
  EXPECT_TRUE(take().empty());
  EXPECT_EQ(counters_.rx_dropped_invalid, 1u);
  ASSERT_NO_FATAL_FAILURE(expect_whole());
}

TEST_F(OddPartsTest, FramesThatAreTooLongAreLostAndCounted) {
  for (int round = 0; round < 100; ++round) {
    put_part(3840, true);
    put_part(3840, true);
    put_part(kFrame - 2 * 3840 + 1, false);
    EXPECT_TRUE(take().empty());
  }
  EXPECT_EQ(counters_.rx_dropped_invalid, 100u);
  put_part(3840, true, 1);
  put_part(3840, true, 2);
  put_part(kFrame - 2 * 3840, false, 3);
  const auto frames = take();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(frames[0].length, kFrame);
  queue_.release(frames);
  ASSERT_NO_FATAL_FAILURE(expect_whole());
}

TEST_F(OddPartsTest, DescriptorsThatMakeNoSenseSpoilOnlyTheirFrame) {
  const auto bad = [&](std::uint64_t address, std::uint32_t length) {
    put_part(3840, true);
    put(address, length, true);
    put_part(100, false);
    EXPECT_TRUE(take().empty());
    put_part(64, false, 9);
    const auto frames = take();
    ASSERT_EQ(frames.size(), 1u);
    EXPECT_TRUE(is_of(frames[0], {{64, 9}}));
    queue_.release(frames);
  };
  bad(std::uint64_t{kReceive} * kChunk, 64);  // a chunk to send from
  bad(~std::uint64_t{0} - 100, 64);
  bad(filled().back() + 4000, 200);           // beyond its end
  EXPECT_EQ(counters_.rx_dropped_invalid, 3u);
  // A chunk twice.
  const std::uint64_t twice = filled().front() + kHead;
  put_part(3840, true);
  put(twice, 3840, true);
  put_part(100, false);
  EXPECT_TRUE(take().empty());
  EXPECT_EQ(counters_.rx_dropped_invalid, 4u);
}

TEST_F(OddPartsTest, WithoutRoomToPutThemTogetherLongFramesAreLostAndCounted) {
  std::vector<Frame> kept;
  const auto one = [&] {
    put_part(3840, true);
    put_part(3840, true);
    put_part(100, false);
    return take();
  };
  for (std::uint32_t i = 0; i < kAssembled; ++i) kept.push_back(one().at(0));
  for (std::uint32_t i = 0; i < 20; ++i) {
    EXPECT_TRUE(one().empty());
    put_part(64, false, 7);  // short ones need none
    const auto frames = take();
    ASSERT_EQ(frames.size(), 1u);
    queue_.release(frames);
  }
  EXPECT_EQ(counters_.rx_dropped_no_fill, 20u);
  queue_.release({&kept[1], 1});
  const auto frames = one();
  ASSERT_EQ(frames.size(), 1u);
  queue_.release(frames);
  queue_.release({&kept[0], 1});
  queue_.release({&kept[2], kept.size() - 2});
  ASSERT_NO_FATAL_FAILURE(expect_whole());
}

TEST_F(OddPartsTest, ANewSocketBeginsWithAWholeFrame) {
  put_part(3840, true, 1);
  EXPECT_TRUE(take().empty());
  put_part(64, false, 1);  // with it the frame is whole
  auto kept = take();
  ASSERT_EQ(kept.size(), 1u);
  for (int round = 0; round < 10; ++round) {
    put_part(3840, true, 5);
    EXPECT_TRUE(take().empty());
    drop_socket();
    attach();
    put_part(64, false, 6);
    const auto frames = take();
    ASSERT_EQ(frames.size(), 1u);
    EXPECT_TRUE(is_of(frames[0], {{64, 6}}));
    queue_.release(frames);
  }
  EXPECT_TRUE(is_of(kept[0], {{3840, 1}, {64, 1}})) << "lent frames stay";
  queue_.release(kept);
  ASSERT_NO_FATAL_FAILURE(expect_whole());
}

TEST_F(OddPartsTest, FramesToSendAreOneRangeAndComeBackWhenAllOfItHas) {
  // 14 chunks are 4 frames, and two that are left over.
  std::vector<Frame> all(8);
  all.resize(queue_.reserve(all));
  ASSERT_EQ(all.size(), 4u);
  std::set<const std::byte*> places;
  for (Frame& frame : all) {
    EXPECT_EQ(frame.length, 3 * kChunk);
    EXPECT_EQ((frame.data - area_) % kChunk, 0);
    EXPECT_GE(frame.data, area_ + kReceive * kChunk);
    EXPECT_LE(frame.data + frame.length, area_ + bytes_);
    places.insert(frame.data);
  }
  EXPECT_EQ(places.size(), 4u);
  const std::uint32_t lengths[] = {9014, 4096, 60, 4097};
  for (std::size_t i = 0; i < 4; ++i) all[i].length = lengths[i];
  queue_.submit(all);
  EXPECT_EQ(queue_.sending(), 4u);
  const std::uint32_t end = __atomic_load_n(kernel_.transmit.producer, __ATOMIC_ACQUIRE);
  std::vector<xdp_desc> sent;
  for (std::uint32_t at = sent_seen_; at != end; ++at) {
    sent.push_back(kernel_.transmit.entries[at & (kRing - 1)]);
  }
  const std::vector<std::vector<std::uint32_t>> parts{{4096, 4096, 822}, {4096}, {60}, {4096, 1}};
  std::size_t at = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t p = 0; p < parts[i].size(); ++p, ++at) {
      ASSERT_LT(at, sent.size());
      EXPECT_EQ(sent[at].addr, static_cast<std::uint64_t>(all[i].data - area_) + p * kChunk);
      EXPECT_EQ(sent[at].len, parts[i][p]);
      EXPECT_EQ(sent[at].options, p + 1 < parts[i].size() ? std::uint32_t{XDP_PKT_CONTD} : 0u);
    }
  }
  ASSERT_EQ(at, sent.size());
  const auto complete = [&](std::uint64_t address) {
    const std::uint32_t to = *kernel_.completion.producer;
    kernel_.completion.entries[to & (kRing - 1)] = address;
    __atomic_store_n(kernel_.completion.producer, to + 1, __ATOMIC_RELEASE);
    Frame frame;  // has it look
    return queue_.reserve({&frame, 1}) == 1 ? (queue_.cancel({&frame, 1}), true) : false;
  };
  EXPECT_FALSE(complete(sent[0].addr));
  EXPECT_FALSE(complete(sent[0].addr)) << "twice";
  EXPECT_FALSE(complete(0)) << "a chunk to receive into";
  EXPECT_FALSE(complete(~std::uint64_t{0}));
  EXPECT_FALSE(complete(sent[1].addr));
  EXPECT_EQ(queue_.sending(), 4u);
  EXPECT_TRUE(complete(sent[2].addr));
  EXPECT_EQ(queue_.sending(), 3u);
  for (std::size_t i = 3; i < sent.size(); ++i) complete(sent[i].addr);
  std::vector<Frame> again(8);
  EXPECT_EQ(queue_.reserve(again), 4u);
  EXPECT_EQ(queue_.sending(), 0u);
  EXPECT_EQ(queue_.completed(), 4u);
}

TEST_F(OddPartsTest, NothingIsLostOfFramesOfEveryShape) {
  pour(false);
  ASSERT_NO_FATAL_FAILURE(expect_whole());
}

TEST_F(OddPartsTest, NothingIsLostWhateverComes) {
  pour(true);
  drop_socket();
  attach();
  ASSERT_NO_FATAL_FAILURE(expect_whole());
}

}  // namespace
}  // namespace viaduct
