// State that a stack has once.
#ifndef VIADUCT_KAGENT_STACK_ROOT_STATE_H
#define VIADUCT_KAGENT_STACK_ROOT_STATE_H

#include <cstdint>

#include "kagent/stack/connection_state.h"
#include "kagent/stack/counters.h"
#include "kagent/stack/state.h"

namespace viaduct::state {

// Heads of the lists and free lists.
struct Root {
  StackCounters counters;
  PoolHead vis, cqs, regions, ptags, peers, requests, goodbyes, claims, members;
  std::uint32_t last_program_id;
  std::uint32_t listeners;       // session * kCommands + command
  std::uint32_t listeners_tail;
  RequestList live_requests;     // those that a program may still be given, or has been
  RequestList done_requests;
  std::uint32_t ready_head, ready_tail;  // sessions with VIs that may send
  std::uint32_t ack_head;        // VIs that may have to acknowledge
  std::uint32_t peer_attempts;   // VIs that wait for their peer's own request
  std::uint32_t next_request_number;
  std::uint32_t connected;       // VIs in the connected state
  std::uint32_t held;            // frames kept, all VIs together
  std::uint32_t unreliable;      // VIs in the connected state on Unreliable Delivery
  std::uint32_t credit_standing;  // standing credit of each of these
  std::uint32_t credit_told;      // the most of it that any of them knows of
  std::uint32_t credit_epoch;    // see credit_grants.h: the last in which credit was asked for ...
  std::uint32_t credit_askers;   // ... by so many VIs
  std::uint32_t credit_askers_before;  // in the epoch before it
  std::uint32_t held_requests;   // in the state kHeld
  std::uint32_t delegates;       // sessions whose programs have stacks of their own
  std::uint32_t listener_turn;     // the open session whose listeners are looked at first
  std::uint32_t listeners_seen;    // looked at in listener_epoch
  std::uint64_t listener_epoch;    // ms
  std::uint64_t beats;           // grows as long as a stack that has peers is driven
  std::uint64_t request_secret;  // odd
  std::uint64_t cookie_key[2];
  std::uint64_t proof_until;     // until then requests must be proven, see request_proof.h
  std::uint32_t unproven;        // live requests that are not
  std::uint64_t listener_scan;     // when held requests were last compared with listeners
  std::uint64_t ack_due;         // before it no VI of the list at ack_head has to acknowledge
  std::uint32_t draining;        // 1: no new connections
  std::uint32_t reserved;
};

}  // namespace viaduct::state

#endif
