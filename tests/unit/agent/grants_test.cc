// Programs that get a port of their own, the objects that come with it, and that all of them go again.
#include "kagent/agent/grants/grants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <iterator>

#include "kagent/contract/granted_segment.h"
#include "kagent/agent/process/log.h"
#include "kagent/stack/remains.h"
#include "kagent/stack/tables.h"
#include "tests/sim/pair.h"
#include "tests/unit/agent/agent_fixture.h"
#include "tests/unit/agent/every_counter.h"

namespace viaduct {
namespace {

[[maybe_unused]] const testing::Environment* const every_counter_moves =
    testing::AddGlobalTestEnvironment(new EveryCounterMoves(kOfGrantsTest));

using control::Placement;
using testing::HasSubstr;

constexpr uid_t kNobody = 65534;

std::size_t open_descriptors() {
  std::size_t count = 0;
  for (int fd = 0; fd < 4096; ++fd) count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

// Threads of agents that tests before had may still have descriptors of theirs.
void wait_for_earlier_threads() {
  using Tasks = std::filesystem::directory_iterator;
  for (unsigned n = 0; n < 5'000 && std::distance(Tasks("/proc/self/task"), Tasks()) > 1; ++n) usleep(1'000);
}

std::vector<std::byte> random_bytes(std::size_t count, unsigned seed) {
  std::vector<std::byte> out(count);
  for (std::byte& byte : out)
    byte = static_cast<std::byte>((seed = seed * 1103515245 + 12345) >> 16);
  return out;
}

class GrantsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { log::open(log::Target::kStandardError, "", "off"); }

  void configure(const Config& config) {
    agent.reset();
    agent = std::make_unique<TestAgent>(config);
  }

  std::optional<TestProgram::Answer> ask(TestProgram& program,
                                         Placement placement = Placement::kAny,
                                         const char* device = "nic0") {
    program.say(TestProgram::hello(device, placement));
    agent->run();
    return program.answer();
  }

  void expect_hosted(const std::optional<TestProgram::Answer>& answer) {
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->hello.head.result, vip::kSuccess) << answer->hello.reason;
    EXPECT_EQ(answer->hello.placement, static_cast<std::uint32_t>(Placement::kHosted));
    EXPECT_EQ(answer->fds.size(), 3u);
    EXPECT_EQ(answer->hello.granted_segment_bytes, 0u);
    EXPECT_EQ(std::memcmp(answer->hello.control_session, answer->hello.host, 6), 0);
  }
  void expect_granted(const std::optional<TestProgram::Answer>& answer) {
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->hello.head.result, vip::kSuccess) << answer->hello.reason;
    EXPECT_EQ(answer->hello.placement, static_cast<std::uint32_t>(Placement::kGranted));
    EXPECT_EQ(answer->fds.size(), 6u);
  }
  void expect_refused(TestProgram& program, const std::optional<TestProgram::Answer>& answer,
                      const char* reason) {
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->hello.head.result, vip::kErrorResource);
    EXPECT_THAT(answer->hello.reason, HasSubstr(reason));
    EXPECT_TRUE(answer->fds.empty());
    EXPECT_TRUE(program.closed());
  }

  // All the time that ports take to go.
  void let_ports_go() {
    agent->run();
    for (std::uint64_t ms = 0; ms <= 200; ms += 10) {
      agent->server->tick(monotonic_ns() + ms * kNsPerMs);
    }
    agent->run();
  }

  void expect_nothing_left() {
    EXPECT_EQ(agent->server->sessions(), 0u);
    EXPECT_EQ(agent->server->grants().ports(), 0u);
    EXPECT_EQ(agent->server->grants().leaving(), 0u);
    EXPECT_EQ(agent->ports.gone, agent->ports.made);
    EXPECT_EQ(agent->ports.dismissed, agent->ports.admitted);
    EXPECT_EQ(agent->nics[0]->report().live->granted_ports, 0u);
  }

  std::unique_ptr<TestAgent> agent = std::make_unique<TestAgent>();
};

