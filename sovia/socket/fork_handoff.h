// Sockets that other processes get: by fork, exec or a message.
#ifndef VIADUCT_SOVIA_SOCKET_FORK_HANDOFF_H
#define VIADUCT_SOVIA_SOCKET_FORK_HANDOFF_H

#include "sovia/process/reason.h"
#include "sovia/socket/socket.h"

namespace viaduct::sovia {

// Before fork, lane left: unread data of the lane moves to memory that parent and child share, and
// the socket counts one more process that holds it. Undone by fork_failed().
void share(Socket& socket, int fd);
void fork_failed(Socket& socket);
// In the child, for every socket: no thread is inside any more.
void after_fork_in_child(Socket& socket);

// Lane left. Takes unread bytes that come before the kernel's to memory of the socket's own.
void gather(Socket& socket, int fd);
// Another program or process is about to get the descriptor. Lane left. The file of what is unread
// and comes before anything that the kernel has; -1: there is none.
int export_unread(Socket& socket, int fd);
// This process has got it so: no lane, and `inherited_bytes` is read first.
void inherit(Socket& socket, InheritedBytes* inherited_bytes, Reason why);
// The same, but what was unread has been lost.
void inherit_loss(Socket& socket, int fd);
// This process does not hold it any more from now on: it ends, or another program takes over that
// does not get it. More than once does no harm. Undone by reattach().
void detach(Socket& socket);
void reattach(Socket& socket);

}  // namespace viaduct::sovia

#endif
