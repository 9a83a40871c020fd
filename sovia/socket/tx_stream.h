// The sending direction of a socket: what takes its next byte, and bytes that the kernel has yet to take before.
#ifndef VIADUCT_SOVIA_SOCKET_TX_STREAM_H
#define VIADUCT_SOVIA_SOCKET_TX_STREAM_H

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sovia/process/lock.h"
#include "sovia/process/lock_order.h"
#include "sovia/socket/owed_bytes.h"
#include "sovia/socket/stream_locks.h"

namespace viaduct::sovia {

// kLanding: the direction leaves the lane, and the kernel takes over when all that was sent there has arrived.
enum class TxRoute : std::uint8_t { kKernel, kLane, kLanding };

struct TxStream {
  // A call has found no more room.
  void count_filled() VIADUCT_REQUIRES(lock) {
    filled.store(filled.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  // Whether the kernel has taken all that it is to take first. Without the lock it is true for a moment only; Clang can't
  // know that this may be asked so.
  bool owes_nothing() const VIADUCT_NO_THREAD_SAFETY_ANALYSIS { return owed.empty(); }

  Lock lock SOVIA_LOCK_ORDER(rx, tx);
  TxRoute route VIADUCT_GUARDED_BY(lock) = TxRoute::kKernel;
  std::atomic<bool> may_be_on_lane{false};  // a hint for who has not the lock: whether the route is kLane
  bool lane_forbidden VIADUCT_GUARDED_BY(either_stream) = false;
  // The program has shut the direction down; and the kernel's is shut when all data sent before has arrived. Both are read
  // without the lock, too.
  std::atomic<bool> shut{false}, shut_later{false};
  OwedBytes owed VIADUCT_GUARDED_BY(lock);
  std::atomic<std::uint32_t> filled{0};  // calls that have found no more room; increased with the lock held
};

}  // namespace viaduct::sovia

#endif
