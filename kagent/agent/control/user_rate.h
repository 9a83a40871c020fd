// Limits how often something is noted for each user (Peer::account()): in a burst, then once in an interval. So a
// user that causes it as fast as it can neither fills what is kept nor hides what is noted of others.
#ifndef VIADUCT_KAGENT_AGENT_CONTROL_USER_RATE_H
#define VIADUCT_KAGENT_AGENT_CONTROL_USER_RATE_H

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>

namespace viaduct {

class UserRate {
 public:
  UserRate(std::uint64_t interval_ns, std::uint64_t burst) : interval_(interval_ns), burst_(burst) {}

  // nullopt: it may not be noted now. Else how many times it was not, since it last was.
  std::optional<std::uint64_t> may_note(uid_t user, std::uint64_t now) {
    if (users_.size() >= kUsersKept) {
      std::erase_if(users_, [now](const auto& entry) { return entry.second.paid_at <= now; });
    }
    Spent& spent = users_[user];
    if (spent.paid_at > now + (burst_ - 1) * interval_) {
      ++spent.left_out;
      return std::nullopt;
    }
    spent.paid_at = std::max(spent.paid_at, now) + interval_;
    return std::exchange(spent.left_out, 0);
  }

 private:
  static constexpr std::size_t kUsersKept = 64;  // with more, users that owe nothing are forgotten

  struct Spent {
    std::uint64_t paid_at = 0;   // when what was noted is paid for
    std::uint64_t left_out = 0;
  };

  std::uint64_t interval_, burst_;
  std::unordered_map<uid_t, Spent> users_;
};

}  // namespace viaduct

#endif
