// Programs at the control socket, well meant and hostile.
#include "kagent/agent/service/session_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <thread>

#include "kagent/agent/control/counters_client.h"
#include "kagent/agent/control/user_share.h"
#include "kagent/agent/process/log.h"
#include "tests/unit/agent/agent_fixture.h"
#include "tests/unit/agent/every_counter.h"

namespace viaduct {
namespace {

[[maybe_unused]] const testing::Environment* const every_counter_moves =
    testing::AddGlobalTestEnvironment(new EveryCounterMoves(EveryCounterMoves::others()));

using testing::HasSubstr;

constexpr uid_t kNobody = 65534;

std::size_t open_descriptors() {
  std::size_t count = 0;
  for (int fd = 0; fd < 4096; ++fd) count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

class SessionServerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { log::open(log::Target::kStandardError, "", "off"); }

  // Makes the agent anew with other settings.
  void configure(const Config& config) {
    agent.reset();
    agent = std::make_unique<TestAgent>(config);
  }

  // Says `message`, and returns what is answered.
  template <class Message>
  std::optional<TestProgram::Answer> ask(TestProgram& program, const Message& message) {
    program.say(message);
    agent->run();
    return program.answer();
  }

  // An idle thread of a user costs a descriptor.
  void end_idle_threads() {
    agent->run();
    agent->server->threads().look(monotonic_ns() + 3600 * kNsPerSecond);
  }

  // That the program is answered with `result` and `reason`, and hung up on.
  void expect_refusal(TestProgram& program, std::uint32_t result, const char* reason) {
    agent->run();
    const auto answer = program.answer();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->bytes, sizeof(control::HelloAnswer));
    EXPECT_EQ(answer->hello.head.magic, control::kMagic);
    EXPECT_EQ(answer->hello.head.bytes, sizeof(control::HelloAnswer));
    EXPECT_EQ(answer->hello.head.result, result);
    EXPECT_THAT(answer->hello.reason, HasSubstr(reason));
    EXPECT_TRUE(answer->fds.empty());
    EXPECT_TRUE(program.closed());
    EXPECT_EQ(agent->server->waiting(), 0u);
    EXPECT_EQ(agent->server->sessions(), 0u);
  }

  std::unique_ptr<TestAgent> agent = std::make_unique<TestAgent>();
};

TEST_F(SessionServerTest, GivesASessionToAProgramThatAsks) {
  TestProgram program(agent->socket());
  const auto answer = ask(program, TestProgram::hello("VINIC1"));
  ASSERT_TRUE(answer);
  const control::HelloAnswer& hello = answer->hello;
  EXPECT_EQ(answer->bytes, sizeof hello);
  EXPECT_EQ(hello.head.result, vip::kSuccess);
  EXPECT_EQ(hello.head.bytes, sizeof hello);
  EXPECT_STREQ(hello.reason, "");
  EXPECT_EQ(hello.capacity.vis, 64u);
  EXPECT_EQ(hello.busy_poll_us, 50u);
  EXPECT_STREQ(hello.nic.name, "via1");
  EXPECT_EQ(hello.nic.address[5], 2);
  EXPECT_EQ(hello.nic.native_mtu, 1500u);
  EXPECT_GE(hello.nic.max_discriminator, 16u);
  EXPECT_EQ(hello.segment_bytes, layout::Offsets(hello.capacity).total);
  ASSERT_EQ(answer->fds.size(), 3u);

  const int segment = answer->fds[0].get();
  EXPECT_EQ(lseek(segment, 0, SEEK_END), static_cast<off_t>(hello.segment_bytes));
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  EXPECT_EQ(fcntl(segment, F_GET_SEALS) & kSeals, kSeals);
  EXPECT_NE(ftruncate(segment, 4096), 0);
  layout::Header header_copy{};
  ASSERT_EQ(pread(segment, static_cast<void*>(&header_copy), 64, 0), 64);
  EXPECT_EQ(header_copy.magic, layout::kMagic);
  EXPECT_EQ(header_copy.bytes, hello.segment_bytes);
  const std::uint64_t one = 1;
  EXPECT_EQ(write(answer->fds[1].get(), &one, sizeof one), 8);
  EXPECT_EQ(agent->server->sessions(), 1u);
  EXPECT_EQ(agent->nics[1]->stack().usage().sessions, 1u);
}

TEST_F(SessionServerTest, EndsASessionWhenTheProgramCloses) {
  const std::size_t before = open_descriptors();
  {
    TestProgram program(agent->socket());
    ASSERT_TRUE(ask(program, TestProgram::hello()));
    EXPECT_GT(open_descriptors(), before);
  }
  end_idle_threads();
  EXPECT_EQ(agent->server->sessions(), 0u);
  EXPECT_EQ(agent->nics[0]->stack().usage().sessions, 0u);
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(agent->counters.sessions_closed, 1u);
}

TEST_F(SessionServerTest, RunsTheCommandsOfASession) {
  TestProgram program(agent->socket());
  const auto answer = ask(program, TestProgram::hello());
  ASSERT_TRUE(answer);
  const std::size_t bytes = answer->hello.segment_bytes;
  void* const base =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, answer->fds[0].get(), 0);
  ASSERT_NE(base, MAP_FAILED);
  const layout::View view(base, answer->hello.capacity);
  view.command(0).body.op = layout::Op::kCreatePtag;
  view.command(0).state.store(layout::kSubmitted);
  view.header().doorbells.ring(layout::command_bit(0));
  agent->run();
  EXPECT_EQ(view.command(0).state.load(), layout::kFinished);
  EXPECT_EQ(view.command(0).body.result, vip::kSuccess);
  EXPECT_EQ(agent->nics[0]->stack().usage().ptags, 1u);
  program.close();
  agent->run();
  EXPECT_EQ(agent->nics[0]->stack().usage().ptags, 0u);
  EXPECT_EQ(view.header().closed.load(), 1u);
  munmap(base, bytes);
}

