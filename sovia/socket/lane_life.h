// The beginning and the end of a socket's lanes.
#ifndef VIADUCT_SOVIA_SOCKET_LANE_LIFE_H
#define VIADUCT_SOVIA_SOCKET_LANE_LIFE_H

#include <sys/types.h>

#include <cstdint>

#include "sovia/socket/fallback.h"
#include "sovia/socket/peer_history.h"
#include "sovia/socket/socket.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {

// ------------------------------------------------------------------ for the background thread
// The lane is open: sends may go up to it. False if the socket does not want it any more.
bool lane_opened(Socket& socket, LaneEndpoint& end) SOVIA_UNLOCKED;
// The peer may begin with the lane from now on. `fd`: the descriptor by which the lane was asked for.
void trust_lane(Socket& socket, LaneEndpoint& end, int fd) SOVIA_UNLOCKED;
// Looks for what the lane has brought, and for the peer's close. True if a route has changed.
bool settle(Socket& socket, LaneEndpoint& end) SOVIA_UNLOCKED;
// No lane comes; the socket decides after how many calls it asks again.
void lane_refused(Socket& socket, Reason why) SOVIA_UNLOCKED;
// Takes a lane that is over from the socket, for good. False while it is still needed: it is pinned, or holds data to
// read or to resend.
bool lane_over(Socket& socket, LaneEndpoint& end) SOVIA_UNLOCKED;
// No record is expected any more if the peer knows that its FIN has come. False: it may not know.
bool forget_record_if_sure(Socket& socket, Lane& lane) SOVIA_RX_LOCKED(socket) VIADUCT_REQUIRES(lane.lock());
// The kernel is faster than the lane: both directions go down to the kernel, where the socket stays until all may ask
// again (LaneDemand), as the peer does in `again_ms`.
void leave_slower_lane(Socket& socket, LaneEndpoint& end, std::uint32_t again_ms) SOVIA_UNLOCKED;
// Both directions have been shut down: has the lane refuse data.
void refuse_data_if_shut(Socket& socket) SOVIA_BOTH_LOCKED(socket);
// If the peer has closed or asked for that, or the kernel has told of the connection's end, sending leaves the lane: the
// kernel knows what a send is answered.
void leave_ended_lane(Socket& socket, int fd) SOVIA_TX_LOCKED(socket) SOVIA_LANE_LOCKED(socket);
// Sends FIN to the peer when the process ends. No call is under way. False: something is unread, for which TCP resets the
// connection.
bool finish_lane(Socket& socket) SOVIA_UNLOCKED;
// Whether the data of one direction at least goes over a lane now.
bool is_on_lane(Socket& socket) SOVIA_UNLOCKED;
// The number of the next lane of this connection.
std::uint32_t lane_number(Socket& socket) SOVIA_UNLOCKED;

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
void connection_made(Socket& socket, int fd, Role role) SOVIA_UNLOCKED;
// A call has moved `bytes` by the kernel: asks for a lane if the connection is worth one now.
void count_for_lane(Socket& socket, int fd, Direction direction, ssize_t bytes) SOVIA_UNLOCKED;
inline void note_kernel_bytes(Socket& socket, int fd, Direction direction, ssize_t bytes) {
  if (bytes > 0 && socket.link.is_idle() && socket.may_use_lane()) count_for_lane(socket, fd, direction, bytes);
}
// Whether the kernel takes the next bytes now, as it has the direction, or they are part of a long burst.
bool goes_in_kernel(Socket& socket, int fd, std::size_t bytes) SOVIA_TX_LOCKED(socket);
// Makes a call that sends by the kernel alone and does not wait, if the direction is the kernel's. False: it is not, or the
// socket waits for room.
template <class KernelCall>
bool send_in_kernel_at_once(Socket& socket, int fd, std::size_t bytes, KernelCall&& call, ssize_t& result) {
  {
    const TxGuard guard(socket);
    if (socket.modes.blocks(fd, 0) || socket.tx.shut || !goes_in_kernel(socket, fd, bytes)) return false;
    if (!send_owed(socket, fd, true) || socket.reset) return false;
    result = call();
    if (result > 0) socket.burst.sent(static_cast<std::size_t>(result));
    if (result < 0) socket.tx.count_filled();
  }
  note_kernel_bytes(socket, fd, Direction::kSending, result);
  return true;
}
// SOVIA_ROUTE=pure: waits for the connection's lane, for a second at most, and says so if there is none.
void await_lane(Socket& socket, int fd) SOVIA_UNLOCKED;
// Forbids the sending direction to use a lane from now on.
void forbid(Socket& socket, Reason why) SOVIA_UNLOCKED;
// The socket listens: it carries no data, so it has no lane and is the kernel's alone.
void listens(Socket& socket) SOVIA_UNLOCKED;
// Whether the end of the kernel's stream is not that of the connection yet, as the peer may have sent
// more on the lane.
bool must_wait_for_lane_end(const Socket& socket, const Lane& lane)
    SOVIA_RX_LOCKED(socket) VIADUCT_REQUIRES(lane.lock());
// Gives back a pin of a lane that may have ended meanwhile.
void unpin(LaneEndpoint& end) SOVIA_STREAM_LOCKED;

}  // namespace viaduct::sovia

#endif
