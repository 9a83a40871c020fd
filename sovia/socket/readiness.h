// The answer of poll() about a socket, as a function of the socket's state at one moment. It changes nothing.
#ifndef VIADUCT_SOVIA_SOCKET_READINESS_H
#define VIADUCT_SOVIA_SOCKET_READINESS_H

#include "sovia/socket/route.h"

namespace viaduct::sovia {

struct Readiness {
  bool reset = false;       // both ends have lost the connection
  bool has_lane = false;
  bool had_lanes = false;   // this connection, now or before

  // --- receiving
  Phase receiving = Phase::kKernel;
  bool read_shut = false;
  bool has_inherited = false;   // bytes that come before the kernel's and the lane's
  bool record_next = false;     // what comes next from the kernel is Resume (packet.h), which is not the program's
  bool lane_unread = false;
  bool lane_ended = false;      // the peer has told the end of its lane
  bool awaits_lane_end = false; // receiving from the kernel, whose end is not the connection's before the lane's
  bool early_end = false;       // that end of the kernel's stream has been read
  bool kernel_unread = false;   // asked for only with POLLRDHUP: data has come with the end

  // --- sending; needed only for POLLOUT
  Phase sending = Phase::kKernel;
  bool coming_down = false;     // the peer has yet to see the end of this direction's lane
  bool lane_broken = false;
  bool lane_room = false;       // a send would not wait

  // The events to ask the kernel for, when a call waits for `wanted` (POLL*).
  short to_ask(short wanted) const;
  // The events to tell the program when the kernel has answered `kernel_says`; 0: those of the lane alone.
  short to_tell(short wanted, short kernel_says) const;

 private:
  short tell_reading(short kernel_says) const;
  short tell_writing(short says) const;
};

}  // namespace viaduct::sovia

#endif
