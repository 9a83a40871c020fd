// Sockets that other processes get: by fork, exec or a message.
#ifndef VIADUCT_SOVIA_SOCKET_FORK_HANDOFF_H
#define VIADUCT_SOVIA_SOCKET_FORK_HANDOFF_H

#include "sovia/process/reason.h"
#include "sovia/socket/socket.h"

namespace viaduct::sovia {

// To be called before fork, when the lane has been left. Unread data of the lane moves to memory that parent and child
// share, and the socket counts one more process that holds it. Undone by fork_failed().
void share(Socket& socket, int fd) SOVIA_UNLOCKED;
void fork_failed(Socket& socket) SOVIA_UNLOCKED;
// Whether other processes have the connection too.
bool is_shared(Socket& socket) SOVIA_UNLOCKED;
// Whether a fork has ever given the connection to another process.
bool was_shared(Socket& socket) SOVIA_UNLOCKED;
// To be called in the child for every socket. No other thread exists there.
void after_fork_in_child(Socket& socket);

// Moves unread bytes that come before the kernel's to memory of the socket's own. kAll: the lane has been left, and bytes of
// the kernel's that come before the lane's are waited for.
enum class Gather : std::uint8_t { kAll, kWhatIsThere };
void gather(Socket& socket, int fd, Gather what = Gather::kAll) SOVIA_UNLOCKED;
// To be called before another program or process gets the descriptor, when the lane has been left. Returns the file
// with the unread bytes that come before the kernel's; -1: there is none.
int export_unread(Socket& socket, int fd) SOVIA_UNLOCKED;
// This process has got the socket from another program or process: it gets no lane, and `inherited_bytes` is read
// first.
void inherit(Socket& socket, InheritedBytes* inherited_bytes, Reason why) SOVIA_UNLOCKED;
// As inherit(), but the unread bytes have been lost: resets the connection.
void inherit_loss(Socket& socket, int fd) SOVIA_UNLOCKED;
// This process does not count as a holder of the socket any more: it ends, or runs another program that does not get
// the socket. A second call does no harm. Undone by reattach().
void detach(Socket& socket) SOVIA_UNLOCKED;
void reattach(Socket& socket) SOVIA_UNLOCKED;
// This process, which has detached from the socket, closes it. Resets the connection, as TCP does, if no other process has it
// and bytes are unread of which the kernel does not know.
void reset_if_unread(Socket& socket, int fd) SOVIA_UNLOCKED;

}  // namespace viaduct::sovia

#endif
