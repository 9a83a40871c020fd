// Programs of one host that connect to each other are given rings, and told when the other one ends.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "kagent/agent/process/log.h"
#include "tests/unit/agent/agent_fixture.h"
#include "tests/unit/agent/every_counter.h"
#include "xdp/clock.h"
#include "xdp/local/local_peers.h"

namespace viaduct {
namespace {

[[maybe_unused]] const testing::Environment* const every_counter_moves =
    testing::AddGlobalTestEnvironment(new EveryCounterMoves(kOfLocalPathsTest));

class LocalPathsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { log::open(log::Target::kStandardError, "", "off"); }

  struct Program {
    std::unique_ptr<TestProgram> socket;
    MacAddress port;
  };

  Program open(control::Placement placement = control::Placement::kGranted) {
    Program out{std::make_unique<TestProgram>(agent.socket()), {}};
    out.socket->say(TestProgram::hello("nic0", placement));
    agent.run();
    const auto answer = out.socket->answer();
    EXPECT_TRUE(answer);
    if (answer) out.port = answer->hello.port.address;
    return out;
  }

  void meet(const MacAddress& one, const MacAddress& other) {
    agent.nics[0]->environment().introduce(one, other);
    agent.local_paths.connect(*agent.nics[0]);
  }

  struct Told {
    control::LocalPeer message;
    std::vector<Descriptor> fds;
  };
  static std::optional<Told> told(const Program& program) {
    auto answer = program.socket->answer();
    if (!answer || answer->bytes != sizeof(control::LocalPeer)) return std::nullopt;
    Told out;
    std::memcpy(static_cast<void*>(&out.message), &answer->hello, sizeof out.message);
    out.fds = std::move(answer->fds);
    return out;
  }
  static void expect_rings(const std::optional<Told>& is, const MacAddress& from) {
    ASSERT_TRUE(is);
    EXPECT_EQ(is->message.head.kind, static_cast<std::uint16_t>(control::Kind::kLocalPeer));
    EXPECT_EQ(std::memcmp(is->message.address, from.data(), from.size()), 0);
    ASSERT_EQ(is->fds.size(), 1u);
    EXPECT_EQ(lseek(is->fds[0].get(), 0, SEEK_END), static_cast<off_t>(local::kFileBytes));
    constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    EXPECT_EQ(fcntl(is->fds[0].get(), F_GET_SEALS) & kSeals, kSeals);
  }

  TestAgent agent;
};

TEST_F(LocalPathsTest, ProgramsThatMeetGetTheTwoEndsOfAPair) {
  const Program a = open(), b = open();
  meet(a.port, b.port);
  const auto to_a = told(a), to_b = told(b);
  expect_rings(to_a, b.port);
  expect_rings(to_b, a.port);
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_NE(to_a->message.end, to_b->message.end);
  EXPECT_EQ(number_of(to_a->fds[0].get()), number_of(to_b->fds[0].get()));
  EXPECT_EQ(agent.counters.local_paths_made, 1u);
}

TEST_F(LocalPathsTest, APairIsMadeOnce) {
  const Program a = open(), b = open(), c = open();
  meet(a.port, b.port);
  meet(b.port, a.port);
  meet(a.port, b.port);
  EXPECT_EQ(agent.counters.local_paths_made, 1u);
  meet(c.port, a.port);
  EXPECT_EQ(agent.counters.local_paths_made, 2u);
}

TEST_F(LocalPathsTest, NobodyElseHasThem) {
  const Program a = open(), hosted = open(control::Placement::kHosted);
  meet(a.port, agent.nics[0]->stack().address());
  meet(a.port, {2, 9, 9, 9, 9, 9});
  meet(a.port, a.port);
  EXPECT_FALSE(told(a));
  EXPECT_FALSE(told(hosted));
  EXPECT_EQ(agent.counters.local_paths_made, 0u);
}

TEST_F(LocalPathsTest, ThatAProgramDoesNotListenIsCounted) {
  const Program a = open(), deaf = open();
  shutdown(deaf.socket->fd(), SHUT_RD);
  meet(a.port, deaf.port);
  EXPECT_EQ(agent.counters.local_paths_made, 0u);
  EXPECT_EQ(agent.counters.local_paths_refused, 1u);
}

TEST_F(LocalPathsTest, TheOtherOneIsToldWhenOneEnds) {
  Program a = open(), b = open(), c = open();
  meet(a.port, b.port);
  ASSERT_TRUE(told(a));
  ASSERT_TRUE(told(b));
  b.socket->close();
  agent.run();
  const auto end = told(a);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->message.head.kind, static_cast<std::uint16_t>(control::Kind::kLocalEnd));
  EXPECT_EQ(std::memcmp(end->message.address, b.port.data(), b.port.size()), 0);
  EXPECT_TRUE(end->fds.empty());
  EXPECT_FALSE(told(c));
}

