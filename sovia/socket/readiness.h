// The answer of poll() about a socket, as a function of the socket's state at one moment. Asking changes nothing.
#ifndef VIADUCT_SOVIA_SOCKET_READINESS_H
#define VIADUCT_SOVIA_SOCKET_READINESS_H

#include "sovia/socket/tx_stream.h"

namespace viaduct::sovia {

struct Readiness {
  bool reset = false;       // both ends have lost the connection
  bool untold = false;      // a reset that the library knows of, and that no call has told the program
  bool has_lane = false;
  bool had_lanes = false;   // the connection has a lane or has had one

  bool write_shut = false;  // this direction is shut down, and the kernel may have yet to send its end

  // --- receiving
  bool on_lane = false;         // the lane has the next bytes, or will have
  bool read_shut = false;
  bool has_inherited = false;   // bytes that come before the kernel's and the lane's
  bool record_next = false;     // the kernel's next bytes are a Resume record (packet.h), not for the program
  bool lane_unread = false;     // bytes on the lane before the kernel's next ones
  bool lane_ended = false;      // the peer has told the end of its lane
  bool awaits_lane_end = false; // the kernel's end counts only when the lane's has come
  bool early_end = false;       // the end of the kernel's stream has been read before the lane's came
  bool kernel_unread = false;   // the kernel has data before its end; looked up only for POLLRDHUP

  // --- sending; needed only for POLLOUT
  TxRoute sending = TxRoute::kKernel;
  bool lane_broken = false;
  bool lane_room = false;       // a send would not wait
  bool lands_soon = false;      // nothing but the lane's end is awaited before the kernel sends
  bool lands_now = false;       // kLanding, and the kernel takes what has not arrived

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
