// Each counter of the service has to move in some test: one that never does counts nothing. Judged at the
// end of a program, by what all its tests have made the servers count.
#ifndef VIADUCT_TESTS_UNIT_AGENT_EVERY_COUNTER_H
#define VIADUCT_TESTS_UNIT_AGENT_EVERY_COUNTER_H

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "tests/unit/agent/counter_tally.h"

namespace viaduct {

using CounterNames = std::set<std::string>;

// The counters that each test is to move; session_server_test moves all that are in no set.
inline const CounterNames kOfAdoptionTest = {"ports_adopted", "ports_found", "ports_given_up",
                                             "refused_adoption", "refused_resources"};
inline const CounterNames kOfGrantsTest = {
    "farewells",         "not_granted_access", "not_granted_failed",     "not_granted_nic",
    "not_granted_ports", "not_granted_policy", "not_granted_user_limit", "ports_kept",
    "ports_made",        "refused_placement"};
inline const CounterNames kOfLocalPathsTest = {"local_bytes", "local_paths_made",
                                               "local_paths_refused"};
inline const CounterNames kOfReportsTest = {"refused_draining", "report_requests", "reports_postponed"};
inline const CounterNames kOfServiceTest = {"busy_rounds", "port_losses", "port_returns", "rounds",
                                            "sleeps"};
// tests/integration/privileges.test: it needs userfaultfd.
inline const CounterNames kOfOthers = {"sessions_hanging"};

// Does its work when all tests of a program have been run, and were good.
class EveryCounterMoves : public testing::Environment {
 public:
  explicit EveryCounterMoves(CounterNames names) : names_(std::move(names)) {}
  void TearDown() override {
    const testing::UnitTest& all = *testing::UnitTest::GetInstance();
    if (all.successful_test_count() != all.total_test_count()) return;
    for (const std::string& name : names_) {
      EXPECT_GT(counter_tally[name], 0u) << name << " was moved by no test";
    }
  }

  // The counters in no set.
  static CounterNames others() {
    CounterNames out;
    for_each(ServiceCounters(), [&](const char* name, const char*, std::uint64_t) { out.insert(name); });
    for (const CounterNames& each : 
         {kOfAdoptionTest, kOfGrantsTest, kOfLocalPathsTest, kOfReportsTest, kOfServiceTest, kOfOthers}) {
      for (const std::string& name : each) EXPECT_EQ(out.erase(name), 1u) << name;
    }
    return out;
  }

 private:
  CounterNames names_;
};

}  // namespace viaduct

#endif
