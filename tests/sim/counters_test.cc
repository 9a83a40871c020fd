// Each counter that operators see has to move somewhere: one that never does counts nothing. Judged at
// the end, by what all tests of this program have made the stacks count.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/sim/counter_tally.h"

namespace viaduct::sim {
namespace {

// wire_test.cc, in a program of its own (link_test), expects these.
const std::set<std::string> kOfWireTest = {"drop_bad_ack", "drop_checksum", "drop_window",
                                           "drop_wrong_source"};

class EveryCounterMoves : public testing::Environment {
 public:
  void TearDown() override {
    const testing::UnitTest& all = *testing::UnitTest::GetInstance();
    if (all.test_to_run_count() != all.total_test_count() || !all.Passed()) return;
    for (const auto& [name, value] : counter_tally) {
      if (kOfWireTest.contains(name)) continue;
      EXPECT_GT(value, 0u) << name << " was moved by no test";
    }
    EXPECT_GT(counter_tally.size(), 50u);
  }
};

[[maybe_unused]] const testing::Environment* const every_counter_moves =
    testing::AddGlobalTestEnvironment(new EveryCounterMoves);

}  // namespace
}  // namespace viaduct::sim