// As many programs begin at once, and the kernel makes one interface at a time.
TEST_F(GrantsTest, WhoseComesTooLateIsHosted) {
  TestProgram program(agent->socket()), next(agent->socket()), insists(agent->socket());
  {
    const std::lock_guard lock(agent->ports.making);
    program.say(TestProgram::hello("nic0", Placement::kAny));
    next.say(TestProgram::hello("nic0", Placement::kAny));
    insists.say(TestProgram::hello("nic0", Placement::kGranted));
    while (agent->server->grants().ports() < 3) agent->loop.poll(10);
    EXPECT_LE(agent->server->next_deadline(), monotonic_ns() + PortMaker::kMakingNs);
    agent->server->tick(monotonic_ns() + PortMaker::kMakingNs);
    expect_hosted(program.answer());
    expect_hosted(next.answer());
    expect_refused(insists, insists.answer(), "no port could be made within 3 s");
  }
  agent->run();
  EXPECT_LE(agent->ports.made, 1u);
  EXPECT_EQ(agent->ports.gone, agent->ports.made);
  EXPECT_EQ(agent->server->grants().ports(), 0u);
  TestProgram later(agent->socket());
  expect_granted(ask(later));
}

TEST_F(GrantsTest, GivesAPortAndAHome) {
  TestProgram program(agent->socket());
  const auto answer = ask(program);
  expect_granted(answer);
  const control::HelloAnswer& hello = answer->hello;
  EXPECT_EQ(hello.port.address, (MacAddress{2, 'p', 'o', 'r', 't', 1}));
  EXPECT_EQ(hello.port.ether_type, wire::kDefaultEtherType);
  EXPECT_EQ(hello.nic.native_mtu, 1400u) << "the port's, not the interface's";
  EXPECT_EQ(hello.nic.address[5], 1) << "the interface's address is the host's";
  EXPECT_EQ(std::memcmp(hello.host, hello.nic.address, 6), 0);
  EXPECT_EQ(std::memcmp(hello.control_session, "\2desk", 6), 0);
  EXPECT_EQ(hello.segment_bytes, layout::Offsets(hello.capacity).total);
  EXPECT_EQ(hello.keepalive_ms, 500u);
  EXPECT_EQ(hello.peer_timeout_ms, 3000u);

  const StackLimits limits = granted_limits(hello);
  EXPECT_EQ(limits.sessions, 1u);
  EXPECT_EQ(limits.vis, 64u);
  EXPECT_EQ(limits.max_transfer, StackLimits().max_transfer);
  EXPECT_EQ(hello.granted_segment_bytes, granted_segment_bytes(limits, Tables::footprint(limits)));
  EXPECT_EQ(lseek(answer->fds[2].get(), 0, SEEK_END), -1) << "the socket";
  EXPECT_EQ(lseek(answer->fds[3].get(), 0, SEEK_END), 4096 * 1024);
  const int granted_segment = answer->fds[4].get();
  EXPECT_EQ(lseek(granted_segment, 0, SEEK_END), static_cast<off_t>(hello.granted_segment_bytes));
  EXPECT_NE(ftruncate(granted_segment, 4096), 0);
  EXPECT_NE(ftruncate(granted_segment, static_cast<off_t>(hello.granted_segment_bytes + 4096)), 0);
  EXPECT_NE(fcntl(granted_segment, F_ADD_SEALS, F_SEAL_WRITE), 0);

  EXPECT_EQ(agent->ports.admitted, 1u);
  EXPECT_EQ(agent->counters.ports_made, 1u);
  EXPECT_EQ(agent->nics[0]->report().live->granted_ports, 1u);
  EXPECT_EQ(agent->nics[0]->report().live->granted_made, 1u);
}

TEST_F(GrantsTest, HostsWhoWantsIt) {
  TestProgram program(agent->socket());
  expect_hosted(ask(program, Placement::kHosted));
  EXPECT_EQ(agent->ports.made, 0u);
}

