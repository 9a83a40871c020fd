// Sends that this process has posted and that have not gone out yet. A call that ends a connection, a
// session or a registration waits for them first, so that the order of a program's calls is kept
// with every driver: it looks at commands before it looks at work queues.
#ifndef VIADUCT_VIPL_SESSION_OUTGOING_H
#define VIADUCT_VIPL_SESSION_OUTGOING_H

#include <cstdint>

#include "vipl/session/session.h"

namespace viaduct::vipl::outgoing {

// How long a thread waits, all waits together: while descriptors complete, but not for ever. A peer
// that is gone costs kQuietMs.
class Patience {
 public:
  static constexpr std::uint64_t kQuietMs = 500;   // without any progress
  static constexpr std::uint64_t kLongestMs = 5000;

  // Milliseconds that are left; 0: none. The time begins with the first call.
  std::uint64_t left_ms();
  void progress();

 private:
  std::uint64_t quiet_until_ = 0;
  std::uint64_t until_ = 0;
};

// Each function waits for the sends that are posted when it is called, not for those that other threads post
// meanwhile. A send has gone out when its descriptor is complete: on Unreliable Delivery it was sent, on the other
// levels the peer has it.
void wait_for_vi(Session& session, std::uint32_t vi, Patience& patience);
void wait_for_all(Session& session, Patience& patience);
void wait_for_memory(Session& session, VIP_MEM_HANDLE memory, Patience& patience);

}  // namespace viaduct::vipl::outgoing

#endif
