// Granted programs that outlive their agent: programs that get their ports back from the next one, programs that do
// not, and that all of it goes in the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "kagent/agent/process/log.h"
#include "tests/unit/agent/agent_fixture.h"
#include "tests/unit/agent/every_counter.h"

namespace viaduct {
namespace {

[[maybe_unused]] const testing::Environment* const every_counter_moves =
    testing::AddGlobalTestEnvironment(new EveryCounterMoves(kOfAdoptionTest));

using control::Placement;
using testing::HasSubstr;

class AdoptionTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kReattachMs = 3'000;

  static void SetUpTestSuite() { log::open(log::Target::kStandardError, "", "off"); }

  // A program has a port; then its agent has gone and the next one has found the port.
  void SetUp() override {
    Config config = TestAgent::small_config();
    config.granted.reattach_ms = kReattachMs;
    begin(config);
  }
  void begin(const Config& config) {
    agent = std::make_unique<TestAgent>(config);
    agent->ports.kept = true;
    TestProgram program(agent->socket());
    program.say(TestProgram::hello("nic0", Placement::kGranted));
    agent->run();
    had = program.answer();
    ASSERT_TRUE(had);
    ASSERT_EQ(had->hello.head.result, vip::kSuccess) << had->hello.reason;
    agent->server->hand_over();
    EXPECT_TRUE(program.closed());
    next(config);
  }
  void next(const Config& config) {
    const auto remains = agent->ports.remains;
    agent.reset();
    agent = std::make_unique<TestAgent>(with_other_socket(config));
    agent->ports.kept = true;
    agent->ports.remains = remains;
    agent->server->inherit(*agent->nics[0]);
  }
  static Config with_other_socket(Config config) {
    config.socket = TestAgent::small_config().socket;
    return config;
  }

  control::Adopt adopt() const {
    control::Adopt out{};
    out.head.kind = static_cast<std::uint16_t>(control::Kind::kAdopt);
    out.head.bytes = sizeof out;
    std::strcpy(out.device, "nic0");
    const MacAddress& port = had->hello.port.address;
    std::copy(port.begin(), port.end(), out.port);
    out.umem = had->fds[3].get();
    out.granted_segment = had->fds[4].get();
    return out;
  }
  std::optional<TestProgram::Answer> ask(TestProgram& program, const control::Adopt& message) {
    program.say(message);
    agent->run();
    return program.answer();
  }
  void expect_refused(const control::Adopt& message, const char* reason) {
    TestProgram program(agent->socket());
    const auto answer = ask(program, message);
    ASSERT_TRUE(answer) << reason;
    EXPECT_NE(answer->hello.head.result, vip::kSuccess) << reason;
    EXPECT_THAT(answer->hello.reason, HasSubstr(reason));
    EXPECT_TRUE(answer->fds.empty());
    EXPECT_TRUE(program.closed());
    EXPECT_EQ(agent->server->sessions(), 0u);
  }
  void expect_adopted() {
    TestProgram program(agent->socket());
    const auto answer = ask(program, adopt());
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->hello.head.result, vip::kSuccess) << answer->hello.reason;
  }
  void let_ports_go() {
    agent->ports.kept = false;
    agent->run();
    for (std::uint64_t ms = 0; ms <= kReattachMs; ms += 10) {
      agent->server->tick(monotonic_ns() + ms * kNsPerMs);
    }
    agent->run();
  }
  void expect_nothing_left() {
    EXPECT_EQ(agent->server->sessions(), 0u);
    EXPECT_EQ(agent->server->grants().ports(), 0u);
    EXPECT_EQ(agent->server->grants().inherited(), 0u);
    EXPECT_EQ(agent->ports.gone, agent->ports.made);
    EXPECT_EQ(agent->nics[0]->report().live->granted_ports, 0u);
    EXPECT_EQ(agent->nics[0]->stack().usage().sessions, 0u);
  }

  std::unique_ptr<TestAgent> agent;
  std::optional<TestProgram::Answer> had;  // from the first agent
};

