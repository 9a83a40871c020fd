#include "sovia/socket/peer_history.h"

#include <cstring>

namespace viaduct::sovia {

FlowEnd peer_of(const Flow& flow, Role role) {
  const auto number = [](const FlowEnd& end) { return end.port[0] << 8 | end.port[1]; };
  bool listens = role == Role::kAccepted;
  if (role == Role::kNeither) listens = number(flow.local) < number(flow.remote);
  FlowEnd peer = flow.remote;
  if (listens) std::memcpy(peer.port, flow.local.port, sizeof peer.port);
  return peer;
}

void PeerHistory::learn(const FlowEnd& peer, bool used, std::uint64_t now) {
  if (peers_.size() >= kMostPeers && !peers_.contains(peer)) peers_.clear();
  Peer& known = peers_[peer];
  if (now >= known.until) known.level = kUsual;
  known.until = now + kKnownNs;
  if (used && known.level > 0) --known.level;
  if (!used && known.level < kLast) ++known.level;
}

std::uint32_t PeerHistory::calls_before_lane(const FlowEnd& peer, std::uint64_t now) const {
  const auto found = peers_.find(peer);
  return found == peers_.end() || now >= found->second.until ? kAsUsual : kCalls[found->second.level];
}

}  // namespace viaduct::sovia
