// An agent for tests of libvipl: the real service, in a process of its own, so that a test can stop and kill it as any
// agent may be stopped and killed. Its NIC has no wire: frames to its own address come back. NICs of other hosts can
// be made beside it, on a simulated network.
#ifndef VIADUCT_TESTS_UNIT_VIPL_TEST_AGENT_H
#define VIADUCT_TESTS_UNIT_VIPL_TEST_AGENT_H

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "kagent/contract/session_layout.h"
#include "tests/unit/vipl/shared_segment.h"

namespace viaduct::test {

// Of the NIC "nic0", whose interface is called "via0".
inline constexpr std::uint8_t kNicAddress[] = {2, 3, 4, 5, 6, 7};
inline constexpr std::uint32_t kNicMtu = 1500;

class TestAgent {
 public:
  struct Options {
    std::uint32_t vis = 64;
    std::uint32_t slots = 32768;
    std::uint32_t regions = 4096;
    // Other hosts on the link, in groups of so many. Each discovery hears one group only, and the next
    // one the next: the last but one byte of an address is the group's number, the last its own.
    std::vector<unsigned> others;
  };

  TestAgent() : TestAgent(Options()) {}
  // Points $VIADUCT_SOCKET at a socket of its own. Throws std::runtime_error.
  explicit TestAgent(const Options& options);
  ~TestAgent() { die(); }
  TestAgent(const TestAgent&) = delete;
  TestAgent& operator=(const TestAgent&) = delete;

  // Killed: nothing of it is left when this returns.
  void die();

  // Stopped: between these it does nothing at all.
  void hold();
  void go_on();

  // Sessions that it holds.
  std::size_t sessions() { return look().size(); }
  // The session that it has held for longest. Valid until the next call.
  SharedSegment& session();

  // A counter of the stack of "nic0", as `viad --counters` shows it.
  std::uint64_t counter(const std::string& name) const;

 private:
  std::vector<SharedSegment*> look();

  std::string name_;
  pid_t process_ = -1;
  std::deque<SharedSegment> seen_;
};

}  // namespace viaduct::test

#endif
