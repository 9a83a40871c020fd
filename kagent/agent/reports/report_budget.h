// How much of the agent's time a user may spend on reports: one part in kShare, and kBurstNs at once.
#ifndef VIADUCT_KAGENT_AGENT_REPORTS_REPORT_BUDGET_H
#define VIADUCT_KAGENT_AGENT_REPORTS_REPORT_BUDGET_H

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "xdp/clock.h"

namespace viaduct {

class ReportBudget {
 public:
  static constexpr std::uint64_t kShare = 50;
  static constexpr std::uint64_t kBurstNs = 10 * kNsPerMs;

  // Whether the user (Peer::account()) may have another report. Root always may.
  bool may_ask(uid_t user, std::uint64_t now) const {
    const auto it = paid_at_.find(user);
    return user == 0 || it == paid_at_.end() || it->second <= now + kBurstNs * kShare;
  }

  void spend(uid_t user, std::uint64_t ns, std::uint64_t now) {
    if (user == 0) return;
    if (paid_at_.size() >= kUsersKept) {
      std::erase_if(paid_at_, [now](const auto& entry) { return entry.second <= now; });
    }
    std::uint64_t& paid_at = paid_at_[user];
    paid_at = std::max(paid_at, now) + ns * kShare;
  }

 private:
  static constexpr std::size_t kUsersKept = 64;  // those that owe nothing are forgotten then

  std::unordered_map<uid_t, std::uint64_t> paid_at_;  // when what the user has spent is paid for
};

}  // namespace viaduct

#endif
