// The beginning and the end of a socket's lanes.
#ifndef VIADUCT_SOVIA_SOCKET_LANE_LIFE_H
#define VIADUCT_SOVIA_SOCKET_LANE_LIFE_H

#include <sys/types.h>

#include <cstdint>
#include <mutex>

#include "sovia/socket/peer_history.h"
#include "sovia/socket/socket.h"

namespace viaduct::sovia {

// ------------------------------------------------------------------ for the background thread
// The lane is open: sends may go up to it. False if the socket does not want it any more.
bool lane_opened(Socket& socket, LaneEndpoint& end);
// The peer may begin with the lane from now on. `fd`: the descriptor by which the lane was asked for.
void trust_lane(Socket& socket, LaneEndpoint& end, int fd);
// Looks for START and for the peer's close. True if a route has changed.
bool settle(Socket& socket, LaneEndpoint& end);
// No lane comes; the socket decides after how many calls it asks again.
void lane_refused(Socket& socket, Reason why);
// Takes a lane that is over from the socket, for good. False while it is still needed: it is pinned, or holds data to
// read or to resend.
bool lane_over(Socket& socket, LaneEndpoint& end);
// The kernel is faster than the lane: both directions go down to the kernel, where the socket stays until all may ask
// again (LaneDemand), as the peer does in `again_ms`.
void leave_slower_lane(Socket& socket, LaneEndpoint& end, std::uint32_t again_ms);
// Both directions have been shut down: has the lane refuse data. rx and tx locked.
void refuse_data_if_shut(Socket& socket);
// If the lane's direction has ended, the peer has closed, or the kernel has told of the connection's end, sending goes down:
// the kernel knows what a send is answered. True if it did. With tx and the lane locked.
bool leave_ended_lane(Socket& socket);
// Sends FIN to the peer when the process ends. No call is under way. False: something is unread, for which TCP resets the
// connection.
bool finish_lane(Socket& socket);
// Whether the data of one direction at least goes over a lane now.
bool is_on_lane(Socket& socket);
// The number of the next lane of this connection.
std::uint32_t lane_number(Socket& socket);

// ------------------------------------------------------------------ for calls
// A call on a connection that bypasses the library (lane_demand.h) is the kernel's alone. No thread asks for a lane
// while such a call is under way, as the call would not learn of it. end_bypass() has to follow if this was true.
inline bool begin_bypass(Socket& socket) {
  socket.rx.undisturbed.fetch_add(1);
  if (socket.demand.bypasses() && !socket.reset.is_untold()) return true;
  socket.rx.undisturbed.fetch_sub(1);
  return false;
}
inline void end_bypass(Socket& socket, ssize_t moved) {
  if (moved > 0) socket.demand.count_bypass(static_cast<std::uint64_t>(moved));
  socket.rx.undisturbed.fetch_sub(1);
}
// connect() or accept() has made the connection: the peer's history decides when the socket asks for a lane, maybe at
// once.
void connection_made(Socket& socket, int fd, Role role);
// A call has moved `bytes` by the kernel: asks for a lane if the connection is worth one now.
void count_for_lane(Socket& socket, int fd, Direction direction, ssize_t bytes);
inline void note_kernel_bytes(Socket& socket, int fd, Direction direction, ssize_t bytes) {
  if (bytes > 0 && socket.link.is_idle() && socket.may_use_lane()) count_for_lane(socket, fd, direction, bytes);
}
// Makes a call that sends by the kernel alone and does not wait, if the direction is the kernel's. False: it is not, or the
// socket waits for room.
template <class KernelCall>
bool send_in_kernel_at_once(Socket& socket, int fd, KernelCall&& call, ssize_t& result) {
  {
    const std::scoped_lock guard(socket.tx.lock);
    if (socket.link.end != nullptr || socket.modes.blocks(fd, 0) || socket.tx.shut) return false;
    if (!socket.tx.unacked.empty() || socket.reset) return false;
    result = call();
    if (result < 0) socket.tx.count_filled();
  }
  note_kernel_bytes(socket, fd, Direction::kSending, result);
  return true;
}
// Forbids the sending direction to use a lane from now on.
void forbid(Socket& socket, Reason why);
// The socket listens: it carries no data, so it has no lane and is the kernel's alone.
void listens(Socket& socket);
// Whether the peer has yet to say that it has seen the end of this direction's lane. tx and the lane locked.
bool is_coming_down(const Socket& socket);
// Whether the end of the kernel's stream is not that of the connection yet, as the peer may have sent
// more on the lane. rx and the lane locked.
bool must_wait_for_lane_end(const Socket& socket, const Lane& lane);
// Gives back a pin of a lane that may have ended meanwhile. One stream locked.
void unpin(LaneEndpoint& end);

}  // namespace viaduct::sovia

#endif
