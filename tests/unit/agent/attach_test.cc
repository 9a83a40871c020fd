// Processes that attach to a session of their family, as the agent sees them. They are all in this
// process here, but for those of another user.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <memory>

#include "kagent/agent/process/log.h"
#include "tests/unit/agent/agent_fixture.h"

namespace viaduct {
namespace {

using testing::HasSubstr;

constexpr uid_t kNobody = 65534;

class AttachTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { log::open(log::Target::kStandardError, "", "off"); }

  template <class Message>
  std::optional<TestProgram::Answer> ask(TestProgram& program, const Message& message) {
    program.say(message);
    agent->run();
    return program.answer();
  }
  static control::Attach attach(const TestProgram::Answer& family) {
    control::Attach out{};
    out.head.kind = static_cast<std::uint16_t>(control::Kind::kAttach);
    out.head.bytes = sizeof out;
    out.family = family.hello.family;
    out.parent = family.hello.program_id;
    out.forks = 1;
    return out;
  }
  // The first process of a family.
  std::unique_ptr<TestProgram> open(control::Placement placement = control::Placement::kHosted) {
    auto program = std::make_unique<TestProgram>(agent->socket());
    program->say(TestProgram::hello("nic0", placement));
    agent->run();
    first = program->answer();
    EXPECT_TRUE(first && first->hello.head.result == vip::kSuccess);
    return program;
  }
  std::unique_ptr<TestProgram> join() {
    auto program = std::make_unique<TestProgram>(agent->socket());
    program->say(attach(*first));
    agent->run();
    joined = program->answer();
    return program;
  }
  void expect_refusal(TestProgram& program, const char* reason) {
    agent->run();
    const auto answer = program.answer();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->hello.head.result, std::uint32_t{vip::kErrorResource});
    EXPECT_THAT(answer->hello.reason, HasSubstr(reason));
    EXPECT_TRUE(answer->fds.empty());
    EXPECT_TRUE(program.closed());
  }
  Stack::Usage usage() const { return agent->nics[0]->stack().usage(); }
  // Whether the agent reaches the memory of a program of the stack's.
  bool reaches(std::uint32_t program) const {
    char there[] = "there", here[sizeof there] = {};
    const iovec remote{there, sizeof there}, local{here, sizeof here};
    return agent->nics[0]->environment().read_program(program, {}, {&remote, 1}, {&local, 1}) &&
           std::strcmp(here, "there") == 0;
  }
  std::uint32_t attached_program() const { return agent->nics[0]->limits().sessions; }
  bool ended() const {
    layout::Header header{};
    EXPECT_EQ(pread(first->fds[0].get(), static_cast<void*>(&header), 128, 0), 128);
    return header.closed.load() != 0;
  }

  std::unique_ptr<TestAgent> agent = std::make_unique<TestAgent>();
  std::optional<TestProgram::Answer> first, joined;
};

TEST_F(AttachTest, GivesTheSameSessionAndAChimeOfOnesOwn) {
  const auto parent = open();
  const auto child = join();
  ASSERT_TRUE(joined);
  EXPECT_EQ(joined->hello.head.result, vip::kSuccess);
  EXPECT_EQ(joined->hello.member, 1u);
  EXPECT_NE(joined->hello.program_id, first->hello.program_id);
  ASSERT_EQ(joined->fds.size(), control::kHostedDescriptors);
  EXPECT_EQ(number_of(joined->fds[0].get()), number_of(first->fds[0].get()));
  agent->nics[0]->environment().poll_wake(attached_program());
  char byte;
  EXPECT_EQ(recv(joined->fds[2].get(), &byte, 1, MSG_DONTWAIT), 1);
  EXPECT_LT(recv(first->fds[2].get(), &byte, 1, MSG_DONTWAIT), 0);
  EXPECT_EQ(agent->server->sessions(), 1u);
  EXPECT_EQ(usage().members, 1u);
  EXPECT_EQ(agent->counters.processes_attached, 1u);
}

