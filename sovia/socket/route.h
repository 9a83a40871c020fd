// The route of a direction, the kernel or the lane, as a state machine: doc/sovia/states.md.
#ifndef VIADUCT_SOVIA_SOCKET_ROUTE_H
#define VIADUCT_SOVIA_SOCKET_ROUTE_H

#include <cstddef>
#include <cstdint>
#include <optional>

namespace viaduct::sovia {

enum class Phase : std::uint8_t {
  kKernel,  // the lane has not begun
  kDrain,   // receiving only: the lane has begun, and the kernel still has bytes that come before
  kLane,
  kKernelAgain,  // the lane has ended
};
inline constexpr std::size_t kPhases = 4;

enum class RouteEvent : std::uint8_t {
  kLaneChanged,        // there is another lane, which has not begun, or none any more
  kStart,              // START has been sent, or has come, with nothing to read from the kernel before
  kStartBehindKernel,  // START has come, with bytes to read from the kernel before
  kDrained,            // the kernel's bytes have been read
  kLaneEnded,          // FIN, or the lane is left or has broken
};
inline constexpr std::size_t kRouteEvents = 5;

enum class Direction : std::uint8_t { kReceiving, kSending };

// The phase after an event; none: the event can't happen in that phase.
std::optional<Phase> next_phase(Direction direction, Phase phase, RouteEvent event);

// Not thread-safe: the socket's lock of the direction guards it.
template <Direction direction>
class Route {
 public:
  operator Phase() const { return phase_; }
  // Applies an event. False: it can't happen in this phase, which stays.
  bool on(RouteEvent event) {
    const std::optional<Phase> next = next_phase(direction, phase_, event);
    if (next) phase_ = *next;
    return next.has_value();
  }

 private:
  Phase phase_ = Phase::kKernel;
};

}  // namespace viaduct::sovia

#endif
