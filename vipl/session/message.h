// Messages with descriptors, on sockets of the control protocol.
#ifndef VIADUCT_VIPL_SESSION_MESSAGE_H
#define VIADUCT_VIPL_SESSION_MESSAGE_H

#include <cstddef>

namespace viaduct::vipl {

// Receives the next message. `count`: of descriptors at most; out: how many have come. All are closed if there are
// too many. Returns as recvmsg(2); a message that does not fit is EBADMSG.
long receive_message(int socket, void* data, std::size_t bytes, int* fds, unsigned& count, int flags);

// False: not sent, or not as a whole; see errno.
bool send_message(int socket, const void* data, std::size_t bytes, const int* fds, unsigned count,
                  int flags);

}  // namespace viaduct::vipl

#endif
