// The fallback of a connection whose lane has broken: both streams go on through the kernel.
//
// A sender still has every byte that is not known to have arrived. It writes these to the kernel, behind a record
// (Resume, packet.h) that says where on the lane they begin, and then what the program sends next. A receiver gives the
// program what the lane has, takes the record, and drops what it has twice.
//
// "rx locked", "tx locked": the lock of that stream is held.
#ifndef VIADUCT_SOVIA_SOCKET_FALLBACK_H
#define VIADUCT_SOVIA_SOCKET_FALLBACK_H

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "sovia/socket/socket.h"

namespace viaduct::sovia {

// Takes the streams of a broken lane to the kernel. Nothing is lost, if the peer lives.
void fall_back(Socket& socket, int fd);
// Both locked.
void fall_back_locked(Socket& socket, int fd);
// The events that the background thread waits for before it calls go_on_falling(): POLLIN, POLLOUT; POLLPRI: it looks
// again after a while. 0: nothing is left to do.
short falling(Socket& socket);
void go_on_falling(Socket& socket, int fd);
bool has_fallen(Socket& socket, LaneEndpoint& end);
// Whether the kernel has an error to return.
bool has_kernel_failed(int fd);
// Resets the connection for both ends, because bytes may be lost. Both locked.
void reset_connection(Socket& socket, int fd);
// The result of a call that meets the reset: ECONNRESET the first time, then `once_told`. One stream locked.
Attempt tell_reset(Socket& socket, int fd, Attempt once_told);

// Waits until the record of a peer that has lost its lane has been taken, if it is certain to come.
void await_record(Socket& socket, int fd, std::uint64_t deadline);
// Waits until the kernel has taken the unacknowledged bytes of the lane. `fd` -1: another thread sends them.
void await_kernel(Socket& socket, int fd);

// Sends unacknowledged bytes of the lane through the kernel. False: the kernel takes no more at the moment; with
// `patient` also if a record without data is still held back (UnackedCopy). tx locked.
bool send_unacked(Socket& socket, int fd, bool patient = false);
// Does the shutdown of the kernel's sending direction that had to wait (TxStream::shut_later), if nothing is left to be
// sent before. tx locked; the lane must not be, unless its fallback is done.
void shut_if_due(Socket& socket, int fd);
// Makes the background thread watch the socket until its fallback is complete.
void be_watched(Socket& socket);

// The kernel's next bytes are, or may be, a record: all kernel bytes before it have been read. rx locked.
bool record_is_next(const Socket& socket);
// Takes the record off the kernel's stream. False: it has not come yet. rx locked.
bool take_record(Socket& socket, int fd);
// Looks for a record behind FIN, which the peer may have written although the lane has not broken here. False: the
// bytes that have come may be the beginning of a record, or the connection has been reset. rx locked.
bool meet_early_record(Socket& socket, int fd);
// Whether the kernel has bytes, no record's, while the lane carries the direction: the peer has sent them by a call that its
// library does not see. For a moment a peer whose lane has just broken looks like that. Both locked.
bool has_foreign_bytes(Socket& socket, int fd);
// Resets the connection because of them.
void reset_for_foreign_bytes(Socket& socket, int fd);
// Whether the peer has yet to write its record while the kernel has data for the peer. A kernel socket that is closed
// would answer the record with a reset, and drop the data.
bool record_would_reset(Socket& socket, int fd);
// Gives the program the inherited bytes, which come before all else. rx locked.
Attempt receive_inherited_bytes(Socket& socket, const iovec* pieces, std::size_t count, std::size_t skip, bool peek,
                                ssize_t& bytes);
// Frees the inherited bytes when they have been read and no record is expected. rx locked.
void drop_empty_record(Socket& socket);
// Leaves the socket to the kernel alone if no lane may come and nothing is left of one. One stream locked.
void stay_with_kernel_if_done(Socket& socket);

}  // namespace viaduct::sovia

#endif
