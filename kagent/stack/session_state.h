// Sessions, their processes, and what these have registered.
#ifndef VIADUCT_KAGENT_STACK_SESSION_STATE_H
#define VIADUCT_KAGENT_STACK_SESSION_STATE_H

#include <cstdint>

#include "kagent/contract/session_layout.h"
#include "kagent/contract/wire.h"

namespace viaduct::state {

struct Session {
  std::uint32_t in_use;
  // The driver's work for the session, see stack.cc and send_queue.h. The values stay when the session is over.
  std::int32_t credit;       // work units that its last round has left; negative: it owes them
  std::uint32_t next_doorbell;   // the doorbell to go on with
  std::uint32_t ready_head, ready_tail;  // VIs that may send
  std::uint32_t ready_next;  // the next session that has such VIs
  std::uint32_t ready_listed;
  std::uint32_t vis, cqs, regions, claims;  // held now
  std::uint64_t registered_bytes;
  std::uint32_t discovered_count;
  MacAddress discovered[layout::kMaxDiscovered];
  MacAddress delegate;              // its program's own stack, if `delegated`
  std::uint32_t delegated;
  std::uint32_t programs[layout::kMembers + 1];  // by member; kNone: there is no such
};

// A process that uses a session. The first one of a session has the session's number, those that have
// attached have numbers from limits.sessions on. Memory means that of a program.
struct Program {
  std::uint32_t session;   // kNone: free
  std::uint32_t member;    // its number in the session
  std::uint32_t id;        // no two have the same
  std::uint32_t errors;    // error events that were appended so far
  std::uint32_t parent;    // program whose registrations it has a copy of; kNone: none
  std::uint32_t forks;     // ... those that were made before Header::forks was this
  std::uint32_t inheriting_processes;  // programs whose parent it is
  std::uint32_t gone;      // 1: the process has; what it registered is kept for those that inherit it
  // The VI that it takes from another program, its first receive that has not been taken back, and how much of the data
  // from there on has been copied for it.
  std::uint32_t taken_vi, taken_generation, taken_position, handed_over;
  std::uint32_t next_free;
};

struct Region {
  std::uint32_t handle;   // 0: free
  std::uint32_t program;
  std::uint64_t address;
  std::uint64_t length;
  std::uint32_t ptag;
  std::uint8_t enable_write;
  std::uint8_t enable_read;
  std::uint16_t generation;
  std::uint32_t forks;    // Header::forks when it was registered
  std::uint32_t next_free;
};

struct Ptag {
  std::uint32_t session;  // kNone: free
  std::uint32_t generation;
  std::uint32_t users;    // VIs and regions that bear it
  std::uint32_t next_free;
};

struct Cq {
  std::uint32_t session;     // kNone: free
  std::uint32_t program;     // that uses the CQ, and so all VIs with it
  std::uint32_t generation;
  std::uint32_t entries;     // as asked for
  std::uint32_t tail;        // ring position of the next entry
  std::uint32_t users;       // work queues attached
  std::uint32_t backlog_head, backlog_tail;  // vi * 2 + (receive queue)
  std::uint32_t next_free;
};

}  // namespace viaduct::state

#endif