TEST_F(GrantsTest, GrantsNothingWhereTheConfigurationSaysHosted) {
  Config config = TestAgent::small_config();
  config.placement = Placement::kHosted;
  configure(config);
  TestProgram first(agent->socket()), second(agent->socket());
  expect_hosted(ask(first));
  EXPECT_EQ(agent->counters.not_granted_policy, 0u) << "it had no wish";
  expect_refused(second, ask(second, Placement::kGranted), "placement = \"hosted\"");
  EXPECT_EQ(agent->counters.not_granted_policy, 1u);
  EXPECT_EQ(agent->counters.refused_placement, 1u);
  EXPECT_EQ(agent->ports.made, 0u);
}

TEST_F(GrantsTest, HostsNobodyWhereTheConfigurationSaysGranted) {
  Config config = TestAgent::small_config();
  config.placement = Placement::kGranted;
  config.granted.ports = 1;
  configure(config);
  TestProgram first(agent->socket()), second(agent->socket()), third(agent->socket()),
      fourth(agent->socket());
  expect_granted(ask(first));
  expect_refused(second, ask(second), "all 1 ports are in use");
  expect_refused(third, ask(third, Placement::kHosted), "no program is hosted here");
  expect_refused(fourth, ask(fourth, Placement::kAny, "nic1"), "no ports on the second one");
  // The control session is a session too, but does not reach the program's memory.
  char there[] = "there", here[sizeof there] = {};
  const iovec remote{there, sizeof there}, local{here, sizeof here};
  EXPECT_FALSE(agent->nics[0]->environment().read_program(0, {}, {&remote, 1}, {&local, 1}));
}

TEST_F(GrantsTest, SaysWhyAnInterfaceHasNoPorts) {
  TestProgram first(agent->socket()), second(agent->socket());
  expect_hosted(ask(first, Placement::kAny, "nic1"));
  EXPECT_EQ(agent->counters.not_granted_nic, 0u);
  expect_refused(second, ask(second, Placement::kGranted, "nic1"), "no ports on the second one");
  EXPECT_EQ(agent->counters.not_granted_nic, 1u);
}

TEST_F(GrantsTest, HostsWhenAPortCannotBeMade) {
  agent->ports.why = "via0: no more macvlans";
  TestProgram first(agent->socket()), second(agent->socket());
  expect_hosted(ask(first));
  expect_refused(second, ask(second, Placement::kGranted), "no port: via0: no more macvlans");
  EXPECT_EQ(agent->counters.not_granted_failed, 2u);
  EXPECT_EQ(agent->server->grants().ports(), 0u);
  EXPECT_EQ(agent->server->sessions(), 1u);
}

TEST_F(GrantsTest, LimitsThePortsUntilTheyAreGone) {
  Config config = TestAgent::small_config();
  config.granted.ports = 2;
  configure(config);
  std::vector<std::unique_ptr<TestProgram>> programs;
  for (int i = 0; i < 2; ++i) {
    programs.push_back(std::make_unique<TestProgram>(agent->socket()));
    expect_granted(ask(*programs.back()));
  }
  TestProgram third(agent->socket()), fourth(agent->socket());
  expect_hosted(ask(third));
  expect_refused(fourth, ask(fourth, Placement::kGranted), "all 2 ports are in use");
  EXPECT_EQ(agent->counters.not_granted_ports, 2u);
  programs.clear();
  let_ports_go();
  TestProgram fifth(agent->socket());
  expect_granted(ask(fifth, Placement::kGranted));
}

// Asks for ports from a process of an ordinary user; returns the results and the last reason.
std::pair<std::vector<std::uint32_t>, std::string> ask_as_nobody(TestAgent& agent, int count, int looks = 500) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    if (setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(1);
    prctl(PR_SET_DUMPABLE, 1);
    std::vector<std::unique_ptr<TestProgram>> programs;
    for (int i = 0; i < count; ++i) {
      programs.push_back(std::make_unique<TestProgram>(agent.socket()));
      fcntl(programs.back()->fd(), F_SETFL, 0);
      programs.back()->say(TestProgram::hello("nic0", Placement::kGranted));
      const auto answer = programs.back()->answer();
      char text[4 + sizeof control::HelloAnswer::reason] = {};
      if (answer) {
        std::memcpy(text, &answer->hello.head.result, 4);
        std::memcpy(text + 4, answer->hello.reason, sizeof answer->hello.reason);
      }
      if (write(ends[1], text, sizeof text) < 0) _exit(1);
    }
    pause();
    _exit(0);
  }
  close(ends[1]);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  std::pair<std::vector<std::uint32_t>, std::string> out;
  char text[4 + sizeof control::HelloAnswer::reason];
  for (int i = 0; i < looks && out.first.size() < static_cast<std::size_t>(count); ++i) {
    agent.loop.poll(10 * kNsPerMs);
    while (read(ends[0], text, sizeof text) == sizeof text) {
      out.first.push_back(0);
      std::memcpy(&out.first.back(), text, 4);
      out.second = text + 4;
    }
  }
  close(ends[0]);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  // A session that waits for a port does not hear of the end.
  const bool waits = out.first.size() < static_cast<std::size_t>(count);
  while (!waits && agent.server->sessions() != 0) agent.loop.poll(kNsPerMs);
  return out;
}

