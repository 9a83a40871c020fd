// A one-way stream over an endpoint. VIA has no flow control, so the receiver returns credits:
// which message is next. At the end the sender asks what has arrived.
#ifndef VIADUCT_EXAMPLES_COMMON_STREAM_H
#define VIADUCT_EXAMPLES_COMMON_STREAM_H

#include <cstdint>
#include <functional>

#include "examples/common/endpoint.h"

namespace via {

inline constexpr milliseconds kLossLimit{200};  // an unreliable message that takes longer is lost

struct Stream {
  std::uint32_t count;
  std::uint32_t window;  // messages for which the receiver has receives
  bool reliable;
};

// Sends messages 0, 1, 2, ..., each of which `post` posts, and returns the receiver's report.
// Throws ConnectionLost, and Failure if too much is lost or the program was stopped.
Report send_stream(Endpoint& end, const Stream& stream,
                   const std::function<void(std::uint32_t)>& post);

// Takes what comes, until the connection is over (ConnectionLost) or the program is stopped
// (Failure).
//   look    is shown each message and its number
//   at_end  is told what has arrived when the sender asks; on an unreliable connection perhaps more
//           than once
void take_stream(Endpoint& end, const Stream& stream,
                 const std::function<void(const VIP_DESCRIPTOR*, std::uint32_t)>& look,
                 const std::function<void(const Report&)>& at_end);

// The next message. A peer may think for as long as it likes: that it is gone is the connection's
// to tell.
VIP_DESCRIPTOR* next_message(Endpoint& end);

}  // namespace via

#endif
