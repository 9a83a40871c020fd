#include "sovia/socket/socket.h"

#include "sovia/lane/waiting.h"

namespace viaduct::sovia {

void Socket::sending_changed(TxRoute route) {
  tx.route = route;
  tx.may_be_on_lane.store(route == TxRoute::kLane, std::memory_order_relaxed);
  routes_changed();
}

void Socket::changed(short what) {
  rx.invalidate_empty();
  tell(what);
  waiting::wake(*this);
}

}  // namespace viaduct::sovia