TEST_F(SessionServerTest, ReachesTheMemoryOfTheProgramThatAsked) {
  TestProgram program(agent->socket());
  ASSERT_TRUE(ask(program, TestProgram::hello()));
  char there[] = "there", here[sizeof there] = {};
  const iovec remote{there, sizeof there}, local{here, sizeof here};
  EXPECT_TRUE(agent->nics[0]->environment().read_program(0, {}, {&remote, 1}, {&local, 1}));
  EXPECT_STREQ(here, "there");
  program.close();
  agent->run();
  EXPECT_FALSE(agent->nics[0]->environment().read_program(0, {}, {&remote, 1}, {&local, 1}));
}

TEST_F(SessionServerTest, EndsASessionThatSpeaksAgain) {
  TestProgram program(agent->socket());
  ASSERT_TRUE(ask(program, TestProgram::hello()));
  program.say(TestProgram::hello());
  agent->run();
  EXPECT_TRUE(program.closed());
  EXPECT_EQ(agent->server->sessions(), 0u);
  EXPECT_EQ(agent->counters.sessions_broken, 1u);
}

TEST_F(SessionServerTest, RefusesUnknownDevices) {
  for (const char* device : {"nic2", "eth0", "", "/dev/null", "\x1b[31mnic0"}) {
    TestProgram program(agent->socket());
    program.say(TestProgram::hello(device));
    expect_refusal(program, vip::kInvalidParameter, "there is no device");
  }
  EXPECT_EQ(agent->counters.refused_device, 5u);
}

TEST_F(SessionServerTest, RefusesADeviceNameWithoutEnd) {
  control::Hello hello = TestProgram::hello();
  std::memset(hello.device, 'n', sizeof hello.device);
  TestProgram program(agent->socket());
  program.say(hello);
  expect_refusal(program, vip::kInvalidParameter, "no end");
}

TEST_F(SessionServerTest, RefusesOtherVersions) {
  control::Hello hello = TestProgram::hello();
  hello.head.version = control::kVersion + 1;
  TestProgram program(agent->socket());
  program.say(hello);
  expect_refusal(program, vip::kNotSupported, "version");

  hello = TestProgram::hello();
  hello.layout_version = 99;
  TestProgram other(agent->socket());
  other.say(hello);
  expect_refusal(other, vip::kNotSupported, "99");
  EXPECT_EQ(agent->counters.refused_version, 2u);
}

