// Counts a UDP socket's datagrams per peer: when a peer is worth a lane, and when to ask one that refused again.
#ifndef VIADUCT_SOVIA_DATAGRAM_PEER_COUNTS_H
#define VIADUCT_SOVIA_DATAGRAM_PEER_COUNTS_H

#include <netinet/in.h>

#include <cstddef>
#include <cstdint>

#include "sovia/process/units.h"

namespace viaduct::sovia::datagram {

inline bool same_peer(const sockaddr_in& a, const sockaddr_in& b) {
  return a.sin_port == b.sin_port && a.sin_addr.s_addr == b.sin_addr.s_addr;
}

class PeerCounts {
 public:
  static constexpr std::size_t kPeers = 16;
  static constexpr std::uint64_t kAgainNs = 1'000 * kMs;  // doubled each time
  static constexpr unsigned kDoublings = 5;
  static constexpr std::uint64_t kForGood = ~std::uint64_t{0};

  // Counts a datagram. True if the peer is worth a lane now; it then counts as asked for one.
  bool count(const sockaddr_in& peer, std::uint64_t after, std::uint64_t now) {
    Peer& one = find(peer);
    if (one.asked || now < one.not_before) return false;
    if (++one.datagrams < after) return false;
    one.asked = true;
    return true;
  }

  void refused(const sockaddr_in& peer, bool for_good, std::uint64_t now) {
    Peer& one = find(peer);
    one.asked = false;
    one.datagrams = 0;
    one.not_before = for_good ? kForGood : now + (kAgainNs << one.refusals);
    if (one.refusals < kDoublings) ++one.refusals;
  }

  // The peer's lane was opened, and has ended.
  void ended(const sockaddr_in& peer) {
    Peer& one = find(peer);
    one = Peer{};
    one.address = peer;
    one.used = ++clock_;
  }

 private:
  struct Peer {
    sockaddr_in address{};
    std::uint64_t datagrams = 0, not_before = 0, used = 0;
    unsigned refusals = 0;
    bool asked = false;
  };

  // The counts of a peer. A new peer gets the place of the one that was counted longest ago and is not asked for a
  // lane.
  Peer& find(const sockaddr_in& peer) {
    ++clock_;
    Peer* oldest = nullptr;
    for (Peer& one : peers_) {
      if (one.used != 0 && same_peer(one.address, peer)) {
        one.used = clock_;
        return one;
      }
      if (!one.asked && (oldest == nullptr || one.used < oldest->used)) oldest = &one;
    }
    if (oldest == nullptr) oldest = &none_;
    *oldest = Peer{};
    oldest->address = peer;
    oldest->used = clock_;
    if (oldest == &none_) none_.not_before = kForGood;
    return *oldest;
  }

  Peer peers_[kPeers];
  Peer none_;  // used if all places are of peers asked for lanes
  std::uint64_t clock_ = 0;
};

}  // namespace viaduct::sovia::datagram

#endif
