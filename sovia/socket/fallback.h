// The fallback of a connection whose lane has broken: both streams go on through the kernel.
//
// A sender still has every byte of which it does not know that it has come. It writes these to the kernel,
// behind a record (Resume, packet.h) that says where on the lane they begin, and then what the program
// sends next. A receiver gives the program what the lane has, takes the record, and drops what it has twice.
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

// The lane has broken: the streams go on through the kernel. Nothing is lost, if the peer lives.
void fall_back(Socket& socket, int fd);
// Both locked.
void fall_back_locked(Socket& socket, int fd);
// Work left for the background thread to do for that, as POLLIN and POLLOUT; 0: nothing.
short falling(Socket& socket);
void go_on_falling(Socket& socket, int fd);
bool has_fallen(Socket& socket, LaneEndpoint& end);
// Both ends lose the connection: bytes of it may be lost. Both locked.
void reset_connection(Socket& socket, int fd);

// Waits until what the peer has sent on a lane that it has lost has come.
void await_record(Socket& socket, int fd, std::uint64_t deadline);
// Waits until the kernel has taken what it had to send on its own. -1: another thread sees to it.
void await_kernel(Socket& socket, int fd);

// Sends unacknowledged bytes of the lane through the kernel. False: it takes no more at the moment. `patient`: or the
// record may wait. tx locked.
bool send_unacked(Socket& socket, int fd, bool patient = false);
// tx locked; and the lane only if it has fallen.
void shut_if_due(Socket& socket, int fd);
// The background thread looks at what is left to be done.
void be_watched(Socket& socket);

// The next that is read is a record in the kernel's stream, or what comes before it has been read. rx locked.
bool record_is_next(const Socket& socket);
// False: it has not come yet. rx locked.
bool take_record(Socket& socket, int fd);
// Bytes that the kernel has behind FIN may be a record although the lane has not broken here. False: as much of it as
// there is may be one, or the connection has been reset. rx locked.
bool meet_early_record(Socket& socket, int fd);
// Whether the peer has yet to write its record while the kernel has data for it. A kernel socket that is
// closed answers what comes with a reset, and drops the data.
bool record_would_reset(Socket& socket, int fd);
// Gives the program what comes before all else. rx locked.
Attempt receive_inherited_bytes(Socket& socket, const iovec* pieces, std::size_t count, std::size_t skip, bool peek,
                                ssize_t& bytes);
// Frees what a lane has left when all of it has been read. rx locked.
void drop_empty_record(Socket& socket);
// The socket is the kernel's from now on if no lane may come and nothing is left of one. One stream locked.
void stay_with_kernel_if_done(Socket& socket);

}  // namespace viaduct::sovia

#endif