TEST_F(SessionServerTest, RefusesMessagesThatAreNotWhatTheySay) {
  const auto refused = [this](control::Hello hello, std::size_t bytes, const char* reason) {
    TestProgram program(agent->socket());
    std::byte room[1024] = {};
    std::memcpy(room, &hello, sizeof hello);
    ASSERT_TRUE(program.say(room, bytes));
    expect_refusal(program, vip::kInvalidParameter, reason);
  };
  control::Hello hello = TestProgram::hello();
  refused(hello, 1, "shorter");
  refused(hello, sizeof hello - 1, "not as long as it says");
  refused(hello, sizeof hello + 1, "not as long as it says");
  refused(hello, 512, "not as long as it says");
  refused(hello, 513, "too long");
  refused(hello, 1024, "too long");
  hello.head.bytes = 16;
  refused(hello, 16, "not as long as a hello");
  hello = TestProgram::hello();
  hello.head.magic = 0x20544547;
  refused(hello, sizeof hello, "not of this protocol");
  hello = TestProgram::hello();
  hello.head.kind = 7;
  refused(hello, sizeof hello, "no known kind");
  hello = TestProgram::hello();
  hello.placement = 3;
  refused(hello, sizeof hello, "placement");
  hello = TestProgram::hello();
  hello.head.kind = static_cast<std::uint16_t>(control::Kind::kCounters);
  refused(hello, sizeof hello, "counters");
  EXPECT_EQ(agent->counters.refused_message, 11u);
}

TEST_F(SessionServerTest, SurvivesGarbage) {
  unsigned seed = 1;
  for (int i = 0; i < 300; ++i) {
    TestProgram program(agent->socket());
    std::byte room[700];
    for (std::byte& byte : room) byte = static_cast<std::byte>(seed = seed * 1103515245 + 12345);
    program.say(room, 1 + (seed >> 8) % sizeof room);
    agent->run();
    const auto answer = program.answer();
    ASSERT_TRUE(answer);
    EXPECT_NE(answer->hello.head.result, vip::kSuccess);
    EXPECT_TRUE(program.closed());
  }
  EXPECT_EQ(agent->server->waiting(), 0u);
}

TEST_F(SessionServerTest, AnswersOneOfManyMessagesSentAtOnce) {
  TestProgram program(agent->socket());
  control::Hello hello = TestProgram::hello("nic9");
  for (int i = 0; i < 5; ++i) program.say(hello);
  agent->run();
  const auto answer = program.answer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->hello.head.result, vip::kInvalidParameter);
  EXPECT_TRUE(program.closed());
}

