// Readiness: what tells poll, select and epoll that a lane has changed.
#ifndef VIADUCT_SOVIA_SOCKET_WATCHERS_H
#define VIADUCT_SOVIA_SOCKET_WATCHERS_H

namespace viaduct::sovia {

class Socket;

// The lane of a socket has changed, so that its answers may have. Puts it on the ready lists of the
// epoll sets that have it; costs a load if there are none. To be called by whoever changed it,
// before those who wait are woken (Interest::concerns), with no lock of a socket held.
//     POLLIN      something to read came: data, the end
//     POLLOUT     there is room again where there was none
//     kAnyChange  a route went up or down, or concerned() has another value now
// More bits than needed do no harm but to make events that edge-triggered programs take for news.
inline constexpr short kAnyChange = -1;
void notify_watchers(Socket& socket, short changed = kAnyChange);

// Has the kernel's registrations of the socket made what they should be now, without waiting for the
// threads that use the sets. With no locks held.
void refresh_watchers(Socket& socket);

}  // namespace viaduct::sovia

#endif
