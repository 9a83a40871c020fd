// The granted segment of a granted stack: one file in memory that the agent makes and the program
// maps, with all that the program's own stack remembers. Agent and library compute the same sizes
// from the hello's answer; when the program is gone the agent finds in there the peers to say goodbye
// to.
//
//   0                     the session's segment, as of a hosted program (session_layout.h)
//   granted_stack_offset()   the stack's segment (kagent/stack/tables.h)
//   granted_segment_bytes()          end
//
// libvipl includes this too: nothing here throws, allocates or needs more than the C library.
#ifndef VIADUCT_KAGENT_CONTRACT_GRANTED_SEGMENT_H
#define VIADUCT_KAGENT_CONTRACT_GRANTED_SEGMENT_H

#include <cstddef>
#include <cstdint>

#include "kagent/contract/control.h"
#include "kagent/contract/session_layout.h"
#include "kagent/contract/stack_limits.h"

namespace viaduct {

inline StackLimits granted_limits(const control::HelloAnswer& answer) {
  constexpr std::uint64_t kNsPerMillisecond = 1'000'000;
  StackLimits out;
  out.sessions = 1;
  out.vis = answer.granted_vis;
  out.cqs = answer.granted_cqs;
  out.regions = answer.granted_regions;
  out.ptags = answer.granted_ptags;
  out.peers = answer.granted_peers;
  out.requests = answer.granted_requests;
  out.goodbyes = answer.granted_goodbyes;
  out.held = answer.granted_held;
  out.slots = answer.granted_slots;
  out.claims = 0;
  out.members = layout::kMembers;
  out.session_bytes = answer.nic.max_bytes;
  out.max_transfer = answer.nic.max_transfer;
  out.cq_entries = answer.nic.max_cq_entries;
  out.keepalive_ns = answer.keepalive_ms * kNsPerMillisecond;
  out.peer_timeout_ns = answer.peer_timeout_ms * kNsPerMillisecond;
  out.stopped_peer_ns = answer.stopped_peer_ms * kNsPerMillisecond;
  out.checksum = answer.checksum != 0;
  out.train_checksum = answer.checksum == 2;
  return out;
}

inline layout::Capacity granted_capacity(const StackLimits& limits) {
  return {limits.vis, limits.cqs, limits.slots, 0};
}

inline std::size_t granted_stack_offset(const StackLimits& limits) {
  constexpr std::size_t kPage = 4096;
  return (layout::Offsets(granted_capacity(limits)).total + kPage - 1) / kPage * kPage;
}

// `stack_bytes`: the footprint of a stack with these limits.
inline std::size_t granted_segment_bytes(const StackLimits& limits, std::size_t stack_bytes) {
  return granted_stack_offset(limits) + stack_bytes;
}

}  // namespace viaduct

#endif