// Two ends of a TCP connection of which the first can't send all that it has, and lingers if it is
// closed.
std::pair<Descriptor, Descriptor> lingering_connection() {
  const Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  listen(listener.get(), 1);
  getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &bytes);
  Descriptor one(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  connect(one.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  Descriptor other(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const std::vector<char> data(65536);
  while (send(one.get(), data.data(), data.size(), MSG_DONTWAIT) > 0) continue;
  const linger long_time{1, 60};
  setsockopt(one.get(), SOL_SOCKET, SO_LINGER, &long_time, sizeof long_time);
  return {std::move(one), std::move(other)};
}

// As before Linux 6.16, where SO_PASSRIGHTS does not keep descriptors away. The listening socket is
// this process's own.
void let_descriptors_pass(std::size_t descriptors) {
  constexpr int kPassRights = 83;
  for (int fd = 3; fd < static_cast<int>(descriptors) + 64; ++fd) {
    int listens = 0;
    const int on = 1;
    socklen_t bytes = sizeof listens;
    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes);
    if (listens != 0) setsockopt(fd, SOL_SOCKET, kPassRights, &on, sizeof on);
  }
}

TEST_F(SessionServerTest, RefusesDescriptorsAndClosesThem) {
  let_descriptors_pass(open_descriptors());
  const std::size_t before = open_descriptors();
  {
    const std::vector<int> fds(100, STDERR_FILENO);
    const control::Hello hello = TestProgram::hello();
    TestProgram program(agent->socket());
    ASSERT_TRUE(program.say(&hello, sizeof hello, fds));
    expect_refusal(program, vip::kInvalidParameter, "descriptors");
    TestProgram good(agent->socket());
    ASSERT_EQ(ask(good, TestProgram::hello())->hello.head.result, vip::kSuccess);
    ASSERT_TRUE(good.say(&hello, sizeof hello, fds));
    agent->run();
    EXPECT_TRUE(good.closed());
  }
  end_idle_threads();
  EXPECT_EQ(open_descriptors(), before);
}

// A descriptor that lingers when it is closed must not hold the service: in a request, behind one, empty, and on a
// connection that was given up.
TEST_F(SessionServerTest, NeverWaitsForADescriptorThatAProgramSends) {
  let_descriptors_pass(open_descriptors());
  const std::byte bytes[sizeof(control::Hello)]{};
  const control::Hello hello = TestProgram::hello("nic9");
  for (const std::string_view how : {"request", "behind", "empty", "silent"}) {
    SCOPED_TRACE(how);
    auto [lingers, other] = lingering_connection();
    TestProgram program(agent->socket());
    if (how == "behind" || how == "silent") agent->loop.poll(0);
    EXPECT_TRUE(how != "behind" || program.say(hello));
    const int fd = lingers.get();
    ASSERT_TRUE(program.say(bytes, how == "empty" ? 0 : sizeof bytes, {&fd, 1}));
    lingers.close();
    program.close();
    if (how == "silent") agent->server->tick(monotonic_ns() + RequestListener::kPatienceNs);
    while (agent->loop.poll(0) != 0 || agent->server->waiting() != 0) continue;
    if (how == "behind") {
      while (agent->counters.refused_device == 0) agent->loop.poll(1'000'000);
    }
    // It lingers in the user's thread, until its peer has gone.
    EXPECT_EQ(agent->server->threads().busy(getuid()), 1u);
    const linger reset{1, 0};
    setsockopt(other.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    other.close();
    agent->run();
  }
}

// The kernel keeps descriptors away where it can; from the poll wakes always.
TEST_F(SessionServerTest, TakesNoDescriptorsOnItsSockets) {
  TestProgram program(agent->socket());
  const auto answer = ask(program, TestProgram::hello());
  ASSERT_TRUE(answer);
  const char anything = 0;
  EXPECT_LT(send(answer->fds.back().get(), &anything, 1, MSG_NOSIGNAL | MSG_DONTWAIT), 0);
  int passes = 1;
  socklen_t size = sizeof passes;
  if (getsockopt(program.fd(), SOL_SOCKET, 83, &passes, &size) != 0) {
    GTEST_SKIP() << "this kernel has no SO_PASSRIGHTS";
  }
  TestProgram other(agent->socket());
  const int fd = STDERR_FILENO;
  EXPECT_FALSE(other.say(&anything, 1, {&fd, 1}));
}

TEST_F(SessionServerTest, HangsUpOnProgramsThatSayNothing) {
  TestProgram silent(agent->socket());
  agent->run();
  EXPECT_EQ(agent->server->waiting(), 1u);
  const std::uint64_t deadline = agent->server->next_deadline();
  EXPECT_LE(deadline, monotonic_ns() + RequestListener::kPatienceNs);
  agent->server->tick(deadline - 1);
  EXPECT_FALSE(silent.closed());
  agent->server->tick(deadline);
  EXPECT_TRUE(silent.closed());
  EXPECT_EQ(agent->counters.dropped_silent, 1u);
  EXPECT_EQ(agent->server->next_deadline(), ~0ull);
}

TEST_F(SessionServerTest, AcceptsLaterWhatItHasNoDescriptorFor) {
  TestProgram program(agent->socket());
  program.say(TestProgram::hello());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const Descriptor next(dup(STDERR_FILENO));
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(next.get()) + 1;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  agent->run();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(agent->counters.accept_failures, 1u);
  EXPECT_FALSE(program.answer());
  agent->server->tick(agent->server->next_deadline());
  agent->run();
  EXPECT_TRUE(program.answer());
}

// Another process has its socket.
TEST_F(SessionServerTest, KeepsTheSessionOfAProgramThatEndsWhileOthersHoldIt) {
  int gate[2];
  ASSERT_EQ(pipe(gate), 0);
  const pid_t child = fork();
  if (child == 0) {
    TestProgram program(agent->socket());
    fcntl(program.fd(), F_SETFL, 0);
    program.say(TestProgram::hello());
    if (!program.answer()) _exit(1);
    if (fork() != 0) _exit(0);
    close(gate[1]);
    char byte;
    _exit(read(gate[0], &byte, 1) < 0);
  }
  while (agent->counters.programs_ended == 0) agent->run();
  EXPECT_EQ(agent->server->sessions(), 1u);
  close(gate[0]);
  close(gate[1]);
  while (agent->server->sessions() != 0) agent->run();
  EXPECT_EQ(agent->counters.sessions_closed, 1u);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(SessionServerTest, TakesAConnectionThatIsClosedAtOnceForWhatItIs) {
  for (int i = 0; i < 50; ++i) TestProgram program(agent->socket());
  agent->run();
  EXPECT_EQ(agent->server->waiting(), 0u);
}

TEST_F(SessionServerTest, BoundsTheNumberOfSilentProgramsAndServesOthers) {
  std::vector<std::unique_ptr<TestProgram>> crowd;
  for (int i = 0; i < 400; ++i) {
    crowd.push_back(std::make_unique<TestProgram>(agent->socket()));
    if (i % 50 == 49) agent->run();
  }
  EXPECT_LE(agent->server->waiting(), RequestListener::kMostWaiting);
  EXPECT_GE(agent->counters.dropped_crowded, 400u - RequestListener::kMostWaiting);
  TestProgram program(agent->socket());
  const auto answer = ask(program, TestProgram::hello());
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->hello.head.result, vip::kSuccess);
}

TEST_F(SessionServerTest, LimitsTheSessionsOfANic) {
  std::vector<std::unique_ptr<TestProgram>> programs;
  for (int i = 0; i < 8; ++i) {
    programs.push_back(std::make_unique<TestProgram>(agent->socket()));
    const auto answer = ask(*programs.back(), TestProgram::hello("nic0"));
    ASSERT_TRUE(answer);
    ASSERT_EQ(answer->hello.head.result, vip::kSuccess);
  }
  TestProgram late(agent->socket());
  auto answer = ask(late, TestProgram::hello("nic0"));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->hello.head.result, vip::kErrorResource);
  EXPECT_THAT(answer->hello.reason, HasSubstr("all 8 sessions of via0"));
  TestProgram other(agent->socket());
  answer = ask(other, TestProgram::hello("nic1"));
  EXPECT_EQ(answer->hello.head.result, vip::kSuccess);
  programs.pop_back();
  TestProgram again(agent->socket());
  answer = ask(again, TestProgram::hello("nic0"));
  EXPECT_EQ(answer->hello.head.result, vip::kSuccess);
}

// Asks `count` times from a process of an ordinary user; returns the results and the last reason.
std::pair<std::vector<std::uint32_t>, std::string> ask_as_nobody(TestAgent& agent, int count,
                                                                 bool dumpable = true) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    if (getuid() == 0 && (setgid(kNobody) != 0 || setuid(kNobody) != 0)) _exit(1);
    prctl(PR_SET_DUMPABLE, dumpable);
    std::vector<std::unique_ptr<TestProgram>> programs;
    for (int i = 0; i < count; ++i) {
      programs.push_back(std::make_unique<TestProgram>(agent.socket()));
      fcntl(programs.back()->fd(), F_SETFL, 0);
      programs.back()->say(TestProgram::hello());
      const auto answer = programs.back()->answer();
      const std::uint32_t result = answer ? answer->hello.head.result : 99;
      char text[4 + sizeof answer->hello.reason] = {};
      std::memcpy(text, &result, 4);
      if (answer) std::memcpy(text + 4, answer->hello.reason, sizeof answer->hello.reason);
      if (write(ends[1], text, sizeof text) < 0) _exit(1);
    }
    char room[1];
    while (recv(programs.front()->fd(), room, 1, 0) > 0) continue;
    _exit(0);
  }
  close(ends[1]);
  std::pair<std::vector<std::uint32_t>, std::string> out;
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  char text[4 + sizeof control::HelloAnswer::reason];
  while (out.first.size() < static_cast<std::size_t>(count)) {
    agent.loop.poll(100'000'000);
    while (read(ends[0], text, sizeof text) == sizeof text) {
      std::uint32_t result;
      std::memcpy(&result, text, 4);
      out.first.push_back(result);
      out.second = text + 4;
    }
    if (waitpid(child, nullptr, WNOHANG) == child) break;
  }
  close(ends[0]);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  agent.run();
  return out;
}

