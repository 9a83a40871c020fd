// Commands that are under way, and claims.
#ifndef VIADUCT_KAGENT_STACK_COMMAND_STATE_H
#define VIADUCT_KAGENT_STACK_COMMAND_STATE_H

#include <cstdint>

#include "kagent/contract/flow.h"
#include "kagent/contract/session_layout.h"
#include "kagent/contract/wire.h"

namespace viaduct::state {

// A command that has not finished.
struct Pending {
  layout::Op op;             // kNone: none
  std::uint32_t program;     // that has submitted it
  std::uint32_t vi;
  std::uint32_t listener_next;  // kConnectWait: the next one in the list of listeners
  std::uint32_t attempts;
  std::uint32_t listener;      // kConnectWait: kNoListener: none
  MacAddress answerer;       // kHostByName, over: host that has said `name`; zero: none
  std::uint64_t deadline;
  layout::Address local;
  char name[64];
  Flow flow;                 // kVerify: as seen from the host that is asked
  ClaimToken token;
  // About the command that was last submitted in the slot, also if it has finished at once.
  layout::Op asked;
  std::uint32_t asked_vi;
  std::uint64_t asked_at;
};

// A claim of a session.
struct Claim {
  std::uint32_t session;     // kNone: free
  std::uint32_t next_free;
  Flow flow;
  ClaimToken token;
};

}  // namespace viaduct::state

#endif
