// Whose program each session is, and what each user's programs hold together.
#ifndef VIADUCT_KAGENT_AGENT_PROGRAMS_SESSION_USERS_H
#define VIADUCT_KAGENT_AGENT_PROGRAMS_SESSION_USERS_H

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "kagent/agent/config/config.h"
#include "kagent/contract/quota.h"

namespace viaduct {

class SessionUsers {
 public:
  explicit SessionUsers(std::uint32_t sessions) : users_(sessions, ~uid_t{0}), accounts_(sessions, ~uid_t{0}) {}

  // The limits by which charge() judges from now on; and how many VIs and regions all have together, 0: so many as they
  // like.
  void set_limits(const UserLimits& limits, std::uint64_t all_vis = 0, std::uint64_t all_regions = 0) {
    limits_ = limits;
    all_ = {all_vis, all_regions, 0};
  }

  // `account`: the account (Peer) that limits are counted for; 0 is root, which has no limits and may claim all
  // users' connections.
  void set(std::uint32_t session, uid_t user, uid_t account) {
    users_[session] = user;
    accounts_[session] = account;
  }
  void set(std::uint32_t session, uid_t user) { set(session, user, user); }
  // Root's programs may claim any connection that a program of this host has.
  bool may_claim(std::uint32_t session, uid_t owner) const {
    return accounts_[session] == 0 || users_[session] == owner;
  }

  // As Environment::charge().
  bool charge(std::uint32_t session, Quota what, std::int64_t change) {
    const uid_t user = accounts_[session];
    const std::uint64_t limits[] = {limits_.vis, limits_.regions,
                                    std::uint64_t{limits_.memory_mb} << 20};
    const auto which = static_cast<std::size_t>(what);
    std::array<std::uint64_t, 3>& holds = holdings_[user];
    const auto more = static_cast<std::uint64_t>(change);
    // The subtraction never wraps: the first comparison keeps both numbers below 2^63.
    if (change > 0 && user != 0 &&
        (more > limits[which] || holds[which] > limits[which] - more ||
         !leaves_some(holds[which] + more, used_[which] + more, all_[which]))) {
      return false;
    }
    holds[which] += more;
    used_[which] += more;
    if (change < 0 && holds == std::array<std::uint64_t, 3>{}) holdings_.erase(user);
    return true;
  }

 private:
  // A quarter of what there is, is for users who have little (a sixteenth), but for a sixteenth, which is root's.
  static bool leaves_some(std::uint64_t own, std::uint64_t used, std::uint64_t all) {
    const std::uint64_t little = all / 16;
    return all == 0 || used <= all - (own <= little ? little : all / 4);
  }

  std::vector<uid_t> users_, accounts_;  // by session
  UserLimits limits_;
  std::array<std::uint64_t, 3> all_{}, used_{};  // in the order of Quota
  // By user: VIs, regions and bytes, in the order of Quota.
  std::unordered_map<uid_t, std::array<std::uint64_t, 3>> holdings_;
};

}  // namespace viaduct

#endif