TEST_F(SessionServerTest, LeavesSessionsToRootAndOtherUsers) {
  const auto [results, reason] = ask_as_nobody(*agent, 8);  // there are 8
  ASSERT_EQ(results.size(), 8u);
  EXPECT_EQ(std::count(results.begin(), results.end(), std::uint32_t{vip::kSuccess}), 4);
  EXPECT_THAT(reason, HasSubstr("4 that are left are for root and other users"));
}

TEST(UserShare, EachUserThatComesFindsSomething) {
  constexpr std::uint64_t kAll = 64;
  std::uint64_t used = 0;
  for (unsigned user = 0; user < 12; ++user) {
    std::uint64_t own = 0;
    for (; is_within_share(own, used, kAll); ++own) ++used;
    EXPECT_GT(own, 0u) << user;
    EXPECT_TRUE(user != 0 || own == 32);
  }
  EXPECT_LE(used, kAll - 4);  // root's
}

TEST_F(SessionServerTest, LimitsTheSessionsOfAUser) {
  Config config = TestAgent::small_config();
  config.sessions_per_user = 2;
  configure(config);
  const auto [results, reason] = ask_as_nobody(*agent, 3);
  EXPECT_EQ(results, (std::vector<std::uint32_t>{vip::kSuccess, vip::kSuccess,
                                                 vip::kErrorResource}));
  EXPECT_THAT(reason, HasSubstr("2 sessions that one user may have"));
  EXPECT_EQ(agent->server->sessions(), 0u) << "sessions of a program that was killed";
  EXPECT_EQ(ask_as_nobody(*agent, 1).first, std::vector<std::uint32_t>{vip::kSuccess});
}

