// How many sessions, and parts in sessions of others, each user has.
#ifndef VIADUCT_KAGENT_AGENT_SESSIONS_USER_SESSIONS_H
#define VIADUCT_KAGENT_AGENT_SESSIONS_USER_SESSIONS_H

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <unordered_map>

#include "kagent/agent/sessions/session.h"

namespace viaduct {

class UserSessions {
 public:
  // Throws Refused if the user may have no other.
  void check(const Peer& peer, std::uint32_t most) const {
    const auto of_user = sessions_.find(peer.account());
    if (peer.is_root || of_user == sessions_.end() || of_user->second < most) return;
    throw Refused{vip::kErrorResource, &ServiceCounters::refused_user_limit,
                  text_of_account(peer.account()) + " has all " + std::to_string(of_user->second) +
                      " sessions that one user may have"};
  }

  void add(const Peer& peer) { ++sessions_[peer.account()]; }
  void remove(const Peer& peer) {
    const auto of_user = sessions_.find(peer.account());
    if (--of_user->second == 0) sessions_.erase(of_user);
  }

 private:
  std::unordered_map<uid_t, std::uint32_t> sessions_;
};

}  // namespace viaduct

#endif
