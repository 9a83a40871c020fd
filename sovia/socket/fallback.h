// The way of a stream from its lane to the kernel: as its sender likes, or because the lane has broken.
//
// A sender still has every byte that is not known to have arrived. It writes these to the kernel, behind a record
// (Resume, packet.h) that says where on the lane they begin, and then what the program sends next. A receiver gives the
// program what the lane has, takes the record, and drops what it has twice. tests/models/stream.pml is a model of it.
//
// stream_locks.h has what the declarations say of locks.
#ifndef VIADUCT_SOVIA_SOCKET_FALLBACK_H
#define VIADUCT_SOVIA_SOCKET_FALLBACK_H

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "sovia/socket/lane_endpoint.h"
#include "sovia/socket/socket.h"

namespace viaduct::sovia {

// Takes the streams of a broken lane to the kernel. Nothing is lost, if the peer lives.
void fall_back(Socket& socket, int fd) SOVIA_UNLOCKED;
void fall_back_locked(Socket& socket, int fd) SOVIA_BOTH_LOCKED(socket);
// Sending leaves the lane: the kernel takes over when all that was sent has arrived, now or at one of the next calls of
// land(). It goes there for a burst, or, with the lane's end, for good.
void leave_lane(Socket& socket, int fd, bool for_good) SOVIA_TX_LOCKED(socket) SOVIA_LANE_LOCKED(socket);
// True: the next bytes may go by the kernel. `now`: if they may (may_land_now()), though not all has arrived: the kernel
// takes the rest too, and the peer drops what it has twice.
bool land(Socket& socket, int fd, bool now = false) SOVIA_TX_LOCKED(socket) SOVIA_LANE_LOCKED(socket);
// A direction that lands for a burst, and has little on its way: a peer that reads only later keeps both.
bool may_land_now(Lane& lane) VIADUCT_REQUIRES(lane.lock());
// The events that the background thread waits for before it calls go_on_falling(): POLLOUT; POLLPRI: it looks again
// after a while. 0: nothing is left to do.
short falling(Socket& socket) SOVIA_UNLOCKED;
void go_on_falling(Socket& socket, int fd) SOVIA_UNLOCKED;
bool has_fallen(Socket& socket, LaneEndpoint& end) SOVIA_UNLOCKED;
// Whether the kernel has an error to return.
bool has_kernel_failed(int fd);
// Resets the connection for both ends, because bytes may be lost.
void reset_connection(Socket& socket, int fd, Reason why = Reason::kLost) SOVIA_STREAM_LOCKED;
// The result of a call that meets the reset: ECONNRESET the first time, then `once_told`. A call that has done a `part`
// leaves it to the next one.
Attempt tell_reset(Socket& socket, int fd, Attempt once_told, std::size_t part) SOVIA_STREAM_LOCKED;

// Waits until the record of a peer that leaves the lane has been taken.
void await_record(Socket& socket, int fd, std::uint64_t deadline) SOVIA_UNLOCKED;
// Waits until the kernel has taken the owed bytes. `fd` -1: another thread sends them.
void await_kernel(Socket& socket, int fd) SOVIA_UNLOCKED;

// Sends the owed bytes through the kernel. `more`: other bytes follow at once. False: the kernel takes no more at the moment.
bool send_owed(Socket& socket, int fd, bool more = false) SOVIA_TX_LOCKED(socket);
// A call has sent the owed bytes and more, with this result: `bytes` is without the former. The background thread sends what is
// left of them.
void after_send_of_owed(Socket& socket, ssize_t& bytes) SOVIA_TX_LOCKED(socket);
// Does the shutdown of the kernel's sending direction that had to wait (TxStream::shut_later), if nothing is left to be
// sent before. The lane must not be locked, unless its fallback is done.
void shut_if_due(Socket& socket, int fd) SOVIA_TX_LOCKED(socket);
// Where both directions have been shut, and the kernel's end is sent later: bytes that the kernel takes meanwhile reset the
// connection then, as those do that it gets behind its end.
void accept_no_more(Socket& socket, int fd) SOVIA_BOTH_LOCKED(socket);
// Makes the background thread watch the socket until its fallback is complete.
void be_watched(Socket& socket);

// Bytes that the kernel has and nobody has read, up to an urgent mark.
std::uint64_t unread_in_kernel(int fd);

// Takes the record that is expected off the kernel's stream. False: it has not come yet.
bool take_record(Socket& socket, int fd) SOVIA_RX_LOCKED(socket);
// The program reads no more: takes the record if it is there, so that the kernel resets nothing, or expects it no longer.
// False: it has to be awaited, or bytes on their way to the peer would be lost.
bool end_record(Socket& socket, int fd) SOVIA_BOTH_LOCKED(socket);
// Whether the kernel has bytes, no record's, while the lane carries the direction: the peer has sent them by a call that its
// library does not see. For a moment a peer whose lane has just broken looks like that.
bool has_foreign_bytes(Socket& socket, int fd) SOVIA_BOTH_LOCKED(socket);
// Resets the connection because of them.
void reset_for_foreign_bytes(Socket& socket, int fd) SOVIA_UNLOCKED;
// Gives the program the inherited bytes, which come before all else.
Attempt receive_inherited_bytes(Socket& socket, const iovec* pieces, std::size_t count, std::size_t skip, bool peek,
                                ssize_t& bytes) SOVIA_RX_LOCKED(socket);
// Frees the inherited bytes when they have been read.
void drop_if_read(Socket& socket) SOVIA_RX_LOCKED(socket);
// Leaves the socket to the kernel alone if no lane may come and nothing is left of one.
void stay_with_kernel_if_done(Socket& socket) SOVIA_STREAM_LOCKED;

}  // namespace viaduct::sovia

#endif
