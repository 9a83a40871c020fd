// Sockets of the control protocol (control.h) at the agent's end.
#ifndef VIADUCT_KAGENT_CONTROL_SOCKET_H
#define VIADUCT_KAGENT_CONTROL_SOCKET_H

#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace viaduct {

// Who it is, for the log.
std::string text_of(const ucred& peer);

// All groups of the process at the other end, as the kernel knows them: no account database, which
// might be slow and might say something else, is asked.
std::vector<gid_t> groups_of(int socket, const ucred& peer);

// Sends one packet, with copies of descriptors, without waiting. False if there is no room or nobody.
bool send_message(int socket, const void* data, std::size_t bytes, std::span<const int> fds = {});

// Messages that are still there when a socket is closed make the peer's next call fail, before it
// could read our answer.
void swallow_rest(int socket);

}  // namespace viaduct

#endif