TEST_F(GrantsTest, LimitsThePortsOfAUser) {
  if (getuid() != 0) GTEST_SKIP() << "needs root";
  Config config = TestAgent::small_config();
  config.granted.ports_per_user = 2;
  configure(config);
  const auto [results, reason] = ask_as_nobody(*agent, 3);
  EXPECT_EQ(results,
            (std::vector<std::uint32_t>{vip::kSuccess, vip::kSuccess, vip::kErrorResource}));
  EXPECT_THAT(reason, HasSubstr("has all 2 ports that one user may have"));
  EXPECT_EQ(agent->counters.not_granted_user_limit, 1u);
  let_ports_go();
  expect_nothing_left();
  EXPECT_EQ(ask_as_nobody(*agent, 1).first, std::vector<std::uint32_t>{vip::kSuccess});
  std::vector<std::unique_ptr<TestProgram>> programs;
  for (int i = 0; i < 3; ++i) {
    programs.push_back(std::make_unique<TestProgram>(agent->socket()));
    expect_granted(ask(*programs.back()));  // root
  }
}

// Who keeps the sockets of ports that are taken down could else have more than its limit.
TEST_F(GrantsTest, LimitsThePortsOfAUserAlsoWhileTheyAreTakenDown) {
  if (getuid() != 0) GTEST_SKIP() << "needs root";
  Config config = TestAgent::small_config();
  config.granted.ports_per_user = 2;
  config.granted.ready_ports = 2;
  configure(config);
  {
    const std::lock_guard lock(agent->ports.ending);
    EXPECT_EQ(ask_as_nobody(*agent, 2).first, (std::vector<std::uint32_t>{vip::kSuccess, vip::kSuccess}));
    agent->server->tick(monotonic_ns() + PortMaker::kAheadNs);
    while (agent->server->grants().ready(*agent->nics[0]) < 2) agent->loop.poll(kNsPerMs);
    constexpr int kSome = 20;
    EXPECT_TRUE(ask_as_nobody(*agent, 1, kSome).first.empty()) << "it waits for its own";
    EXPECT_EQ(agent->counters.ports_made, 2u);
    TestProgram of_root(agent->socket());
    of_root.say(TestProgram::hello("nic0", Placement::kGranted));
    while (agent->counters.ports_made < 3) agent->loop.poll(kNsPerMs);
    expect_granted(of_root.answer());
  }
  let_ports_go();
  EXPECT_EQ(ask_as_nobody(*agent, 1).first, std::vector<std::uint32_t>{vip::kSuccess});
}

TEST_F(GrantsTest, GivesPortsToWhomTheConfigurationNames) {
  if (getuid() != 0) GTEST_SKIP() << "needs root";
  Config config = TestAgent::small_config();
  config.granted.access.users = {12345};
  configure(config);
  const auto [results, reason] = ask_as_nobody(*agent, 1);
  EXPECT_EQ(results, std::vector<std::uint32_t>{vip::kErrorResource});
  EXPECT_THAT(reason, HasSubstr("user 65534 may not have a port"));
  EXPECT_EQ(agent->counters.not_granted_access, 1u);
  config.granted.access.groups = {kNobody};
  configure(config);
  EXPECT_EQ(ask_as_nobody(*agent, 1).first, std::vector<std::uint32_t>{vip::kSuccess});
}

