// A condition on a lane's state that a call waits for at its socket.
#ifndef VIADUCT_SOVIA_MESSAGE_LANE_CONDITION_H
#define VIADUCT_SOVIA_MESSAGE_LANE_CONDITION_H

#include <cstdint>

#include "sovia/lane/waiting.h"
#include "sovia/process/clock.h"

namespace viaduct::sovia {

template <class Ready>
class LaneCondition final : public WaitCondition {
 public:
  LaneCondition(const Watched& socket, Ready ready) : socket_(socket), ready_(ready) {}
  bool ready() override { return ready_(); }
  bool concerns(const Watched& source) const override { return &source == &socket_; }

 private:
  const Watched& socket_;
  Ready ready_;
};

// Waits until ready() is true.
template <class Ready>
void await_completion(const Watched& socket, Ready ready) {
  LaneCondition condition(socket, ready);
  while (!wait_for_completion(condition)) continue;
}

}  // namespace viaduct::sovia

#endif
