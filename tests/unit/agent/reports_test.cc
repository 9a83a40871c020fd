// Reports to an operator's tool, and the callers that may have each.
#include "kagent/agent/reports/reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <set>
#include <thread>

#include "kagent/agent/process/log.h"
#include "kagent/agent/reports/vi_report.h"
#include "kagent/stack/tables.h"
#include "kagent/tools/viactl/agent_client.h"
#include "kagent/tools/viactl/words.h"
#include "tests/unit/agent/agent_fixture.h"
#include "tests/unit/agent/every_counter.h"

namespace viaduct {
namespace {

[[maybe_unused]] const testing::Environment* const every_counter_moves =
    testing::AddGlobalTestEnvironment(new EveryCounterMoves(kOfReportsTest));

using testing::HasSubstr;

constexpr uid_t kNobody = 65534;

class ReportsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { log::open(log::Target::kStandardError, "", "off"); }

  // Runs the agent while `ask` runs in a thread of its own.
  template <class Ask>
  void while_agent_runs(Ask ask) {
    std::atomic<bool> done = false;
    std::thread thread([&] {
      ask(tool::AgentClient(agent.socket()));
      done = true;
    });
    while (!done) agent.loop.poll(1'000'000);
    thread.join();
  }

  // The same in a process of another user; what `ask` returns.
  template <class Ask>
  int as_nobody(Ask ask) {
    const pid_t child = fork();
    if (child == 0) {
      if (setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(99);
      try {
        _exit(ask(tool::AgentClient(agent.socket())));
      } catch (const std::exception& error) {
        fprintf(stderr, "%s\n", error.what());
        _exit(98);
      }
    }
    int status = -1;
    while (waitpid(child, &status, WNOHANG) == 0) agent.loop.poll(1'000'000);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  void open(TestProgram& program, const char* device, control::Placement placement) {
    program.say(TestProgram::hello(device, placement));
    agent.run();
    const auto answer = program.answer();
    ASSERT_TRUE(answer);
    ASSERT_EQ(answer->hello.head.result, vip::kSuccess);
  }

  template <class Change>
  std::string refusal_of(Change change) {
    report::Query query{};
    query.head = control::MessageHead{};
    query.head.kind = report::kKind;
    query.head.bytes = sizeof query;
    query.what = static_cast<std::uint32_t>(report::What::kStatus);
    std::vector<std::byte> bytes(sizeof query);
    change(query, bytes);
    std::memcpy(bytes.data(), &query, std::min(sizeof query, bytes.size()));
    TestProgram program(agent.socket());
    program.say(bytes.data(), bytes.size());
    agent.run();
    const auto answer = program.answer();
    if (!answer) return "no answer";
    return answer->hello.head.kind == report::kKind ? "" : answer->hello.reason;
  }

  TestAgent agent;
};

TEST_F(ReportsTest, TellsWhatThereIs) {
  TestProgram hosted(agent.socket()), granted(agent.socket());
  open(hosted, "nic1", control::Placement::kHosted);
  open(granted, "nic0", control::Placement::kGranted);
  while_agent_runs([](const tool::AgentClient& client) {
    const report::Status status = client.status();
    EXPECT_STREQ(status.host, "here");
    EXPECT_EQ(status.process, static_cast<std::uint32_t>(getpid()));
    EXPECT_EQ(status.sessions, 2u);
    const auto nics = client.nics();
    ASSERT_EQ(nics.size(), 2u);
    EXPECT_STREQ(nics[0].interface, "via0");
    EXPECT_EQ(nics[0].grants, 1);
    EXPECT_EQ(nics[0].granted_ports, 1u);
    EXPECT_THAT(nics[1].why_not_granted, HasSubstr("no ports on the second one"));
    const auto sessions = client.sessions();
    ASSERT_EQ(sessions.size(), 2u);
    EXPECT_EQ(sessions[0].nic, 1u);
    EXPECT_EQ(sessions[0].placement, static_cast<std::uint32_t>(control::Placement::kHosted));
    EXPECT_EQ(sessions[0].process, static_cast<std::uint32_t>(getpid()));
    EXPECT_EQ(sessions[0].counted, 0);
    EXPECT_EQ(sessions[1].placement, static_cast<std::uint32_t>(control::Placement::kGranted));
    EXPECT_EQ(sessions[1].counted, 1);
    EXPECT_TRUE(client.vis(sessions, nics.size()).empty());
    EXPECT_EQ(client.counters(), "the table\n");
  });
  EXPECT_GE(agent.counters.report_requests, 4u);
}

TEST_F(ReportsTest, UsersSeeTheirOwnOnly) {
  if (getuid() != 0) GTEST_SKIP() << "needs root";
  TestProgram program(agent.socket());
  open(program, "nic0", control::Placement::kHosted);
  EXPECT_EQ(as_nobody([](const tool::AgentClient& client) { return static_cast<int>(client.sessions().size()); }), 0);
  EXPECT_EQ(as_nobody([](const tool::AgentClient& client) {
    report::Session other{};
    other.id = 1;
    other.placement = static_cast<std::uint32_t>(control::Placement::kGranted);
    return static_cast<int>(client.vis({other}, 1).size());
  }), 0);
  while_agent_runs([](const tool::AgentClient& client) { EXPECT_EQ(client.sessions().size(), 1u); });
}

TEST_F(ReportsTest, OnlyRootSetsTheLogLevel) {
  if (getuid() != 0) GTEST_SKIP() << "needs root";
  EXPECT_EQ(as_nobody([](const tool::AgentClient& client) {
    try {
      client.set_log_level(report::LogLevel::kTrace);
    } catch (const std::runtime_error&) {
      return 7;
    }
    return 0;
  }), 7);
  EXPECT_EQ(log::level_name(), "off");
  while_agent_runs([](const tool::AgentClient& client) {
    client.set_log_level(report::LogLevel::kError);
    EXPECT_EQ(client.status().log_level, static_cast<std::uint32_t>(report::LogLevel::kError));
    client.set_log_level(report::LogLevel::kOff);
  });
}

TEST_F(ReportsTest, TellsOfSessionsAndOfWhatTheyAsked) {
  TestProgram hosted(agent.socket()), granted(agent.socket());
  open(hosted, "nic1", control::Placement::kHosted);
  open(granted, "nic0", control::Placement::kGranted);
  TestProgram other(agent.socket());
  other.say(TestProgram::hello("nic7", control::Placement::kAny));
  agent.run();
  while_agent_runs([](const tool::AgentClient& client) {
    std::uint64_t from = 0;
    std::vector<std::string> told;
    for (const report::Event& event : client.events(from)) {
      if (event.process != 0) told.push_back(tool::happened_word(event.what) + std::string(": ") + event.text);
    }
    EXPECT_EQ(told, (std::vector<std::string>{"session opened: hosted", "session opened: granted",
                                              "refused: there is no device nic7"}));
    EXPECT_GT(from, told.size());
    for (const report::Session& session : client.sessions()) {
      std::uint64_t traced = 0;
      EXPECT_TRUE(client.events(traced, session.id).empty());
      EXPECT_EQ(traced, 1u);
    }
  });
}

TEST_F(ReportsTest, UsersAreToldOfTheirOwnSessionsOnly) {
  if (getuid() != 0) GTEST_SKIP() << "needs root";
  TestProgram program(agent.socket());
  open(program, "nic0", control::Placement::kHosted);
  EXPECT_EQ(as_nobody([](const tool::AgentClient& client) {
    std::uint64_t from = 0;
    return static_cast<int>(client.events(from).size());
  }), 0);
  EXPECT_EQ(as_nobody([](const tool::AgentClient& client) {
    std::uint64_t from = 0;
    const bool any = !client.events(from, 1).empty();
    return any || from != 0 ? 1 : 0;
  }), 0);
}

TEST_F(ReportsTest, TakesNoProgramsWhileItIsDrained) {
  TestProgram first(agent.socket());
  open(first, "nic0", control::Placement::kHosted);
  if (getuid() == 0) {
    EXPECT_EQ(as_nobody([](const tool::AgentClient& client) {
      try {
        client.set_draining(true);
      } catch (const std::runtime_error&) {
        return 7;
      }
      return 0;
    }), 7);
  }
  EXPECT_TRUE(agent.server->tick(monotonic_ns()));
  while_agent_runs([](const tool::AgentClient& client) {
    client.set_draining(true);
    EXPECT_EQ(client.status().draining, 1u);
  });
  TestProgram second(agent.socket());
  second.say(TestProgram::hello("nic0", control::Placement::kHosted));
  agent.run();
  EXPECT_EQ(second.answer()->hello.head.result, vip::kErrorResource);
  EXPECT_EQ(agent.server->sessions(), 1u);
  // A session without a connection does not hold up the end of draining.
  EXPECT_FALSE(agent.server->tick(monotonic_ns()));
  while_agent_runs([](const tool::AgentClient& client) { client.set_draining(false); });
  EXPECT_TRUE(agent.server->tick(monotonic_ns()));
  TestProgram third(agent.socket());
  open(third, "nic0", control::Placement::kHosted);
}

TEST_F(ReportsTest, AUserWhoAsksTooOftenIsPutOff) {
  if (getuid() != 0) GTEST_SKIP() << "needs root";
  EXPECT_EQ(as_nobody([](const tool::AgentClient& client) {
    for (int i = 0; i < 2000; ++i) client.status();
    return 0;
  }), 0);
  EXPECT_GT(agent.counters.reports_postponed, 0u);
}

TEST_F(ReportsTest, RefusesWhatIsNoQuery) {
  const auto none = [](report::Query&, std::vector<std::byte>&) {};
  EXPECT_EQ(refusal_of(none), "");
  EXPECT_THAT(refusal_of([](report::Query& query, std::vector<std::byte>& bytes) {
    bytes.resize(bytes.size() - 1);
    query.head.bytes = static_cast<std::uint32_t>(bytes.size());
  }), HasSubstr("not as long as a query"));
  EXPECT_THAT(refusal_of([](report::Query& query, std::vector<std::byte>&) { query.head.bytes = 7; }),
              HasSubstr("not as long as it says"));
  EXPECT_THAT(refusal_of([](report::Query& query, std::vector<std::byte>&) { query.what = 99; }),
              HasSubstr("of no known question"));
  EXPECT_THAT(refusal_of([](report::Query& query, std::vector<std::byte>&) {
    query.what = static_cast<std::uint32_t>(report::What::kLogLevel);
    query.from = 6;
  }), HasSubstr("unknown log level"));
  // Objects that do not exist.
  EXPECT_EQ(refusal_of([](report::Query& query, std::vector<std::byte>&) {
    query.what = static_cast<std::uint32_t>(report::What::kVis);
    query.nic = 0xffffffff;
  }), "");
  EXPECT_EQ(refusal_of([](report::Query& query, std::vector<std::byte>&) {
    query.what = static_cast<std::uint32_t>(report::What::kVis);
    query.from = ~0ull;
  }), "");
}

// A stack's tables, written here as a stack would.
class ViReportTest : public testing::Test {
 protected:
  ViReportTest() : memory(Tables::footprint(limits)) {
    root()->vis.fresh = limits.vis;
    for (std::uint32_t i = 0; i < limits.vis; ++i) vi(i).session = state::kNone;
  }
  state::Root* root() { return reinterpret_cast<state::Root*>(memory.data() + Tables::parts(limits).root); }
  state::Vi& vi(std::uint32_t i) {
    return reinterpret_cast<state::Vi*>(memory.data() + Tables::parts(limits).vis)[i];
  }

  // All pages.
  std::vector<report::Vi> read() {
    std::vector<report::Vi> out;
    std::uint32_t from = 0;
    pages = 0;
    do {
      std::vector<report::Vi> page;
      const auto own = [](const ViOwner& owner, report::Vi& record) {
        record.process = owner.program;
        return owner.session != 9;
      };
      const std::uint32_t next = read_vis(memory.data(), limits, from, kNow, own, page);
      EXPECT_TRUE(next == 0 || next > from);
      EXPECT_LE(page.size(), report::kVisOfPage);
      out.insert(out.end(), page.begin(), page.end());
      from = next;
      ++pages;
    } while (from != 0 && pages < 1000);
    return out;
  }

  static constexpr std::uint64_t kNow = 1'000'000'000;
  StackLimits limits = [] {
    StackLimits out;
    out.vis = 2000;
    out.regions = out.goodbyes = out.requests = out.held = 64;
    return out;
  }();
  std::vector<std::byte> memory;
  unsigned pages = 0;
};

TEST_F(ViReportTest, ReadsEachViOnce) {
  for (std::uint32_t i = 0; i < limits.vis; ++i) vi(i).session = i % 5 == 0 ? 9 : i % 3;
  const auto records = read();
  std::set<std::uint32_t> seen;
  for (const report::Vi& record : records) seen.insert(record.vi);
  EXPECT_EQ(seen.size(), records.size());
  EXPECT_EQ(records.size(), 1600u);
  EXPECT_FALSE(seen.contains(5));
  EXPECT_GE(pages, 1600 / report::kVisOfPage);
}

TEST_F(ViReportTest, LooksAtFewForAPage) {
  // Also the first that a page looks at.
  for (std::uint32_t i = 0; i < limits.vis; i += report::kVisLooked / 2) vi(i).session = 1;
  EXPECT_EQ(read().size(), 8u);
  EXPECT_EQ(pages, (limits.vis + report::kVisLooked - 1) / report::kVisLooked);
}

TEST_F(ViReportTest, TellsHowAConnectionFares) {
  state::Vi& one = vi(7);
  one.session = 1;
  one.program = 3;
  one.state = vip::kConnected;
  one.reliability = vip::kReliableDelivery;
  one.link.peer = 2;
  one.link.peer_address = {2, 0, 0, 0, 0, 5};
  one.tx.send_una = 0xfffffffe;
  one.tx.send_next = 3;
  one.tx.smoothed_rtt = 12345;
  one.tx.path = state::Path::kLocal;
  one.tx.sent_time = kNow - 50;
  auto* const peers = reinterpret_cast<state::Peer*>(memory.data() + Tables::parts(limits).peers);
  peers[2].host = {2, 0, 0, 0, 0, 6};
  peers[2].last_heard = kNow - 70;
  const auto records = read();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].process, 3u);
  EXPECT_EQ(records[0].in_flight, 5u);
  EXPECT_EQ(records[0].rtt_ns, 12345u);
  EXPECT_EQ(records[0].path, 2);
  EXPECT_EQ(records[0].peer[5], 5);
  EXPECT_EQ(records[0].peer_host[5], 6);
  EXPECT_EQ(records[0].heard_ns, 70u);
  EXPECT_EQ(records[0].sent_ns, 50u);
}

TEST_F(ViReportTest, NonsenseLeadsNowhere) {
  std::memset(memory.data(), 0xa5, memory.size());
  EXPECT_LE(read().size(), limits.vis);
  root()->vis.fresh = 0xffffffff;
  EXPECT_LE(read().size(), limits.vis);
  report::Session session{};
  read_holdings(memory.data(), limits, 0, session);
  read_counters(memory.data(), limits, session);
}

TEST(ReportBudgetTest, IsSpentAndComesBack) {
  ReportBudget budget;
  constexpr std::uint64_t kStart = 1000 * kNsPerSecond;
  EXPECT_TRUE(budget.may_ask(5, kStart));
  for (int i = 0; i < 11; ++i) budget.spend(5, kNsPerMs, kStart);
  EXPECT_FALSE(budget.may_ask(5, kStart));
  EXPECT_TRUE(budget.may_ask(6, kStart));
  EXPECT_TRUE(budget.may_ask(5, kStart + 51 * kNsPerMs));
  budget.spend(0, kNsPerSecond, kStart);
  EXPECT_TRUE(budget.may_ask(0, kStart));
}

}  // namespace
}  // namespace viaduct