TEST_F(GrantsTest, EverythingGoesWithTheProgram) {
  wait_for_earlier_threads();
  const std::size_t before = open_descriptors();
  {
    TestProgram program(agent->socket());
    agent->ports.counters.forged_source = 3;
    expect_granted(ask(program));
    EXPECT_EQ(agent->nics[0]->report().live->granted.forged_source, 3u);
  }
  agent->run();
  EXPECT_EQ(agent->server->sessions(), 0u);
  let_ports_go();
  expect_nothing_left();
  EXPECT_EQ(agent->nics[0]->report().live->granted.forged_source, 3u);
  agent->server->threads().look(monotonic_ns() + 3600 * kNsPerSecond);  // an idle thread costs a descriptor
  EXPECT_EQ(open_descriptors(), before);
}

// How much memory the UMEM of a port takes that its program keeps open, in blocks.
off_t blocks_of(const TestProgram::Answer& answer) {
  struct stat status {};
  EXPECT_EQ(fstat(answer.fds[3].get(), &status), 0);
  return status.st_blocks;
}

TEST_F(GrantsTest, TakesTheMemoryBackThatAProgramKeeps) {
  TestProgram program(agent->socket());
  const auto answer = ask(program);
  expect_granted(answer);
  const auto bytes = random_bytes(65536, 1);
  ASSERT_EQ(pwrite(answer->fds[3].get(), bytes.data(), bytes.size(), 0), 65536);
  program.close();
  let_ports_go();
  EXPECT_EQ(blocks_of(*answer), 0);
}

TEST_F(GrantsTest, LeavesTheMemoryToAProgramWhoseSessionIsEnded) {
  TestProgram program(agent->socket());
  const auto answer = ask(program);
  expect_granted(answer);
  const auto bytes = random_bytes(65536, 1);
  ASSERT_EQ(pwrite(answer->fds[3].get(), bytes.data(), bytes.size(), 0), 65536);
  agent->server->end_sessions(*agent->nics[0]);
  expect_nothing_left();
  EXPECT_GE(blocks_of(*answer), 65536 / 512);
}

TEST_F(GrantsTest, CountsPortsWhoseSocketsAreKept) {
  Config config = TestAgent::small_config();
  config.granted.ports = 1;
  configure(config);
  {
    TestProgram program(agent->socket());
    expect_granted(ask(program));
  }
  agent->ports.kept = true;
  let_ports_go();
  EXPECT_EQ(agent->counters.ports_kept, 1u);
  EXPECT_EQ(agent->ports.gone, 1u);
  TestProgram second(agent->socket());
  expect_refused(second, ask(second, Placement::kGranted), "all 1 ports are in use");
  agent->server->tick(monotonic_ns() + 10 * kNsPerSecond);
  EXPECT_LT(agent->server->next_deadline(), monotonic_ns() + 12 * kNsPerSecond);
  agent->ports.kept = false;
  agent->server->tick(monotonic_ns() + 20 * kNsPerSecond);
  TestProgram third(agent->socket());
  expect_granted(ask(third, Placement::kGranted));
}

class PlacesTest : public GrantsTest {
 protected:
  PlacesTest() {
    Config config = TestAgent::small_config();
    config.granted.ports = 1;
    configure(config);
  }
  // A program asks while the only port is being taken down.
  void ask_meanwhile(TestProgram& program) {
    {
      TestProgram first(agent->socket());
      expect_granted(ask(first));
    }
    const std::lock_guard lock(agent->ports.ending);
    while (agent->server->sessions() != 0) agent->loop.poll(kNsPerMs);
    program.say(TestProgram::hello("nic0", Placement::kGranted));
    while (agent->server->grants().ports() < 2) agent->loop.poll(kNsPerMs);
    EXPECT_EQ(agent->ports.made, 1u) << "there is no room for another";
    TestProgram third(agent->socket());
    third.say(TestProgram::hello("nic0", Placement::kGranted));
    while (agent->counters.not_granted_ports == 0) agent->loop.poll(kNsPerMs);
    expect_refused(third, third.answer(), "all 1 ports are in use");
  }
};