TEST_F(AdoptionTest, GivesTheProgramASessionForThePortThatItHas) {
  EXPECT_EQ(agent->counters.ports_found, 1u);
  EXPECT_EQ(agent->server->grants().ports(), 1u);
  EXPECT_EQ(agent->ports.admitted, 0u);
  TestProgram program(agent->socket());
  const auto answer = ask(program, adopt());
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->hello.head.result, vip::kSuccess) << answer->hello.reason;
  EXPECT_EQ(answer->hello.placement, static_cast<std::uint32_t>(Placement::kGranted));
  EXPECT_EQ(answer->hello.port.address, had->hello.port.address);
  EXPECT_EQ(answer->hello.segment_bytes, had->hello.segment_bytes);
  EXPECT_EQ(answer->hello.reattach_ms, kReattachMs);
  EXPECT_EQ(answer->fds.size(), 3u) << "segment, agent wake and poll wake: the rest it has";
  EXPECT_EQ(lseek(answer->fds[0].get(), 0, SEEK_END),
            static_cast<off_t>(answer->hello.segment_bytes));
  EXPECT_EQ(agent->counters.ports_adopted, 1u);
  EXPECT_EQ(agent->server->sessions(), 1u);
  EXPECT_EQ(agent->server->grants().ports(), 1u);
  EXPECT_EQ(agent->server->grants().inherited(), 0u);
  EXPECT_EQ(agent->ports.admitted, 1u);
  EXPECT_EQ(agent->nics[0]->report().live->granted_ports, 1u);
  program.close();
  let_ports_go();
  expect_nothing_left();
  EXPECT_EQ(agent->ports.dismissed, 1u);
}

TEST_F(AdoptionTest, HappensAgainAndAgain) {
  for (int i = 0; i < 3; ++i) {
    TestProgram program(agent->socket());
    const auto answer = ask(program, adopt());
    ASSERT_TRUE(answer);
    ASSERT_EQ(answer->hello.head.result, vip::kSuccess) << answer->hello.reason;
    agent->server->hand_over();
    EXPECT_EQ(agent->server->grants().ports(), 0u);
    next(TestAgent::small_config());
  }
  expect_adopted();
}

TEST_F(AdoptionTest, TakesTheMemoryBackThatAProgramKeeps) {
  const std::vector<std::byte> bytes(65536, std::byte{1});
  ASSERT_EQ(pwrite(had->fds[3].get(), bytes.data(), bytes.size(), 0), 65536);
  expect_adopted();
  let_ports_go();
  expect_nothing_left();
  struct stat status {};
  ASSERT_EQ(fstat(had->fds[3].get(), &status), 0);
  EXPECT_EQ(status.st_blocks, 0);
}

