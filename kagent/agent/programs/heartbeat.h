// Whether a granted program drives its stack, as the agent sees it from the outside.
#ifndef VIADUCT_KAGENT_AGENT_PROGRAMS_HEARTBEAT_H
#define VIADUCT_KAGENT_AGENT_PROGRAMS_HEARTBEAT_H

#include <cstdint>
#include <optional>

#include "kagent/stack/remains.h"

namespace viaduct {

class Heartbeat {
 public:
  // Returns the connection with this VI and key if it is there and its stack is not driven: the stack has not looked
  // after its peers since the last question, a while ago. A peer that does not hear from the stack asks again and
  // again. The segment may hold nonsense.
  std::optional<Remains> stopped(const void* segment, const StackLimits& limits,
                                        std::uint32_t vi, std::uint64_t key, std::uint64_t now) {
    const auto found = connection_of(segment, limits, vi, key);
    if (!found) return std::nullopt;
    const std::uint64_t beats = beats_of(segment, limits);
    if (beats != beats_ || since_ == 0) {
      beats_ = beats;
      since_ = now;
    }
    if (now - since_ < limits.keepalive_ns / 4 * 3) return std::nullopt;
    return found;
  }

 private:
  std::uint64_t beats_ = 0;  // when last asked
  std::uint64_t since_ = 0;  // 0: never asked
};

}  // namespace viaduct

#endif
