// Each counter of the service has to move somewhere: in a test of this program, or in another one that
// looks at it.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "tests/unit/agent/agent_fixture.h"

namespace viaduct {
namespace {

const std::map<std::string, std::string> kElsewhere = {
    {"ports_found", "tests/unit/agent/adoption_test.cc"},
    {"ports_adopted", "tests/unit/agent/adoption_test.cc"},
    {"ports_given_up", "tests/unit/agent/adoption_test.cc"},
    {"refused_adoption", "tests/unit/agent/adoption_test.cc"},
    {"ports_made", "tests/unit/agent/grants_test.cc"},
    {"ports_kept", "tests/unit/agent/grants_test.cc"},
    {"refused_placement", "tests/unit/agent/grants_test.cc"},
    {"not_granted_policy", "tests/unit/agent/grants_test.cc"},
    {"not_granted_nic", "tests/unit/agent/grants_test.cc"},
    {"not_granted_access", "tests/unit/agent/grants_test.cc"},
    {"not_granted_ports", "tests/unit/agent/grants_test.cc"},
    {"not_granted_user_limit", "tests/unit/agent/grants_test.cc"},
    {"not_granted_failed", "tests/unit/agent/grants_test.cc"},
    {"farewells", "tests/unit/agent/grants_test.cc"},
    {"rounds", "tests/integration/agent.test"},
    {"busy_rounds", "tests/integration/agent.test"},
    {"sleeps", "tests/integration/agent.test"},
    {"port_losses", "tests/integration/privileges.test"},
    {"port_returns", "tests/integration/privileges.test"},
};

// Memory that hangs for 5 s: no test has a program like that.
const std::set<std::string> kUntested = {"sessions_hanging"};

bool mentions(const std::string& file, const std::string& counter) {
  std::ifstream in(std::string(VIADUCT_SRCDIR "/") + file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return text.find(counter) != std::string::npos;
}

class EveryCounterMoves : public testing::Environment {
 public:
  void TearDown() override {
    const testing::UnitTest& all = *testing::UnitTest::GetInstance();
    if (all.test_to_run_count() != all.total_test_count() || !all.Passed()) return;
    for (const auto& [name, value] : TestAgent::counted_by_all) {
      const auto elsewhere = kElsewhere.find(name);
      if (kUntested.contains(name)) {
        EXPECT_EQ(value, 0u) << name << " is moved by a test after all";
      } else if (elsewhere == kElsewhere.end()) {
        EXPECT_GT(value, 0u) << name << " was moved by no test";
      } else {
        EXPECT_TRUE(mentions(elsewhere->second, name)) << elsewhere->second << " has no " << name;
      }
    }
    for (const auto& [name, file] : kElsewhere) {
      EXPECT_TRUE(TestAgent::counted_by_all.contains(name)) << "there is no counter " << name;
    }
  }
};

[[maybe_unused]] const testing::Environment* const every_counter_moves =
    testing::AddGlobalTestEnvironment(new EveryCounterMoves);

}  // namespace
}  // namespace viaduct
