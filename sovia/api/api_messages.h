// Calls on sockets that carry messages (SOVIA_MESSAGES), for the functions of sovia.h: each function of sovia.h asks
// carried() first, as the kernel's stream of such a connection consists of frames.
#ifndef VIADUCT_SOVIA_API_API_MESSAGES_H
#define VIADUCT_SOVIA_API_API_MESSAGES_H

#include "sovia/api/api.h"
#include "sovia/message/message_socket.h"

namespace viaduct::sovia::messages {

// The length of the next message. The caller holds a reference.
inline int next_length(Socket& socket, int fd) {
  MessageSocket* const messages = MessageSocket::of(socket);
  return messages != nullptr ? messages->next_message(fd) : 0;
}

inline bool carried(const Socket* known) { return known != nullptr && known->modes.carries_messages(); }
inline bool carried(int fd) { return carried(table::peek(fd)); }

ssize_t send(int fd, const iovec* pieces, std::size_t count, int flags);
ssize_t send(int fd, const msghdr* message, int flags);
ssize_t receive(int fd, const iovec* pieces, std::size_t count, int flags);
ssize_t receive(int fd, msghdr* message, int flags);

inline ssize_t send(int fd, const void* data, std::size_t bytes, int flags) {
  const iovec piece{const_cast<void*>(data), bytes};
  return send(fd, &piece, 1, flags);
}
inline ssize_t receive(int fd, void* data, std::size_t bytes, int flags) {
  const iovec piece{data, bytes};
  return receive(fd, &piece, 1, flags);
}

}  // namespace viaduct::sovia::messages

#endif
