// Programs can cause messages as fast as they like; the log must not grow with them.
#ifndef VIADUCT_KAGENT_AGENT_CONTROL_LOG_LIMIT_H
#define VIADUCT_KAGENT_AGENT_CONTROL_LOG_LIMIT_H

#include <sys/types.h>

#include <cstdint>

#include "xdp/clock.h"
#include "kagent/agent/control/peer.h"
#include "kagent/agent/control/service_counters.h"
#include "kagent/agent/control/user_rate.h"

namespace viaduct {

class LogLimit {
 public:
  explicit LogLimit(ServiceCounters& counters) : counters_(counters) {}

  // Whether one more line may be written about a process of this user, or about the agent itself; if not,
  // it is counted.
  bool may_log(const Peer& peer) { return may_log(peer.account()); }
  bool may_log_of_agent() { return may_log(0); }

 private:
  static constexpr std::uint64_t kLinesPerSecond = 10;

  bool may_log(uid_t user) {
    if (rate_.may_note(user, monotonic_ns())) return true;
    ++counters_.log_lines_saved;
    return false;
  }

  ServiceCounters& counters_;
  UserRate rate_{kNsPerSecond / kLinesPerSecond, kLinesPerSecond};
};

}  // namespace viaduct

#endif
