// How many sessions, and parts in sessions of others, each user has.
#ifndef VIADUCT_KAGENT_AGENT_USER_SESSIONS_H
#define VIADUCT_KAGENT_AGENT_USER_SESSIONS_H

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <unordered_map>

#include "kagent/agent/session.h"

namespace viaduct {

class UserSessions {
 public:
  // Throws Refused if the user may have no other.
  void check(uid_t user, std::uint32_t most) const {
    const auto of_user = sessions_.find(user);
    if (user == 0 || of_user == sessions_.end() || of_user->second < most) return;
    throw Refused{vip::kErrorResource, &ServiceCounters::refused_user_limit,
                  "user " + std::to_string(user) + " has all " + std::to_string(of_user->second) +
                      " sessions that one user may have"};
  }

  void add(uid_t user) { ++sessions_[user]; }
  void remove(uid_t user) {
    if (--sessions_[user] == 0) sessions_.erase(user);
  }

 private:
  std::unordered_map<uid_t, std::uint32_t> sessions_;
};

}  // namespace viaduct

#endif
