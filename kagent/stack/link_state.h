// Connections of VIs: made, or in the making.
#ifndef VIADUCT_KAGENT_STACK_LINK_STATE_H
#define VIADUCT_KAGENT_STACK_LINK_STATE_H

#include <cstdint>

#include "kagent/contract/wire.h"

namespace viaduct::state {

// The peer of a VI, or how the VI becomes connected.
struct ViLink {
  std::uint64_t local_key;
  std::uint64_t peer_key;
  std::uint32_t peer_vi;
  std::uint32_t peer;        // index of the peer record; kNone: none
  MacAddress peer_address;
  std::uint16_t payload;     // bytes of payload in a full frame
  std::uint32_t peer_next, peer_previous;  // VIs of the same peer
  std::uint32_t key_next;    // VIs in the same bucket of peer keys
  std::uint32_t request;     // own attempt's number, or the request being accepted
  std::uint32_t remote_request;  // the number that the peer gave its attempt
  std::uint32_t command;     // session's command that waits for the connection; kNone: none
  std::uint16_t credit;      // Unreliable Delivery: what the peer always has room for; 0: it says nothing
  std::uint16_t credit_given;        // to the peer, when it last asked
  std::uint32_t credit_epoch;        // when that was
  std::uint32_t credit_grown;        // PSN awaited when it last became more
  std::uint32_t listener;      // of a peer to peer attempt; kNoListener: none
  std::uint64_t connect_deadline;
  std::uint8_t accepting;    // 1: we are the accepting side of a pending connection
  std::uint8_t peer_to_peer; // 1: from PeerRequest until its result is fetched
  std::uint8_t peer_linked;  // 1: the other half of the peer to peer connection is known
  std::uint8_t attempts;
  std::uint32_t peer_result; // vip::kNotDone, or how the attempt ended
};

}  // namespace viaduct::state

#endif
