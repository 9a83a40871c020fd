// A socket: a kernel TCP socket, and beside it, once the connection is worth it, a lane over VIA.
//
// It is made of layers, each of which owns its data and calls none above it:
//
//     socket_ref, socket_modes   references; what options and flags say
//     socket_route               the route of each direction
//     socket_fallback            the streams of a lane that has broken
//     socket_share               processes that have the socket too
//     socket_lane                the beginning and the end of lanes
//     socket_ready               readiness
//     socket_leave               the way down to the kernel; shutdown and close
//     redirected_receive         the lane writes to a reader's memory
//     socket_waiting             calls that wait
//     socket_receive, socket_send
// Messages and tagged buffers are built on it: sovia/message.
//
// A socket is shared by all descriptors of the process that were made of each other by dup. All
// functions may be called by several threads at once. `fd` is any descriptor of the socket.
#ifndef VIADUCT_SOVIA_SOCKET_SOCKET_H
#define VIADUCT_SOVIA_SOCKET_SOCKET_H

#include "sovia/socket/socket_send.h"

namespace viaduct::sovia {

class Socket final : public SocketSend {
 private:
  friend class SocketPool;

  explicit Socket(bool read_known) { read_known_ = read_known; }
  ~Socket() = default;
};

}  // namespace viaduct::sovia

#endif