TEST_F(PlacesTest, OfAProgramThatHasGoneIsWaitedFor) {
  TestProgram second(agent->socket());
  ask_meanwhile(second);
  agent->run();
  expect_granted(second.answer());
  EXPECT_EQ(agent->ports.made, 2u);
}

TEST_F(PlacesTest, AreNotThereWhenTheNicHasGone) {
  TestProgram second(agent->socket());
  ask_meanwhile(second);
  agent->server->end_sessions(*agent->nics[0]);
  expect_nothing_left();
  agent->nics[0]->close();
  EXPECT_TRUE(second.closed());
  agent->nics[0]->open(monotonic_ns());
  TestProgram third(agent->socket());
  expect_granted(ask(third));
}

// A program that has had connections, and is gone: its stack is one of a simulation.
class LastDisconnectsTest : public GrantsTest {
 protected:
  static StackLimits limits() {
    StackLimits out = TestAgent::small_config().limits;
    out.sessions = 1;
    out.claims = 0;
    out.members = layout::kMembers;
    return out;
  }

  // Opens a session, moves the stack of `pair.a` in and ends the program.
  void leave_behind(const sim::Host& host) {
    Config config = TestAgent::small_config();
    config.limits = limits();
    config.limits.sessions = 8;
    configure(config);
    TestProgram program(agent->socket());
    const auto answer = ask(program);
    expect_granted(answer);
    const std::size_t bytes = Stack::footprint(limits());
    ASSERT_EQ(pwrite(answer->fds[4].get(), host.segment(), bytes,
                     static_cast<off_t>(granted_stack_offset(limits()))),
              static_cast<ssize_t>(bytes));
    begin_ = monotonic_ns();
    program.close();
    agent->loop.poll(0);
  }
  // The frames said from begin_ to so much later.
  std::size_t said_until(std::uint64_t ms) {
    agent->server->tick(monotonic_ns() + ms * kNsPerMs);
    return agent->ports.sent.size();
  }

  std::uint64_t begin_ = 0;
};

TEST_F(LastDisconnectsTest, AreSaidToThePeersThreeTimes) {
  sim::Pair pair(1, vip::kReliableDelivery, {}, limits());
  ASSERT_TRUE(pair.connect());
  Remains left[4];
  ASSERT_EQ(remains(pair.a.segment(), limits(), left), 1u);
  leave_behind(pair.a);
  EXPECT_EQ(agent->ports.sent.size(), 1u) << "at once";
  EXPECT_EQ(said_until(21), 2u);
  EXPECT_EQ(said_until(22), 2u);
  EXPECT_EQ(agent->ports.gone, 0u);
  EXPECT_LE(agent->server->next_deadline(), monotonic_ns() + 100 * kNsPerMs);
  EXPECT_EQ(said_until(101), 3u);
  let_ports_go();
  expect_nothing_left();
  EXPECT_EQ(agent->ports.sent.size(), 3u);
  EXPECT_EQ(agent->counters.farewells, 3u);
  for (const auto& frame : agent->ports.sent) {
    wire::Decoded decoded;
    ASSERT_EQ(wire::decode(frame, decoded), wire::Malformed::kNone);
    EXPECT_EQ(decoded.header.type, wire::Type::kDisconnect);
    EXPECT_EQ(decoded.header.vi, left[0].vi);
    EXPECT_EQ(decoded.header.key, left[0].key);
    EXPECT_EQ(decoded.header.psn, left[0].psn);
    EXPECT_EQ(decoded.header.ack, left[0].ack);
    EXPECT_EQ(decoded.header.immediate, 0u);
    EXPECT_EQ(decoded.destination, pair.b.port.address());
    EXPECT_EQ(decoded.source, (MacAddress{2, 'p', 'o', 'r', 't', 1}));
    EXPECT_EQ(wire::load16(frame.data() + 12), wire::kDefaultEtherType);
  }
}