// The first session takes more than all may have, and goes; the second one stays.
TEST_F(SessionServerTest, LimitsTheMemoryOfAUsersSegments) {
  if (getuid() != 0) GTEST_SKIP() << "needs root";
  Config config = TestAgent::small_config();
  config.limits.slots = 65536;
  config.user_limits.tables_mb = 8;
  configure(config);
  const pid_t child = fork();
  if (child == 0) {
    if (setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(1);
    prctl(PR_SET_DUMPABLE, 1);
    TestProgram greedy(agent->socket()), modest(agent->socket());
    std::vector<std::optional<TestProgram::Answer>> answers;
    for (TestProgram* const program : {&greedy, &modest}) {
      fcntl(program->fd(), F_SETFL, 0);
      program->say(TestProgram::hello());
      answers.push_back(program->answer());
      if (!answers.back() || answers.back()->fds.empty()) _exit(2);
    }
    const std::size_t bytes = answers[0]->hello.segment_bytes;
    void* const segment = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                               answers[0]->fds[0].get(), 0);
    constexpr std::size_t kFrom = 1 << 20, kTouched = 12 << 20;
    if (segment == MAP_FAILED || bytes < kFrom + kTouched) _exit(3);
    std::memset(static_cast<char*>(segment) + kFrom, 1, kTouched);
    char room;
    if (recv(greedy.fd(), &room, 1, 0) != 0) _exit(4);
    _exit(recv(modest.fd(), &room, 1, MSG_DONTWAIT) < 0 ? 0 : 5);
  }
  int status = -1;
  // Pages that the agent has touched make it look.
  while (waitpid(child, &status, WNOHANG) == 0) {
    constexpr std::size_t kPages = 4 << 20;
    void* const pages = mmap(nullptr, kPages, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memset(pages, 1, kPages);
    munmap(pages, kPages);
    agent->loop.poll(1'000'000);
    agent->server->tick(monotonic_ns());
  }
  EXPECT_EQ(status, 0);
  EXPECT_EQ(agent->counters.sessions_overdrawn, 1u);
}

TEST_F(SessionServerTest, LetsInWhomTheConfigurationNames) {
  if (getuid() != 0) GTEST_SKIP() << "needs root";
  Config config = TestAgent::small_config();
  config.access.users = {12345};
  configure(config);
  auto [results, reason] = ask_as_nobody(*agent, 1);
  EXPECT_EQ(results, std::vector<std::uint32_t>{vip::kErrorResource});
  EXPECT_THAT(reason, HasSubstr("user 65534 may not use VI"));
  EXPECT_EQ(agent->counters.refused_access, 1u);

  config.access.groups = {kNobody};
  configure(config);
  EXPECT_EQ(ask_as_nobody(*agent, 1).first, std::vector<std::uint32_t>{vip::kSuccess});
}

TEST_F(SessionServerTest, RefusesProgramsWhoseMemoryIsNotTheirUsers) {
  if (getuid() != 0) GTEST_SKIP() << "needs root";
  const auto [results, reason] = ask_as_nobody(*agent, 1, false);
  EXPECT_EQ(results, std::vector<std::uint32_t>{vip::kErrorResource});
  EXPECT_THAT(reason, HasSubstr("hides its memory, and gives no proof"));
  EXPECT_EQ(agent->counters.refused_program, 1u);
}

TEST_F(SessionServerTest, EndsTheSessionsOfANicThatGoesAway) {
  TestProgram first(agent->socket()), second(agent->socket());
  ASSERT_TRUE(ask(first, TestProgram::hello("nic0")));
  ASSERT_TRUE(ask(second, TestProgram::hello("nic1")));
  agent->server->end_sessions(*agent->nics[0]);
  agent->nics[0]->close();
  EXPECT_TRUE(first.closed());
  EXPECT_FALSE(second.closed());
  EXPECT_EQ(agent->counters.sessions_lost, 1u);
  TestProgram third(agent->socket());
  const auto answer = ask(third, TestProgram::hello("nic0"));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->hello.head.result, vip::kErrorResource);
  EXPECT_THAT(answer->hello.reason, HasSubstr("via0 is missing"));
  agent->nics[0]->open(monotonic_ns());
  TestProgram fourth(agent->socket());
  EXPECT_EQ(ask(fourth, TestProgram::hello("nic0"))->hello.head.result, vip::kSuccess);
}

