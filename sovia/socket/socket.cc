#include "sovia/socket/socket.h"

#include "sovia/lane/lane.h"
#include "sovia/lane/waiting.h"
#include "sovia/process/options.h"

namespace viaduct::sovia {

void Socket::receiving_changed(RouteEvent event) {
  rx.route.on(event);
  routes_changed();
}

void Socket::sending_changed(RouteEvent event) {
  tx.route.on(event);
  routes_changed();
}

void Socket::changed(short what) {
  rx.invalidate_empty();
  tell(what);
  waiting::wake(*this);
}

void Socket::settle_receiving(Lane& lane) {
  if (!lane.control.started()) return;
  lane.control.settled();
  if (rx.route != Phase::kKernel) return;
  rx.kernel_left = lane.control.peer_kernel_bytes() - rx.kernel_read;
  receiving_changed(rx.kernel_left != 0 ? RouteEvent::kStartBehindKernel : RouteEvent::kStart);
  SOVIA_LOG("receiving goes up to the lane after %llu more bytes",
            static_cast<unsigned long long>(rx.kernel_left));
}

}  // namespace viaduct::sovia
