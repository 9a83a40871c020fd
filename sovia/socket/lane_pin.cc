#include "sovia/socket/lane_pin.h"

#include "sovia/socket/background_requests.h"
#include "sovia/socket/lane_endpoint.h"
#include "sovia/socket/lane_life.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {

LanePin pin_receiving_lane(Socket& socket) {
  const RxGuard guard(socket);
  const bool may = socket.link.end != nullptr && socket.rx.is_on_lane();
  if (may) ++socket.link.end->pins;
  return {socket, may ? socket.link.end : nullptr};
}

LanePin pin_sending_lane(Socket& socket) {
  const TxGuard guard(socket);
  const bool may = socket.link.end != nullptr && socket.tx.route == TxRoute::kLane;
  if (may) ++socket.link.end->pins;
  return {socket, may ? socket.link.end : nullptr};
}

LanePin pin_lane(Socket& socket, std::uint32_t* number) {
  const RxGuard guard(socket);
  if (socket.link.end != nullptr) ++socket.link.end->pins;
  if (number != nullptr) *number = socket.link.number.load();
  return {socket, socket.link.end};
}

void LanePin::reset() {
  if (LaneEndpoint* const end = std::exchange(end_, nullptr); end != nullptr) let_go(*socket_, *end);
}

void let_go(Socket& socket, LaneEndpoint& end) {
  const RxGuard guard(socket);
  {
    const LockGuard lane_guard(end.lane.lock());
    socket.rx.last_packet.store(end.lane.rx.last_packet(), std::memory_order_relaxed);
    if (end.lane.wants_poll()) background::flush_later(end);
  }
  unpin(end);
}

}  // namespace viaduct::sovia
