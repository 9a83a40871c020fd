// The program's calls on a UDP socket that may have lanes. Each function behaves as the kernel's call does.
#ifndef VIADUCT_SOVIA_DATAGRAM_DATAGRAM_CALLS_H
#define VIADUCT_SOVIA_DATAGRAM_DATAGRAM_CALLS_H

#include <sys/socket.h>

#include "sovia/datagram/datagram_table.h"

namespace viaduct::sovia::datagram {

// `name`, `length`: the address, as for sendto and recvfrom; nullptr: none.
ssize_t send(int fd, const iovec* pieces, std::size_t count, int flags, const void* name = nullptr,
             socklen_t length = 0);
ssize_t receive(int fd, const iovec* pieces, std::size_t count, int flags, void* name = nullptr,
                socklen_t* length = nullptr);
// As sendmsg and recvmsg; `message` itself is readable memory.
ssize_t send_message(int fd, const msghdr& message, int flags);
ssize_t receive_message(int fd, msghdr& message, int flags);

// To be called after the kernel's connect() has succeeded.
void connected(int fd, const sockaddr* address, socklen_t length);
// To be called before the kernel's setsockopt().
void sets_option(int fd, int level, int name);
// To be called after the kernel's F_SETFL or FIONBIO.
void mode_changed(int fd);
// Adds the lanes' unread bytes to the int that FIONREAD has filled in.
void add_unread(int fd, int* bytes);

}  // namespace viaduct::sovia::datagram

#endif