TEST_F(AttachTest, NeedsTheSecretToTheLastBit) {
  const auto parent = open();
  for (unsigned bit = 0; bit < 8 * sizeof(control::FamilySecret); bit += 5) {
    control::Attach wrong = attach(*first);
    wrong.family.bytes[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
    TestProgram child(agent->socket());
    child.say(wrong);
    expect_refusal(child, "no session of that family");
  }
  EXPECT_EQ(usage().members, 0u);
  EXPECT_GT(agent->counters.refused_attachment, 20u);
}

TEST_F(AttachTest, HasSecretsThatDiffer) {
  const auto one = open();
  const control::FamilySecret secret = first->hello.family;
  const auto other = open();
  EXPECT_NE(std::memcmp(&secret, &first->hello.family, sizeof secret), 0);
}

TEST_F(AttachTest, RefusesAnotherUser) {
  if (getuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  const auto parent = open();
  const pid_t child = fork();
  if (child == 0) {
    if (setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(1);
    TestProgram program(agent->socket());
    fcntl(program.fd(), F_SETFL, 0);
    program.say(attach(*first));
    const auto answer = program.answer();
    const bool refused = answer && answer->hello.head.result == vip::kErrorResource &&
                         std::strstr(answer->hello.reason, "another user") != nullptr;
    _exit(refused && answer->fds.empty() ? 0 : 1);
  }
  int status = -1;
  while (waitpid(child, &status, WNOHANG) == 0) agent->loop.poll(10'000'000);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(usage().members, 0u);
}

TEST_F(AttachTest, RefusesMalformedOnes) {
  const auto parent = open();
  TestProgram child(agent->socket());
  control::Attach late = attach(*first);
  late.layout_version = layout::kLayoutVersion - 1;
  const auto answer = ask(child, late);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->hello.head.result, std::uint32_t{vip::kNotSupported});
  for (const control::Kind kind : {control::Kind::kNewcomer, control::Kind::kJoin}) {
    TestProgram other(agent->socket());
    control::MessageHead head;
    head.kind = static_cast<std::uint16_t>(kind);
    head.bytes = sizeof head;
    const auto said = ask(other, head);
    ASSERT_TRUE(said);
    EXPECT_EQ(said->hello.head.result, std::uint32_t{vip::kInvalidParameter});
  }
}

TEST_F(AttachTest, ReachesTheMemoryOfEach) {
  const auto parent = open();
  EXPECT_FALSE(reaches(attached_program()));
  const auto child = join();
  EXPECT_TRUE(reaches(0));
  EXPECT_TRUE(reaches(attached_program()));
  child->close();
  agent->run();
  EXPECT_TRUE(reaches(0));
  EXPECT_FALSE(reaches(attached_program()));
}

TEST_F(AttachTest, LeavesTheSessionToTheOthers) {
  const auto parent = open();
  const auto child = join();
  child->close();
  agent->run();
  EXPECT_EQ(usage().members, 0u);
  EXPECT_EQ(agent->server->sessions(), 1u);
  EXPECT_FALSE(ended());
  parent->close();
  agent->run();
  EXPECT_EQ(agent->server->sessions(), 0u);
  EXPECT_TRUE(ended());
}

TEST_F(AttachTest, OutlivesTheFirstProcess) {
  const auto parent = open();
  const auto child = join();
  parent->close();
  agent->run();
  EXPECT_EQ(agent->server->sessions(), 1u);
  EXPECT_FALSE(ended());
  EXPECT_FALSE(reaches(0));
  EXPECT_TRUE(reaches(attached_program()));
  // Others may still come.
  const auto another = join();
  ASSERT_TRUE(joined);
  EXPECT_EQ(joined->hello.member, 2u);
  child->close();
  agent->run();
  EXPECT_EQ(agent->server->sessions(), 1u);
  another->close();
  agent->run();
  EXPECT_EQ(agent->server->sessions(), 0u);
  EXPECT_TRUE(ended());
  EXPECT_EQ(usage().sessions, 0u);
  EXPECT_EQ(usage().members, 0u);
}

TEST_F(AttachTest, EndsForAProcessThatSpeaksAgain) {
  const auto parent = open();
  const auto child = join();
  child->say(attach(*first));
  agent->run();
  EXPECT_TRUE(child->closed());
  EXPECT_EQ(usage().members, 0u);
  EXPECT_EQ(agent->server->sessions(), 1u);
}

TEST_F(AttachTest, EndsWithTheInterface) {
  const auto parent = open();
  const auto child = join();
  agent->server->end_sessions(*agent->nics[0]);
  EXPECT_TRUE(parent->closed());
  EXPECT_TRUE(child->closed());
  EXPECT_TRUE(ended());
  EXPECT_EQ(usage().members, 0u);
}

TEST_F(AttachTest, CountsAgainstTheUser) {
  if (getuid() == 0) {
    // Root has no limit, so the child of this test becomes another user.
    const pid_t child = fork();
    if (child == 0) {
      if (setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(1);
      prctl(PR_SET_DUMPABLE, 1);
      Config config = TestAgent::small_config();
      config.sessions_per_user = 2;
      agent = std::make_unique<TestAgent>(config);
      const auto parent = open();
      const auto one = join();
      if (!joined || joined->hello.head.result != vip::kSuccess) _exit(2);
      const auto other = join();
      _exit(joined && joined->hello.head.result == vip::kErrorResource ? 0 : 3);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

TEST_F(AttachTest, LinksTheProcessesOfAGrantedSession) {
  const auto parent = open(control::Placement::kGranted);
  ASSERT_EQ(first->fds.size(), control::kGrantedDescriptors);
  const auto child = join();
  ASSERT_TRUE(joined);
  ASSERT_EQ(joined->hello.head.result, vip::kSuccess);
  ASSERT_EQ(joined->fds.size(), control::kAttachedDescriptors);
  EXPECT_EQ(number_of(joined->fds[2].get()), number_of(first->fds[4].get())) << "the granted segment";
  EXPECT_NE(number_of(joined->fds[0].get()), number_of(joined->fds[2].get()));
  const auto told = parent->answer();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->bytes, sizeof(control::MessageHead));
  EXPECT_EQ(told->hello.head.kind, static_cast<std::uint16_t>(control::Kind::kNewcomer));
  ASSERT_EQ(told->fds.size(), 1u);
  EXPECT_EQ(send(told->fds[0].get(), "x", 1, MSG_NOSIGNAL), 1);
  char byte = 0;
  EXPECT_EQ(recv(joined->fds[3].get(), &byte, 1, MSG_DONTWAIT), 1);
  EXPECT_EQ(byte, 'x');
  // No other process has the link.
  joined->fds.clear();
  EXPECT_LT(send(told->fds[0].get(), "x", 1, MSG_NOSIGNAL), 0);
}

TEST_F(AttachTest, EndsWithTheFirstProcessOfAGrantedSession) {
  const auto parent = open(control::Placement::kGranted);
  const auto child = join();
  parent->close();
  agent->run();
  EXPECT_TRUE(child->closed());
  EXPECT_EQ(agent->server->sessions(), 0u);
  EXPECT_EQ(usage().members, 0u);
}

TEST_F(AttachTest, RefusesWhenTheFirstProcessDoesNotListen) {
  const auto parent = open(control::Placement::kGranted);
  std::vector<std::unique_ptr<TestProgram>> children;
  for (int i = 0; i < 120; ++i) {
    children.push_back(join());
    if (!joined || joined->hello.head.result != vip::kSuccess) break;
  }
  agent->run();
  EXPECT_LE(usage().members, children.size());
  for (auto& child : children) child->close();
  agent->run();
  EXPECT_EQ(usage().members, 0u);
  EXPECT_EQ(agent->server->sessions(), 1u);
}

}  // namespace
}  // namespace viaduct
