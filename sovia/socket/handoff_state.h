// The processes that have a socket (fork_handoff.h).
#ifndef VIADUCT_SOVIA_SOCKET_HANDOFF_STATE_H
#define VIADUCT_SOVIA_SOCKET_HANDOFF_STATE_H

#include <atomic>

#include "sovia/socket/inherited_bytes.h"
#include "sovia/socket/stream_locks.h"

namespace viaduct::sovia {

struct HandoffState {
  // Whether other processes have it too, also when this one has detached from it.
  bool is_shared() const SOVIA_STREAM_LOCKED { return holders != nullptr && holders->count.load() > (detached ? 0 : 1); }
  // Whether no other process can have it.
  bool is_alone() const SOVIA_STREAM_LOCKED { return !may_be_elsewhere && !is_shared(); }

  Holders* holders VIADUCT_GUARDED_BY(either_stream) = nullptr;  // nullptr: this process alone
  // This process has got it by exec or SCM_RIGHTS, and does not know of others that have it.
  bool may_be_elsewhere VIADUCT_GUARDED_BY(either_stream) = false;
  bool detached VIADUCT_GUARDED_BY(either_stream) = false;
  std::atomic<bool> passed{false};  // a spawned child gets the socket, even if it closes on exec
};

}  // namespace viaduct::sovia

#endif
