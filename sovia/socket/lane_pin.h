// A lane that a call uses without the socket's locks: it stays as long as this.
#ifndef VIADUCT_SOVIA_SOCKET_LANE_PIN_H
#define VIADUCT_SOVIA_SOCKET_LANE_PIN_H

#include <utility>

namespace viaduct::sovia {

class LaneEndpoint;
class SocketDirect;

class LanePin {
 public:
  LanePin() = default;
  // Takes over one of end->pins; nullptr: there is no lane.
  LanePin(SocketDirect& socket, LaneEndpoint* end) : socket_(&socket), end_(end) {}
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
  SocketDirect* socket_ = nullptr;
  LaneEndpoint* end_ = nullptr;
};

}  // namespace viaduct::sovia

#endif
