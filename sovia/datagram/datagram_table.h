// Which descriptors are UDP sockets that may have lanes: IPv4 sockets that this program has made, as long as it makes
// no calls on them that only the kernel can serve.
#ifndef VIADUCT_SOVIA_DATAGRAM_DATAGRAM_TABLE_H
#define VIADUCT_SOVIA_DATAGRAM_DATAGRAM_TABLE_H

#include <atomic>
#include <memory>

#include "sovia/datagram/datagram_socket.h"

namespace viaduct::sovia::datagram {

using DatagramRef = std::shared_ptr<DatagramSocket>;

namespace table {

// socket() has just returned `fd`. Enters it in the table, unless the option SOVIA_UDP is off.
void opened(int fd, bool nonblocking);

inline constinit std::atomic<int> g_count{0};
bool is_known(int fd);

// Whether the descriptor is in the table. Costs a load while the table is empty.
inline bool knows(int fd) { return g_count.load(std::memory_order_acquire) != 0 && is_known(fd); }

// The socket of a descriptor. Empty if it is not in the table, or the kernel alone has its datagrams: then it leaves
// the table, so that later calls cost only a load.
DatagramRef find(int fd);
// Whether find() would find a socket.
bool concerns(int fd);
// Whether the descriptor still is this socket's.
bool is(int fd, const DatagramSocket& socket);

// The descriptor is about to be closed or replaced. Its lanes end.
void closing(int fd);
void closing_range(unsigned first, unsigned last);

// The program makes a call on the descriptor that only the kernel can serve: ends its lanes, if it is in the table.
void give_up(int fd, Reason why);
// give_up() for all sockets, or for those that a program run by exec or spawn gets.
void give_up_all(Reason why, bool only_inherited);

// Around fork.
void before_fork();
void after_fork(bool in_child);

}  // namespace table
}  // namespace viaduct::sovia::datagram

#endif
