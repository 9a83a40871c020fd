// A record of the use that this process's connections with each peer have made of their lanes. It says how much a new
// connection has to move before it is worth a lane. A peer is an address and the port that one of the two listens at.
//
// A lane costs both ends and both agents some work. Where lanes have carried enough, the next connection asks for its
// own at once, when connect() or accept() returns; where connections ended before they had used theirs, the next ones
// have to show first that they go on for longer. A peer is forgotten a minute after it was last seen.
#ifndef VIADUCT_SOVIA_SOCKET_PEER_HISTORY_H
#define VIADUCT_SOVIA_SOCKET_PEER_HISTORY_H

#include <cstddef>
#include <cstdint>
#include <map>

#include "sovia/lane/flow.h"

namespace viaduct::sovia {

// Which end of its TCP connection a socket is; kNeither: it is not known.
enum class Role : std::uint8_t { kNeither, kCaller, kAccepted };

// The peer, with the port on the listening side. Without a role the lower port is taken for that one.
FlowEnd peer_of(const Flow& flow, Role role);

class PeerHistory {
 public:
  static constexpr std::uint64_t kKnownNs = 60'000'000'000;
  static constexpr std::size_t kMostPeers = 1024;
  // The answer of calls_before_lane() for peers about which nothing is known: as SOVIA_UPGRADE_AFTER has it.
  static constexpr std::uint32_t kAsUsual = ~std::uint32_t{0};

  // A lane to the peer has ended, or would have come too late. `used`: the lane has carried enough to be worth its
  // cost.
  void learn(const FlowEnd& peer, bool used, std::uint64_t now);
  // The peer does not answer any more.
  void forget(const FlowEnd& peer) { peers_.erase(peer); }
  // Calls that move data before a connection with the peer is worth a lane; 0: it is worth one at once.
  std::uint32_t calls_before_lane(const FlowEnd& peer, std::uint64_t now) const;
  bool empty() const { return peers_.empty(); }
  void clear() { peers_.clear(); }

 private:
  static constexpr std::uint32_t kCalls[] = {0, kAsUsual, 16, 64, 256};
  static constexpr unsigned kUsual = 1, kLast = sizeof kCalls / sizeof kCalls[0] - 1;
  struct Peer {
    std::uint64_t until = 0;
    unsigned level = kUsual;  // of kCalls
  };
  std::map<FlowEnd, Peer> peers_;
};

}  // namespace viaduct::sovia

#endif
