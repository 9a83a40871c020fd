// The program's calls on a UDP socket that may have lanes. Each function is as the kernel's call.
#ifndef VIADUCT_SOVIA_DATAGRAM_DATAGRAM_CALLS_H
#define VIADUCT_SOVIA_DATAGRAM_DATAGRAM_CALLS_H

#include <sys/socket.h>

#include "sovia/datagram/datagram_table.h"

namespace viaduct::sovia::datagram {

// `name`, `length`: as for sendto and recvfrom; nullptr: none.
ssize_t send(int fd, const iovec* pieces, std::size_t count, int flags, const void* name = nullptr,
             socklen_t length = 0);
ssize_t receive(int fd, const iovec* pieces, std::size_t count, int flags, void* name = nullptr,
                socklen_t* length = nullptr);
// As sendmsg and recvmsg, with a message that can be read.
ssize_t send_message(int fd, const msghdr& message, int flags);
ssize_t receive_message(int fd, msghdr& message, int flags);

// After connect() of the kernel's has succeeded.
void connected(int fd, const sockaddr* address, socklen_t length);
// Before setsockopt() of the kernel's.
void sets_option(int fd, int level, int name);
// After F_SETFL or FIONBIO of the kernel's.
void mode_changed(int fd);
// Adds the lanes' unread bytes to the int that FIONREAD has filled in.
void add_unread(int fd, int* bytes);

}  // namespace viaduct::sovia::datagram

#endif
