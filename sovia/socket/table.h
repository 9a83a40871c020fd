// Which of the process's descriptors are sockets of ours: TCP over IPv4 or IPv6, whatever their
// state.
//
// A descriptor that the table does not know yet (inherited over exec, opened before the library was there) is
// looked at once. So everything that opens, copies or closes sockets must tell the table. Other
// descriptors need not be told of: one that was closed is taken for none of ours until a call that
// makes sockets returns it again.
#ifndef VIADUCT_SOVIA_SOCKET_TABLE_H
#define VIADUCT_SOVIA_SOCKET_TABLE_H

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sovia/socket/socket.h"

namespace viaduct::sovia::table {

// How a descriptor came to be, which decides whether its socket may have a lane.
enum class Origin {
  kMade,       // by socket() or accept() of this program
  kInherited,  // open before the library first saw the descriptor
  kReceived,   // by SCM_RIGHTS
};

// The socket of a descriptor; empty for bad descriptors and those that are none of ours, which the kernel alone serves.
SocketRef find(int fd);

// socket(), accept() or the like has just returned `fd`. kMade: it is known to be TCP, so the kernel need not be asked.
void opened(int fd, Origin origin = Origin::kMade);

// The descriptors of one socket that another program or process has passed on with unread bytes. It is one of ours
// until those have been read. Empty if there is no memory.
SocketRef left_unread(const int* fds, std::size_t count);

// The socket of a TCP descriptor, which becomes one of ours if it is none yet, though without lanes. Copies of the
// descriptor that exist already do not. Empty if it is no TCP socket, or there is no memory.
SocketRef adopt(int fd);

// `fd` has just been made, and is none of ours.
void opened_foreign(int fd);

// `copy` has just been made a copy of `fd` by dup and its kin, after closing() of `copy`.
void copied(int fd, int copy);

// A descriptor is about to be closed or replaced: forgets it and gives back its socket, to be
// released (Socket::release) before the kernel closes the descriptor.
SocketRef closing(int fd);

// Whether the descriptor is a TCP socket, even one that never has a lane (standard streams, received sockets).
// Connections that such a listener accepts may have lanes.
bool is_tcp(int fd);

// Calls visit(fd, socket) for each known descriptor that is a socket of ours.
void for_each(void (*visit)(int fd, Socket& socket, void* context), void* context);
template <class Visit>
void for_each(Visit&& visit) {
  for_each([](int fd, Socket& socket, void* all) { (*static_cast<decltype(&visit)>(all))(fd, socket); }, &visit);
}

// ------------------------------------------------------------------ the short way
// Values of an entry that are not the address of a Socket.
inline constexpr std::uintptr_t kUnknown = 0;
inline constexpr std::uintptr_t kForeign = 1;
inline constexpr std::uintptr_t kTcpForeign = 2;  // is_tcp(), and still none of ours

using Entry = std::atomic<std::uintptr_t>;
extern Entry* g_entries;
extern unsigned g_limit;  // 0 before the first use

Socket* look(int fd);  // the slow path of peek()

// The socket of a descriptor, without counting a reference: only to ask for may_use_lane(), where an answer that is a
// moment old is as good as a call made a moment earlier. The socket may have gone, but its memory is still a socket's
// (socket_pool.h).
inline Socket* peek(int fd) {
  if (static_cast<unsigned>(fd) < g_limit) [[likely]] {
    const std::uintptr_t entry = g_entries[fd].load(std::memory_order_acquire);
    if (entry != kUnknown) [[likely]] {
      return entry > kTcpForeign ? reinterpret_cast<Socket*>(entry) : nullptr;
    }
  }
  return look(fd);
}

}  // namespace viaduct::sovia::table

#endif
