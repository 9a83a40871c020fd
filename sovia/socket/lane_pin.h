// A lane that a call uses without the socket's locks: it stays as long as the pin.
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
  // Takes over one of end->pins; nullptr: there is no lane.
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

// The lane of a direction that is on it, or whichever there is (`number`: which one of the connection); none
// for a receiving direction that has bytes to read before those of the lane.
LanePin pin_receiving_lane(Socket& socket);
LanePin pin_sending_lane(Socket& socket);
LanePin pin_lane(Socket& socket, std::uint32_t* number = nullptr);
// A call that had pinned the lane has used it, which may have ended meanwhile.
void let_go(Socket& socket, LaneEndpoint& end);

}  // namespace viaduct::sovia

#endif