TEST_F(LastDisconnectsTest, AreCutShortWhenTheInterfaceGoes) {
  sim::Pair pair(1, vip::kReliableDelivery, {}, limits());
  ASSERT_TRUE(pair.connect());
  leave_behind(pair.a);
  agent->server->end_sessions(*agent->nics[0]);
  expect_nothing_left();
  EXPECT_EQ(agent->ports.sent.size(), 1u);
}

TEST_F(GrantsTest, AProgramMayGoWhileItsPortIsMade) {
  {
    TestProgram program(agent->socket());
    program.say(TestProgram::hello("nic0", Placement::kAny));
    while (agent->server->grants().ports() == 0) agent->loop.poll(kNsPerMs);
  }
  let_ports_go();
  expect_nothing_left();
  EXPECT_EQ(agent->ports.made, 1u);
}

TEST_F(GrantsTest, ANicMayGoWhileAPortIsMade) {
  TestProgram first(agent->socket()), second(agent->socket());
  expect_granted(ask(first));
  second.say(TestProgram::hello("nic0", Placement::kAny));
  while (agent->server->grants().ports() == 1) agent->loop.poll(kNsPerMs);
  agent->server->end_sessions(*agent->nics[0]);
  expect_nothing_left();
  agent->nics[0]->close();
  EXPECT_TRUE(first.closed());
  EXPECT_TRUE(second.closed());
  agent->nics[0]->open(monotonic_ns());
  TestProgram third(agent->socket());
  expect_granted(ask(third));
}

TEST_F(GrantsTest, TheAgentMayGoWhileAPortIsMade) {
  TestProgram first(agent->socket()), second(agent->socket());
  expect_granted(ask(first));
  second.say(TestProgram::hello("nic0", Placement::kAny));
  while (agent->server->grants().ports() == 1) agent->loop.poll(kNsPerMs);
  agent->server.reset();
  EXPECT_EQ(agent->ports.made, 2u);
  EXPECT_EQ(agent->ports.gone, 2u);
}

class ReadyPortsTest : public GrantsTest {
 protected:
  ReadyPortsTest() { configure(with(2)); }
  static Config with(std::uint32_t ready) {
    Config config = TestAgent::small_config();
    config.granted.ready_ports = ready;
    return config;
  }
  std::size_t ready() const { return agent->server->grants().ready(*agent->nics[0]); }
  void wait_a_moment() {
    agent->server->tick(monotonic_ns() + PortMaker::kAheadNs);
    agent->run();
  }
};

TEST_F(ReadyPortsTest, AProgramDoesNotWaitForTheKernel) {
  TestProgram first(agent->socket()), second(agent->socket());
  EXPECT_EQ(ready(), 0u) << "before the first program";
  expect_granted(ask(first));
  EXPECT_EQ(ready(), 0u) << "the program has the processors for itself";
  EXPECT_LE(agent->server->next_deadline(), monotonic_ns() + PortMaker::kAheadNs);
  wait_a_moment();
  EXPECT_EQ(ready(), 1u);
  EXPECT_EQ(agent->ports.admitted, 1u);
  EXPECT_EQ(agent->server->grants().ports(), 1u) << "a ready port is nobody's";
  {
    const std::lock_guard lock(agent->ports.making);
    second.say(TestProgram::hello("nic0", Placement::kAny));
    while (agent->server->grants().ports() == 1) agent->loop.poll(kNsPerMs);
    expect_granted(second.answer());
  }
  wait_a_moment();
  EXPECT_EQ(ready(), 2u) << "as many as have been asked for";
}

TEST_F(ReadyPortsTest, WhoWaitsHasTheFirstPortThatIsThere) {
  TestProgram first(agent->socket()), second(agent->socket());
  {
    const std::lock_guard lock(agent->ports.making);
    first.say(TestProgram::hello("nic0", Placement::kAny));
    second.say(TestProgram::hello("nic0", Placement::kAny));
    while (agent->server->grants().ports() < 2) agent->loop.poll(kNsPerMs);
  }
  agent->run();
  expect_granted(first.answer());
  expect_granted(second.answer());
  EXPECT_EQ(agent->counters.ports_made, 2u);
  EXPECT_EQ(agent->ports.made, 2u);
  wait_a_moment();
  EXPECT_EQ(ready(), 2u);
}

