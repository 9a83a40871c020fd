// Which of the process's descriptors are sockets of ours: TCP over IPv4 or IPv6, whatever their state.
//
// What the table does not know yet (inherited over exec, received by SCM_RIGHTS, opened before the
// library was there) is looked at once. So everything that opens, copies or closes descriptors must
// tell the table.
#ifndef VIADUCT_SOVIA_TABLE_H
#define VIADUCT_SOVIA_TABLE_H

#include "sovia/socket.h"

namespace viaduct::sovia::table {

// How a descriptor came to be, which decides whether its socket may have a lane.
enum class Origin {
  kMade,       // by socket() or accept() of this program
  kInherited,  // it was there when the library first saw it
  kReceived,   // by SCM_RIGHTS
};

// The socket of a descriptor; empty if it is none of ours (which includes bad ones): the kernel's
// business alone.
SocketRef find(int fd);

// A descriptor that socket(), accept() and the like have just returned.
void opened(int fd, Origin origin = Origin::kMade);

// `copy` has just been made a copy of `fd` by dup and its kin. What `copy` was before has been
// taken with closing() first.
void copied(int fd, int copy);

// A descriptor is about to be closed or replaced: forgets it and gives back its socket, to be
// released (Socket::release) before the kernel closes the descriptor.
SocketRef closing(int fd);

// Calls visit(fd, socket) for each known descriptor that is a socket of ours.
void for_each(void (*visit)(int fd, Socket& socket, void* context), void* context);

}  // namespace viaduct::sovia::table

#endif
