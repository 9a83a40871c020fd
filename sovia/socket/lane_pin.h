// A pin keeps a lane that a call uses without the socket's locks.
#ifndef VIADUCT_SOVIA_SOCKET_LANE_PIN_H
#define VIADUCT_SOVIA_SOCKET_LANE_PIN_H

#include <cstdint>
#include <utility>

#include "sovia/socket/socket.h"

namespace viaduct::sovia {

class LaneEndpoint;

class LanePin {
 public:
  LanePin() = default;
  // The caller has counted the pin in end->pins; nullptr: there is no lane.
  LanePin(Socket& socket, LaneEndpoint* end) : socket_(&socket), end_(end) {}
  LanePin(LanePin&& other) noexcept : socket_(other.socket_), end_(std::exchange(other.end_, nullptr)) {}
  LanePin& operator=(LanePin&& other) noexcept {
    std::swap(socket_, other.socket_);
    std::swap(end_, other.end_);
    return *this;
  }
  ~LanePin() { reset(); }
  void reset();

  explicit operator bool() const { return end_ != nullptr; }
  LaneEndpoint* operator->() const { return end_; }

 private:
  Socket* socket_ = nullptr;
  LaneEndpoint* end_ = nullptr;
};

// Pin the lane of a direction that is on it; for receiving only if no bytes are to be read before the lane's.
// pin_lane() pins the lane on whatever route the directions are; `number`: which lane of the connection it is.
LanePin pin_receiving_lane(Socket& socket) SOVIA_UNLOCKED;
LanePin pin_sending_lane(Socket& socket) SOVIA_UNLOCKED;
LanePin pin_lane(Socket& socket, std::uint32_t* number = nullptr) SOVIA_UNLOCKED;
// Gives back the pin of a call that has used the lane, which may have ended meanwhile.
void let_go(Socket& socket, LaneEndpoint& end) SOVIA_UNLOCKED;

}  // namespace viaduct::sovia

#endif