TEST_F(LocalPathsTest, WhoCapturesGetsThePairsInPages) {
  const Program a = open(), b = open(), c = open();
  meet(a.port, b.port);
  meet(b.port, c.port);
  const auto first = agent.local_paths.pairs_from(0, 1, monotonic_ns());
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0]->nic, agent.nics[0].get());
  EXPECT_EQ(first[0]->ends[0], a.port);
  EXPECT_EQ(first[0]->ends[1], b.port);
  const auto to_a = told(a);
  ASSERT_TRUE(to_a && to_a->fds.size() == 1);
  EXPECT_EQ(number_of(first[0]->rings.get()), number_of(to_a->fds[0].get()));
  const auto rest = agent.local_paths.pairs_from(first[0]->number + 1, 10, monotonic_ns());
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0]->ends[1], c.port);
  EXPECT_TRUE(agent.local_paths.pairs_from(rest[0]->number + 1, 10, monotonic_ns()).empty());
}

TEST_F(LocalPathsTest, PairsThatEndAreKeptForAWhileIfSomebodyCaptures) {
  Program a = open(), b = open(), c = open();
  meet(a.port, b.port);
  b.socket->close();
  agent.run();
  const std::uint64_t now = monotonic_ns();
  EXPECT_TRUE(agent.local_paths.pairs_from(0, 10, now + 1'000 * kNsPerSecond).empty());
  meet(a.port, c.port);
  c.socket->close();
  agent.run();
  auto kept = agent.local_paths.pairs_from(0, 10, now);
  ASSERT_EQ(kept.size(), 1u);
  std::uint32_t ended = 0;
  constexpr std::size_t kAt = local::kTracksAt + offsetof(local::Track, ended);
  ASSERT_EQ(pread(kept[0]->rings.get(), &ended, sizeof ended, kAt), ssize_t{sizeof ended});
  EXPECT_EQ(ended, 1u);
  const std::weak_ptr<const LocalPaths::Pair> pair = kept[0];
  kept.clear();
  agent.local_paths.tick(now + LocalPaths::kKeptNs - 1);
  EXPECT_FALSE(pair.expired());
  agent.local_paths.tick(now + LocalPaths::kKeptNs);
  EXPECT_TRUE(pair.expired());
}

TEST_F(LocalPathsTest, CountsWhatTheProgramsHaveTaken) {
  Program a = open(), b = open();
  meet(a.port, b.port);
  const auto to_a = told(a);
  ASSERT_TRUE(to_a && to_a->fds.size() == 1);
  const std::uint64_t taken[] = {640, 6400};
  ASSERT_EQ(pwrite(to_a->fds[0].get(), &taken[0], sizeof taken[0], 0), 8);
  ASSERT_EQ(pwrite(to_a->fds[0].get(), &taken[1], sizeof taken[1], sizeof(local::Control)), 8);
  agent.local_paths.count_bytes();
  EXPECT_EQ(agent.counters.local_bytes, 7040u);
  b.socket->close();
  agent.run();
  agent.local_paths.count_bytes();
  EXPECT_EQ(agent.counters.local_bytes, 7040u);
}

// Programs write to the rings, those that capture do not.
TEST_F(LocalPathsTest, ForACaptureTheRingsAreOpenedToBeRead) {
  const Program a = open(), b = open();
  meet(a.port, b.port);
  const auto to_a = told(a);
  expect_rings(to_a, b.port);
  ASSERT_FALSE(HasFatalFailure());
  const auto maps = [](int fd, int how) {
    void* const at = mmap(nullptr, local::kFileBytes, how, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED) munmap(at, local::kFileBytes);
    return at != MAP_FAILED;
  };
  EXPECT_TRUE(maps(to_a->fds[0].get(), PROT_READ | PROT_WRITE));
  const auto pairs = agent.local_paths.pairs_from(0, 8, monotonic_ns());
  ASSERT_EQ(pairs.size(), 1u);
  const Descriptor seen = LocalPaths::open_read_only(*pairs[0]);
  EXPECT_TRUE(maps(seen.get(), PROT_READ));
  EXPECT_FALSE(maps(seen.get(), PROT_READ | PROT_WRITE));
  EXPECT_EQ(number_of(seen.get()), number_of(to_a->fds[0].get()));
  struct stat status{};
  ASSERT_EQ(fstat(seen.get(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0400u) << "it can be opened anew";
}

}  // namespace
}  // namespace viaduct
