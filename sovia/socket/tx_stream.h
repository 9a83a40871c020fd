// The sending direction of a socket: its route, and bytes of a broken lane that the kernel has yet to take.
#ifndef VIADUCT_SOVIA_SOCKET_TX_STREAM_H
#define VIADUCT_SOVIA_SOCKET_TX_STREAM_H

#include <cstddef>
#include <atomic>
#include <cstdint>

#include "sovia/process/lock.h"
#include "sovia/socket/route.h"
#include "sovia/socket/unacked_copy.h"

namespace viaduct::sovia {

struct TxStream {
  // A call has found no more room. With the lock held.
  void count_filled() { filled.store(filled.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }

  Lock lock;  // guards all below
  Route<Direction::kSending> route;
  bool lane_forbidden = false;
  bool shut = false;        // the program has shut the direction down
  // The kernel's direction is shut when all data sent before has arrived. Read without the lock, too.
  std::atomic<bool> shut_later{false};
  UnackedCopy unacked;
  std::atomic<std::uint32_t> filled{0};  // calls that have found no more room; increased with the lock held
};

}  // namespace viaduct::sovia

#endif
