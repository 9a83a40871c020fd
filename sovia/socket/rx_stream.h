// The receiving direction of a socket: its route, and the bytes to be read before those that the route brings.
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

  // The direction is on the lane, and nothing is unread. That stays so until the next invalidate_empty().
  bool known_empty() const { return empty.load(std::memory_order_acquire); }
  // To be called after a change of anything that concerns receiving.
  void invalidate_empty() {
    if (empty.load(std::memory_order_relaxed)) empty.store(false, std::memory_order_release);
  }
  // A call has found nothing to read, or has taken all. A count that two threads lose does no harm.
  void count_emptied() { emptied.store(emptied.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  std::size_t inherited_left() const { return inherited != nullptr ? inherited->left() : 0; }
  // Whether the next bytes to be read are the lane's.
  bool is_on_lane() const { return route == Phase::kLane && inherited == nullptr && !shut; }
  // `bytes` are read first from now on. The present inherited bytes are freed.
  void replace_inherited(InheritedBytes* bytes) {
    if (inherited != nullptr) free_inherited_bytes(inherited);
    inherited = bytes;
  }

  Lock lock;  // guards what is not atomic
  Route<Direction::kReceiving> route;
  bool shut = false;  // the program has shut the direction down
  bool turns = false;  // the receive under way has emptied its source: the next bytes have another one
  // Bytes to read from the kernel before those of the lane, in Phase::kDrain.
  std::uint64_t kernel_left = 0;
  // Bytes read from the kernel so far, as far as it is known. Counted here, as the kernel's own figures leave out
  // urgent bytes that have come since.
  std::uint64_t kernel_read = 0;
  bool read_known;
  bool early_end = false;   // the kernel's stream has ended before the lane's
  bool end_counts = false;  // the kernel's end came before the peer could begin with the lane: it is the connection's
  InheritedBytes* inherited = nullptr;  // to be read first; nullptr: nothing

  std::atomic<bool> empty{false};               // set with the lane locked
  std::atomic<std::uint32_t> emptied{0};        // calls that have found no more to read
  std::atomic<std::size_t> lane_unread{0};      // bytes: a hint
  std::atomic<std::uint32_t> last_packet{0};    // bytes of the last packet from the lane: a hint
  // Receives under way that would not notice a lane; increased with the lock held. A signal handler that leaves such a
  // receive by longjmp leaves it counted: the connection stays with the kernel.
  std::atomic<int> undisturbed{0};
};

}  // namespace viaduct::sovia

#endif
