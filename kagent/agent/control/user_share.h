// How much of what there is a user may hold. Three quarters are for all: a user may have twice what is left of these, so
// one alone gets two thirds. The rest is for users who have none, one each, but for a sixteenth, which is root's.
#ifndef VIADUCT_KAGENT_AGENT_CONTROL_USER_SHARE_H
#define VIADUCT_KAGENT_AGENT_CONTROL_USER_SHARE_H

#include <cstdint>

namespace viaduct {

// Whether a user that holds `own` may have one more of `total`, of which all hold `used`.
constexpr bool is_within_share(std::uint64_t own, std::uint64_t used, std::uint64_t total) {
  if (own == 0) return used < total - total / 16;
  const std::uint64_t for_all = total - total / 4;
  return used < for_all && own < 2 * (for_all - used);
}

}  // namespace viaduct

#endif