TEST_F(SessionServerTest, TellsItsCounters) {
  control::MessageHead request;
  request.kind = static_cast<std::uint16_t>(control::Kind::kCounters);
  request.bytes = sizeof request;
  TestProgram program(agent->socket());
  const auto answer = ask(program, request);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->bytes, sizeof request);
  EXPECT_EQ(answer->hello.head.result, vip::kSuccess);
  ASSERT_EQ(answer->fds.size(), 1u);
  char text[32] = {};
  EXPECT_EQ(pread(answer->fds[0].get(), text, sizeof text, 0), 10);
  EXPECT_STREQ(text, "the table\n");
  EXPECT_NE(write(answer->fds[0].get(), text, 1), 1) << "the table can be changed";
  EXPECT_TRUE(program.closed());
}

TEST_F(SessionServerTest, TellsOfANicWithoutASession) {
  control::AskNic request{};
  request.head.kind = static_cast<std::uint16_t>(control::Kind::kNic);
  request.head.bytes = sizeof request;
  std::strcpy(request.device, "nic0");
  TestProgram program(agent->socket());
  const auto answer = ask(program, request);
  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->bytes, sizeof(control::NicAnswer));
  control::NicAnswer told;
  std::memcpy(static_cast<void*>(&told), static_cast<const void*>(&answer->hello), sizeof told);
  EXPECT_EQ(told.head.result, vip::kSuccess);
  EXPECT_STREQ(told.nic.name, "via0");
  EXPECT_EQ(told.nic.max_vis, agent->nics[0]->attributes().max_vis);
  EXPECT_TRUE(program.closed());
  EXPECT_EQ(agent->server->sessions(), 0u);

  std::strcpy(request.device, "nic9");
  TestProgram wrong(agent->socket());
  const auto refusal = ask(wrong, request);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->hello.head.result, vip::kInvalidParameter);

  std::memset(request.device, 'x', sizeof request.device);
  TestProgram endless(agent->socket());
  const auto complaint = ask(endless, request);
  ASSERT_TRUE(complaint);
  EXPECT_NE(complaint->hello.head.result, vip::kSuccess);
  EXPECT_THAT(complaint->hello.reason, HasSubstr("no end"));
}

TEST_F(SessionServerTest, DoesNotReadTheAgentWakeThatTheProgramMayHaveMadeBlock) {
  TestProgram program(agent->socket());
  const auto answer = ask(program, TestProgram::hello());
  ASSERT_TRUE(answer);
  const int agent_wake = answer->fds[1].get();
  fcntl(agent_wake, F_SETFL, 0);
  const std::uint64_t one = 1;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(write(agent_wake, &one, sizeof one), 8);
    EXPECT_EQ(agent->loop.poll(0), 1u) << "rung agent wake " << i << " was not heard";
    EXPECT_EQ(agent->loop.poll(0), 0u) << "the agent wake goes on ringing";
  }
  std::uint64_t rings = 0;
  ASSERT_EQ(read(agent_wake, &rings, sizeof rings), 8);
  EXPECT_EQ(rings, 3u);
}

