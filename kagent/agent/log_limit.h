// Programs can cause messages as fast as they like; the log must not grow with them.
#ifndef VIADUCT_KAGENT_AGENT_LOG_LIMIT_H
#define VIADUCT_KAGENT_AGENT_LOG_LIMIT_H

#include <cstdint>

#include "xdp/clock.h"
#include "kagent/agent/service_counters.h"

namespace viaduct {

class LogLimit {
 public:
  explicit LogLimit(ServiceCounters& counters) : counters_(counters) {}

  // Whether one more line may be written in this second; if not, it is counted.
  bool may_log() {
    const std::uint64_t second = monotonic_ns() / kNsPerSecond;
    if (second != second_) lines_ = 0;
    second_ = second;
    if (++lines_ <= kLinesPerSecond) return true;
    ++counters_.log_lines_saved;
    return false;
  }

 private:
  static constexpr unsigned kLinesPerSecond = 10;

  ServiceCounters& counters_;
  std::uint64_t second_ = 0;
  unsigned lines_ = 0;
};

}  // namespace viaduct

#endif
