// Calls of connections that stay with the kernel (LaneDemand::bypass_this_round), at the cost of a few plain instructions.
//
// No lane may be asked for while such a call is under way, as the call would not learn of it. A thread writes down in a
// slot of its own which socket its call is for; the one that asks for a lane looks at all slots. membarrier() orders the
// two, so that the call itself needs no locked instruction.
#ifndef VIADUCT_SOVIA_SOCKET_QUICK_BYPASS_H
#define VIADUCT_SOVIA_SOCKET_QUICK_BYPASS_H

#include <sys/types.h>

#include <atomic>

#include "sovia/socket/socket.h"

namespace viaduct::sovia::quick_bypass {

struct alignas(64) Slot {
  std::atomic<const Socket*> socket{nullptr};  // of the call under way
  std::atomic<bool> taken{false};              // by a thread
};
extern constinit thread_local __attribute__((tls_model("initial-exec"))) Slot* t_slot;
// A slot for this thread, until it ends. nullptr: there is none.
Slot* take_slot();
// Whether a call on the socket may be under way, which no more begins. To be called when the socket does not stay with
// the kernel any more.
bool is_in_use(const Socket& socket);
void after_fork_in_child();

// Makes a kernel call on a socket that stays with the kernel. False: it does not, and no call was made. `is_current`:
// whether the descriptor is still the socket's.
template <class KernelCall, class IsCurrent>
bool call(const Socket& known, ssize_t& result, KernelCall&& kernel_call, IsCurrent&& is_current) {
  if (!known.demand.bypasses_this_round()) return false;
  Slot* slot = t_slot;
  if (slot == nullptr && (slot = take_slot()) == nullptr) return false;
  // A signal handler has interrupted such a call.
  if (slot->socket.load(std::memory_order_relaxed) != nullptr) return false;
  slot->socket.store(&known, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const bool stays = known.demand.bypasses_this_round() && is_current() && !known.reset.is_untold();
  if (stays) result = kernel_call();
  slot->socket.store(nullptr, std::memory_order_release);
  return stays;
}

}  // namespace viaduct::sovia::quick_bypass

#endif