TEST_F(ReadyPortsTest, GoWhenProgramsAskNoMore) {
  TestProgram first(agent->socket()), second(agent->socket());
  expect_granted(ask(first));
  expect_granted(ask(second));
  wait_a_moment();
  EXPECT_EQ(ready(), 2u);
  const std::uint64_t minute = PortMaker::kAskedNs, now = monotonic_ns();
  EXPECT_LE(agent->server->next_deadline(), now + minute);
  agent->server->tick(now + minute);
  EXPECT_EQ(ready(), 2u);
  agent->server->tick(now + 2 * minute);
  agent->run();
  EXPECT_EQ(ready(), 1u);
  EXPECT_EQ(agent->ports.gone, 1u);
  agent->server->tick(now + 3 * minute);
  EXPECT_EQ(ready(), 1u);
  EXPECT_GT(agent->server->next_deadline(), now + 10 * minute);
}

TEST_F(ReadyPortsTest, StayWithinTheLimitOfPorts) {
  Config config = with(8);
  config.granted.ports = 2;
  configure(config);
  TestProgram first(agent->socket()), second(agent->socket()), third(agent->socket());
  expect_granted(ask(first));
  wait_a_moment();
  EXPECT_EQ(ready(), 1u);
  expect_granted(ask(second));
  wait_a_moment();
  EXPECT_EQ(ready(), 0u);
  expect_refused(third, ask(third, Placement::kGranted), "all 2 ports are in use");
  EXPECT_EQ(agent->ports.made, 2u);
}

TEST_F(ReadyPortsTest, GoWithTheInterfaceAndTheAgent) {
  TestProgram first(agent->socket());
  expect_granted(ask(first));
  wait_a_moment();
  EXPECT_EQ(ready(), 1u);
  agent->server->end_sessions(*agent->nics[0]);
  expect_nothing_left();
  EXPECT_EQ(ready(), 0u);
  agent->nics[0]->close();
  agent->nics[0]->open(monotonic_ns());
  TestProgram second(agent->socket());
  expect_granted(ask(second));
  wait_a_moment();
  EXPECT_EQ(ready(), 1u);
  agent->server.reset();
  EXPECT_EQ(agent->ports.gone, agent->ports.made);
}

TEST_F(ReadyPortsTest, ThatCannotBeMadeAreNobodysMisfortune) {
  TestProgram first(agent->socket()), second(agent->socket()), third(agent->socket());
  expect_granted(ask(first));
  wait_a_moment();
  agent->ports.why = "via0: no more macvlans";
  expect_granted(ask(second));
  wait_a_moment();
  EXPECT_EQ(ready(), 0u);
  EXPECT_EQ(agent->counters.not_granted_failed, 0u);
  expect_refused(third, ask(third, Placement::kGranted), "no port: via0: no more macvlans");
  agent->ports.why.clear();
  TestProgram fourth(agent->socket());
  expect_granted(ask(fourth));
  wait_a_moment();
  EXPECT_EQ(ready(), 2u);
}

TEST_F(GrantsTest, SurvivesNonsenseInGrantedSegmentAndControlSession) {
  for (unsigned seed = 1; seed < 20; ++seed) {
    TestProgram program(agent->socket());
    const auto answer = ask(program);
    expect_granted(answer);
    const int granted_segment = answer->fds[4].get(), control_session = answer->fds[0].get();
    auto nonsense = random_bytes(answer->hello.granted_segment_bytes, seed);
    if (seed % 4 == 0) std::fill(nonsense.begin(), nonsense.end(), std::byte{0xff});
    ASSERT_EQ(pwrite(granted_segment, nonsense.data(), nonsense.size(), 0),
              static_cast<ssize_t>(nonsense.size()));
    nonsense = random_bytes(answer->hello.segment_bytes, seed);
    ASSERT_EQ(pwrite(control_session, nonsense.data(), nonsense.size(), 0),
              static_cast<ssize_t>(nonsense.size()));
    agent->run();
    program.close();
    let_ports_go();
    expect_nothing_left();
  }
}

}  // namespace
}  // namespace viaduct