TEST_F(AdoptionTest, IsForWhoHasThePortsFiles) {
  const Descriptor other = make_sealed_memory("other", had->hello.granted_segment_bytes);
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const Descriptor from(ends[0]), to(ends[1]);
  const Descriptor same_disk(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  for (const int granted_segment : {other.get(), had->fds[3].get(), from.get(), same_disk.get(), -1, 1 << 30,
                         -2147483647 - 1}) {
    control::Adopt message = adopt();
    message.granted_segment = granted_segment;
    expect_refused(message, "it does not have the port's granted segment");
  }
  for (const int umem : {other.get(), had->fds[4].get(), from.get(), same_disk.get(), -1}) {
    control::Adopt message = adopt();
    message.umem = umem;
    expect_refused(message, "it does not have the port's buffers");
  }
  EXPECT_EQ(agent->counters.refused_adoption, 12u);
  EXPECT_EQ(agent->ports.admitted, 0u);
  expect_adopted();
}

TEST_F(AdoptionTest, IsOfAPortThatWasLeft) {
  control::Adopt message = adopt();
  ++message.port[0];
  expect_refused(message, "no such port");
  message = adopt();
  std::strcpy(message.device, "nic1");
  expect_refused(message, "no ports on the second one");
  std::strcpy(message.device, "nic7");
  expect_refused(message, "no device");
  TestProgram program(agent->socket());
  ASSERT_TRUE(ask(program, adopt()));
  TestProgram second(agent->socket());
  const auto answer = ask(second, adopt());
  ASSERT_TRUE(answer);
  EXPECT_THAT(answer->hello.reason, HasSubstr("no such port")) << "it is taken";
  EXPECT_EQ(agent->server->sessions(), 1u);
}

TEST_F(AdoptionTest, IsForTheSameUser) {
  agent->server->hand_over();
  agent->ports.remains.front().second.user = getuid() + 1;
  agent->server->inherit(*agent->nics[0]);
  expect_refused(adopt(), "no such port of user");
}

TEST_F(AdoptionTest, IsNotForWhoMayHaveNoPortAnyMore) {
  Config config = TestAgent::small_config();
  config.placement = Placement::kHosted;
  agent->server->hand_over();
  next(config);
  expect_refused(adopt(), "placement = \"hosted\"");
  config = TestAgent::small_config();
  config.granted.access.users = {getuid() + 1};
  agent->server->hand_over();
  next(config);
  if (getuid() != 0) expect_refused(adopt(), "may not have a port");
}

TEST_F(AdoptionTest, IsRefusedWhereTheLimitsAreOthers) {
  Config config = TestAgent::small_config();
  config.limits.vis = 128;
  agent->server->hand_over();
  next(config);
  expect_refused(adopt(), "other limits");
}

TEST_F(AdoptionTest, RequestsAreChecked) {
  control::Adopt message = adopt();
  message.layout_version = 77;
  expect_refused(message, "the program 77");
  message = adopt();
  std::memset(message.device, 'x', sizeof message.device);
  expect_refused(message, "has no end");
  TestProgram program(agent->socket());
  std::byte room[sizeof message + 4] = {};
  message = adopt();
  message.head.bytes = sizeof room;
  std::memcpy(room, &message, sizeof message);
  program.say(room, sizeof room);
  agent->run();
  const auto answer = program.answer();
  ASSERT_TRUE(answer);
  EXPECT_THAT(answer->hello.reason, HasSubstr("not as long as an adoption"));
  expect_adopted();
}

TEST_F(AdoptionTest, APortThatNobodyHasAnyMoreIsRemovedAtOnce) {
  EXPECT_LE(agent->server->next_deadline(), monotonic_ns() + kNsPerSecond);
  let_ports_go();
  expect_nothing_left();
  EXPECT_EQ(agent->counters.ports_given_up, 1u);
  EXPECT_EQ(agent->ports.admitted, 0u);
  expect_refused(adopt(), "no such port");
}

TEST_F(AdoptionTest, APortThatNobodyComesForIsRemovedInTheEnd) {
  agent->server->tick(monotonic_ns() + (kReattachMs - 1'000) * kNsPerMs);
  agent->run();
  EXPECT_EQ(agent->ports.gone, 0u);
  agent->server->tick(monotonic_ns() + (kReattachMs + 1'000) * kNsPerMs);
  agent->run();
  EXPECT_EQ(agent->ports.gone, 1u);
  EXPECT_EQ(agent->counters.ports_given_up, 1u);
  EXPECT_EQ(agent->counters.ports_kept, 1u);
  EXPECT_EQ(agent->server->grants().ports(), 1u) << "the socket is kept";
  expect_refused(adopt(), "no such port");
}

TEST_F(AdoptionTest, PortsThatWereLeftCount) {
  Config config = TestAgent::small_config();
  config.granted.ports = 1;
  agent->server->hand_over();
  next(config);
  TestProgram program(agent->socket());
  program.say(TestProgram::hello("nic0", Placement::kGranted));
  agent->run();
  const auto answer = program.answer();
  ASSERT_TRUE(answer);
  EXPECT_THAT(answer->hello.reason, HasSubstr("all 1 ports are in use"));
  expect_adopted();
}

TEST_F(AdoptionTest, NothingIsLeftByAnAgentThatEnds) {
  TestProgram program(agent->socket());
  const auto answer = ask(program, adopt());
  ASSERT_TRUE(answer);
  void* const segment =
      mmap(nullptr, answer->hello.segment_bytes, PROT_READ, MAP_SHARED, answer->fds[0].get(), 0);
  ASSERT_NE(segment, MAP_FAILED);
  const layout::View control_session(segment, answer->hello.capacity);
  agent->server->end_all();
  EXPECT_EQ(control_session.header().closed.load(), 1u);
  munmap(segment, answer->hello.segment_bytes);
  let_ports_go();
  EXPECT_EQ(agent->ports.left, 0u);
  expect_nothing_left();
}

TEST_F(AdoptionTest, AnAgentThatHandsOverDoesNotEndTheSession) {
  TestProgram program(agent->socket());
  const auto answer = ask(program, adopt());
  ASSERT_TRUE(answer);
  void* const segment =
      mmap(nullptr, answer->hello.segment_bytes, PROT_READ, MAP_SHARED, answer->fds[0].get(), 0);
  ASSERT_NE(segment, MAP_FAILED);
  const layout::View control_session(segment, answer->hello.capacity);
  agent->server->hand_over();
  EXPECT_TRUE(program.closed());
  EXPECT_EQ(control_session.header().closed.load(), 0u);
  munmap(segment, answer->hello.segment_bytes);
  EXPECT_EQ(agent->ports.left, 1u);
  EXPECT_TRUE(agent->ports.sent.empty());
  expect_nothing_left();
}

TEST_F(AdoptionTest, CanBeSwitchedOff) {
  Config config = TestAgent::small_config();
  config.granted.reattach_ms = 0;
  agent->server->hand_over();
  next(config);
  agent->run();
  EXPECT_EQ(agent->server->grants().inherited(), 0u);
  EXPECT_EQ(agent->ports.gone, 1u);
  expect_refused(adopt(), "no such port");
  TestProgram program(agent->socket());
  program.say(TestProgram::hello("nic0", Placement::kGranted));
  agent->run();
  ASSERT_TRUE(program.answer());
  agent->server->hand_over();
  EXPECT_EQ(agent->ports.left, 0u);
}

}  // namespace
}  // namespace viaduct
