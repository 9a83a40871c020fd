// The receiving direction of a socket: its route, and what is to be read before what the route brings.
#ifndef VIADUCT_SOVIA_SOCKET_RX_STREAM_H
#define VIADUCT_SOVIA_SOCKET_RX_STREAM_H

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sovia/process/lock.h"
#include "sovia/socket/inherited_bytes.h"
#include "sovia/socket/route.h"

namespace viaduct::sovia {

struct RxStream {
  explicit RxStream(bool nothing_read) : read_known(nothing_read) {}

  // Nothing is to be read, and the lane is to read it from: so it stays until the next invalidate_empty().
  bool known_empty() const { return empty.load(std::memory_order_acquire); }
  // Something about receiving may have changed. To be called after the change.
  void invalidate_empty() {
    if (empty.load(std::memory_order_relaxed)) empty.store(false, std::memory_order_release);
  }
  std::size_t inherited_left() const { return inherited != nullptr ? inherited->left() : 0; }
  // The next bytes are those of the lane.
  bool is_on_lane() const { return route == Phase::kLane && inherited == nullptr && !shut; }
  // `bytes` come first from now on, and those that did are freed.
  void replace_inherited(InheritedBytes* bytes) {
    if (inherited != nullptr) free_inherited_bytes(inherited);
    inherited = bytes;
  }

  Lock lock;  // guards what is not atomic
  Route<Direction::kReceiving> route;
  bool shut = false;  // by the program
  // Bytes to read from the kernel before those of the lane, in Phase::kDrain.
  std::uint64_t kernel_left = 0;
  // Bytes read from the kernel so far, as far as it is known. Counted here, as the kernel's
  // own figures leave urgent bytes out that have come since.
  std::uint64_t kernel_read = 0;
  bool read_known;
  bool early_end = false;   // of the kernel's stream, before the lane's
  bool end_counts = false;  // ... which came before the peer could have begun with the lane
  InheritedBytes* inherited = nullptr;  // to be read first; nullptr: nothing

  std::atomic<bool> empty{false};               // set with the lane locked
  std::atomic<std::size_t> lane_unread{0};      // bytes: a hint
  std::atomic<std::uint32_t> last_packet{0};    // bytes of the last one from the lane: a hint
  // Receives under way that hear of no lane; increased with the lock held. A handler that left one by longjmp leaves
  // this behind: such a connection stays with the kernel.
  std::atomic<int> undisturbed{0};
};

}  // namespace viaduct::sovia

#endif
