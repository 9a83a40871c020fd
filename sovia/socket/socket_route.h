// The route of each direction of a socket, the kernel or the lane, and who is told when it changes.
//
// The sender of a direction alone decides on it: it goes up to the lane by a START packet, which says how many
// bytes it has sent through the kernel before, and goes down by a FIN packet; the receiver reads on where the
// sender said. Whatever is special about a connection (end, reset, urgent data, options) happens in the
// kernel, for which a direction is down.
#ifndef VIADUCT_SOVIA_SOCKET_SOCKET_ROUTE_H
#define VIADUCT_SOVIA_SOCKET_SOCKET_ROUTE_H

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sovia/lane/watchers.h"
#include "sovia/process/lock.h"
#include "sovia/socket/route.h"
#include "sovia/socket/socket_modes.h"
#include "sovia/socket/socket_ref.h"

namespace viaduct::sovia {

class Lane;
class LaneEndpoint;

class SocketRoute : public SocketCounts, public Watched, public SocketModes {
 public:
  // Whether data of either direction may go over a lane now or soon. If not, every call may go
  // straight to the kernel; if so, calls that the kernel alone should do need leave() first.
  bool may_use_lane() const { return lane_wanted_.load(std::memory_order_acquire); }

  // Nothing is to be read, and the lane is to read it from: so it stays until the next invalidate_empty().
  bool known_empty() const { return quiet_.load(std::memory_order_acquire); }
  // Something about receiving may have changed. To be called after the change.
  void invalidate_empty() {
    if (quiet_.load(std::memory_order_relaxed)) quiet_.store(false, std::memory_order_release);
  }
  // The lane has so many bytes for receive(). With the lane locked.
  void note_unread(std::size_t bytes) { lane_left_.store(bytes, std::memory_order_relaxed); }

  // Changes whenever ask_kernel()'s answer may have changed: a thread that sleeps on the former one asks again.
  std::uint32_t routes() const { return routes_.load(std::memory_order_acquire); }
  void routes_changed() {
    routes_.fetch_add(1, std::memory_order_release);
    invalidate_empty();
  }
  // Something about the socket's lane has changed, `what` as in watchers.h: wakes whom it concerns, tells
  // epoll sets. No locks that readers of the socket take may be held.
  void changed(short what = kAnyChange);

  // The program has closed it.
  bool closed() const { return descriptors() == 0 && waiters_fd_.load() < 0; }

  // The outcome of a call's attempt to move data.
  enum class Attempt : std::uint8_t { kDone, kAgain, kFailed, kPollCompletions, kPipe, kBroken };
  // The descriptor of a call that was given `fd`.
  int current(int fd) const {
    const int kept = waiters_fd_.load(std::memory_order_relaxed);
    return kept < 0 ? fd : kept;
  }

 protected:
  enum class Stage : std::uint8_t { kNone, kAsked, kOpen };

  SocketRoute() = default;
  ~SocketRoute() = default;
  void receiving_changed(RouteEvent event);
  void sending_changed(RouteEvent event);
  // Call this before looking at what is unread on the lane: if START has come meanwhile, it says
  // how much there is to read from the kernel first. In and the lane locked.
  void settle_receiving(Lane& lane);
  // Both ends lose the connection: bytes of it may be lost. In and out locked.
  void reset(int fd);
  // ECONNRESET for the first call that meets the reset, as with TCP; then `once_told`.
  Attempt fail_reset(Attempt once_told);
  // The kernel has told a call of a reset, once, that returns what it sent before: a later call is to tell the
  // program, behind what has come before the reset, as with TCP. take_untold_reset() is true once, with errno.
  void keep_untold_reset();
  bool take_untold_reset();
  // No lane is to come any more: calls go straight to the kernel, unless it has told all that it knows.
  void stay_with_kernel();

  std::atomic<bool> lane_wanted_{true};

  // --- receiving
  Lock in_;
  Route<Direction::kReceiving> receiving_;
  std::uint64_t kernel_left_ = 0;
  // Bytes read from the kernel so far, as far as it is known. Counted here, as the kernel's
  // own figures leave urgent bytes out that have come since.
  std::uint64_t kernel_read_ = 0;
  bool read_known_ = false;
  bool read_shut_ = false;
  bool early_end_ = false;   // of the kernel's stream, before the lane's
  bool end_counts_ = false;  // ... which came before the peer could have begun with the lane
  std::atomic<bool> quiet_{false};         // set with the lane locked
  std::atomic<std::size_t> lane_left_{0};  // unread on the lane: a hint

  // --- sending
  Lock out_;
  Route<Direction::kSending> sending_;
  bool forbidden_ = false, write_shut_ = false;

  // --- both: read under either lock, changed under both
  LaneEndpoint* lane_ = nullptr;
  std::atomic<Stage> stage_{Stage::kNone};
  std::atomic<bool> reset_{false};
  std::atomic<bool> untold_reset_{false};
  std::atomic<int> waiters_fd_{-1};  // a descriptor of the library's for calls that wait: socket_waiting.h

 private:
  std::atomic<std::uint32_t> routes_{0};
  std::atomic<bool> reset_told_{false};
};

}  // namespace viaduct::sovia

#endif