// The poll wake must not block the agent, whatever the program does with its end.
TEST_F(SessionServerTest, RingsThePollWakeAndNeverWaitsForIt) {
  TestProgram program(agent->socket());
  const auto answer = ask(program, TestProgram::hello());
  ASSERT_TRUE(answer);
  const int poll_wake = answer->fds.back().get();
  fcntl(poll_wake, F_SETFL, 0);
  Environment& environment = agent->nics[0]->environment();
  char anything[8];
  EXPECT_LT(recv(poll_wake, anything, sizeof anything, MSG_DONTWAIT), 0);
  environment.poll_wake(0);
  EXPECT_EQ(recv(poll_wake, anything, sizeof anything, MSG_DONTWAIT), 1);
  for (int i = 0; i < 100'000; ++i) environment.poll_wake(0);
  pollfd heard{poll_wake, POLLIN, 0};
  EXPECT_EQ(poll(&heard, 1, 0), 1);
  shutdown(poll_wake, SHUT_RDWR);
  environment.poll_wake(0);
  program.close();
  agent->run();
  environment.poll_wake(0);
}

TEST(ListenSocketTest, RefusesASecondAgentOnTheSameName) {
  const std::string name = "@viaduct-second-" + std::to_string(getpid());
  const ListenSocket first(name);
  EXPECT_THROW(ListenSocket second(name, 0), SocketError);
}

// Lets go of its name when another one has begun to ask for it.
class Leaving {
 public:
  explicit Leaving(const std::string& name) : socket_(std::make_unique<ListenSocket>(name)) {
    thread_ = std::thread([this] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      socket_.reset();
    });
  }
  ~Leaving() { thread_.join(); }

 private:
  std::unique_ptr<ListenSocket> socket_;
  std::thread thread_;
};
constexpr unsigned kPatientMs = 60'000;

TEST(ListenSocketTest, WaitsForAnAgentThatIsGoing) {
  const std::string name = "@viaduct-going-" + std::to_string(getpid());
  const Leaving first(name);
  EXPECT_NO_THROW(ListenSocket second(name, kPatientMs));
}

class PathSocketTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(mkdtemp(folder_), nullptr); }
  void TearDown() override {
    unlink(path().c_str());
    EXPECT_EQ(rmdir(folder_), 0) << "something was left behind";
  }
  std::string path() const { return std::string(folder_) + "/socket"; }
  std::string complaint() const {
    try {
      ListenSocket socket(path(), 0);
      return "";
    } catch (const SocketError& error) {
      return error.what();
    }
  }

  char folder_[32] = "/tmp/viaduct-test-XXXXXX";
};

TEST_F(PathSocketTest, IsForEverybodyAndGoesWithTheAgent) {
  {
    const ListenSocket socket(path());
    struct stat status{};
    ASSERT_EQ(stat(path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0666u);
    EXPECT_TRUE(TestProgram(path()).connected());
  }
  EXPECT_NE(access(path().c_str(), F_OK), 0);
}

TEST_F(PathSocketTest, RefusesWhereAnotherAgentAnswers) {
  const ListenSocket socket(path());
  EXPECT_THAT(complaint(), HasSubstr("another agent answers there"));
  EXPECT_TRUE(TestProgram(path()).connected()) << "the first agent lost its path";
}

TEST_F(PathSocketTest, WaitsForAnAgentThatIsGoing) {
  const Leaving first(path());
  EXPECT_NO_THROW(ListenSocket second(path(), kPatientMs));
}

TEST_F(PathSocketTest, ReplacesWhatADeadAgentLeft) {
  {
    const Descriptor fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const SocketAddress address(path());
    ASSERT_EQ(bind(fd.get(), address.get(), address.bytes), 0);
  }
  EXPECT_EQ(complaint(), "");
}

TEST_F(PathSocketTest, LeavesOtherFilesAlone) {
  std::ofstream(path()) << "precious";
  EXPECT_THAT(complaint(), HasSubstr("is no socket"));
  std::string text;
  std::ifstream(path()) >> text;
  EXPECT_EQ(text, "precious");
}

TEST_F(PathSocketTest, DoesNotRemoveThePathOfItsSuccessor) {
  auto first = std::make_unique<ListenSocket>(path());
  unlink(path().c_str());
  const ListenSocket second(path());
  first.reset();
  EXPECT_TRUE(TestProgram(path()).connected());
}

TEST(CountersClient, SaysThatThereIsNoAgent) {
  try {
    fetch_counters("@viaduct-nobody-" + std::to_string(getpid()));
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no agent at @viaduct-nobody"));
  }
}

}  // namespace
}  // namespace viaduct
