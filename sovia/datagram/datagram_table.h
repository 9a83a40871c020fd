// Which descriptors are UDP sockets that may have lanes: those of IPv4 that this program has made, as long as
// it does nothing with them that only the kernel can do.
#ifndef VIADUCT_SOVIA_DATAGRAM_DATAGRAM_TABLE_H
#define VIADUCT_SOVIA_DATAGRAM_DATAGRAM_TABLE_H

#include <atomic>
#include <memory>

#include "sovia/datagram/datagram_socket.h"

namespace viaduct::sovia::datagram {

using DatagramRef = std::shared_ptr<DatagramSocket>;

namespace table {

// A descriptor that socket() has just returned. Nothing if the options say so (SOVIA_UDP).
void opened(int fd, bool nonblocking);

inline constinit std::atomic<int> g_count{0};
bool is_known(int fd);

// Whether it is one of them. A load while there are none.
inline bool knows(int fd) { return g_count.load(std::memory_order_acquire) != 0 && is_known(fd); }

// Empty if it is none, or the kernel alone has its datagrams: then it is not known any more, and costs a load again.
DatagramRef find(int fd);
// Whether there is one.
bool concerns(int fd);
// Whether the descriptor still is this socket's.
bool is(int fd, const DatagramSocket& socket);

// The descriptor is about to be closed or replaced. Its lanes end.
void closing(int fd);
void closing_range(unsigned first, unsigned last);

// The program makes a call on the descriptor that only the kernel can serve: ends its lanes, if it is in the table.
void give_up(int fd, Reason why);
// ... with all of them, or those that a program run by exec or spawn gets.
void give_up_all(Reason why, bool only_inherited);

// Around fork.
void before_fork();
void after_fork(bool in_child);

}  // namespace table
}  // namespace viaduct::sovia::datagram

#endif
