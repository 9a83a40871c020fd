#include "sovia/socket/socket_route.h"

#include <errno.h>
#include <sys/socket.h>

#include "sovia/lane/lane.h"
#include "sovia/lane/waiting.h"
#include "sovia/process/counters.h"
#include "sovia/process/libc.h"
#include "sovia/process/options.h"

namespace viaduct::sovia {

void SocketRoute::receiving_changed(RouteEvent event) {
  receiving_.on(event);
  routes_changed();
}

void SocketRoute::sending_changed(RouteEvent event) {
  sending_.on(event);
  routes_changed();
}

void SocketRoute::changed(short what) {
  invalidate_empty();
  tell(what);
  waiting::wake(*this);
}

void SocketRoute::settle_receiving(Lane& lane) {
  if (!lane.control.started()) return;
  lane.control.settled();
  if (receiving_ != Phase::kKernel) return;
  kernel_left_ = lane.control.peer_kernel_bytes() - kernel_read_;
  receiving_changed(kernel_left_ != 0 ? RouteEvent::kStartBehindKernel : RouteEvent::kStart);
  SOVIA_LOG("receiving goes up to the lane after %llu more bytes",
            static_cast<unsigned long long>(kernel_left_));
}

// Both ends lose the connection: bytes of it may be lost. In and out locked.
void SocketRoute::reset(int fd) {
  if (reset_.exchange(true)) return;
  counters::fell(Reason::kLost);
  counters::add(Counter::kLanesCut);
  SOVIA_LOG("%d: the lane is lost, the connection is reset", fd);
  sockaddr unspecified{};
  unspecified.sa_family = AF_UNSPEC;
  const int error = errno;
  libc::connect(fd, &unspecified, sizeof unspecified);
  errno = error;
}

SocketRoute::Attempt SocketRoute::fail_reset(Attempt once_told) {
  if (reset_told_.exchange(true)) return once_told;
  errno = ECONNRESET;
  return Attempt::kFailed;
}

void SocketRoute::keep_untold_reset() {
  untold_reset_.store(true);
  lane_wanted_.store(true);
}

void SocketRoute::stay_with_kernel() {
  lane_wanted_.store(false);
  if (untold_reset_) lane_wanted_.store(true);
}

bool SocketRoute::take_untold_reset() {
  if (!untold_reset_.load(std::memory_order_relaxed) || !untold_reset_.exchange(false)) return false;
  errno = ECONNRESET;
  return true;
}

}  // namespace viaduct::sovia
