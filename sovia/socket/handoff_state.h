// The processes that have a socket (fork_handoff.h).
#ifndef VIADUCT_SOVIA_SOCKET_HANDOFF_STATE_H
#define VIADUCT_SOVIA_SOCKET_HANDOFF_STATE_H

#include <atomic>

#include "sovia/socket/inherited_bytes.h"

namespace viaduct::sovia {

struct HandoffState {
  bool is_shared() const { return holders != nullptr && !sole_holder(*holders); }

  // Read under either stream's lock, changed under both.
  Holders* holders = nullptr;  // nullptr: this process alone
  bool detached = false;
  std::atomic<bool> passed{false};  // a spawned child gets the socket, even if it closes on exec
};

}  // namespace viaduct::sovia

#endif
