// Sending over a socket, by whichever route.
#ifndef VIADUCT_SOVIA_SOCKET_SOCKET_SEND_H
#define VIADUCT_SOVIA_SOCKET_SOCKET_SEND_H

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "sovia/socket/socket_receive.h"

namespace viaduct::sovia {

class SocketSend : public SocketReceive {
 public:
  // As sendmsg for `count` pieces, without address and control data: bytes, or -1 with errno. Waits as the
  // socket's modes and the flags say, and may raise SIGPIPE.
  ssize_t send(int fd, const iovec* pieces, std::size_t count, int flags);

  // setsockopt of what says when the kernel sends.
  int set_pushing(int fd, int name, const void* value, socklen_t length);

 protected:
  ~SocketSend() = default;

 private:
  // A send from the program's own memory.
  struct Direct {
    std::uint32_t memory = 0;  // its region
    bool sent = false;
    std::uint64_t ticket = 0;  // of the last packet
  };
  Attempt try_send(int fd, const iovec* pieces, std::size_t count, std::size_t skip, int flags,
                   ssize_t& bytes, Direct* direct, bool looked);
  bool choose_route(int fd);
  Attempt send_on_lane(int fd, const iovec* pieces, std::size_t count, std::size_t skip, int flags,
                       ssize_t& bytes, Direct* direct, bool looked);
  bool send_direct(const iovec& piece, std::size_t skip, ssize_t& bytes, Direct& direct);
  Attempt finish_on_lane(bool looked);
  Attempt send_in_kernel(int fd, const iovec* pieces, std::size_t count, std::size_t skip, int flags,
                         ssize_t& bytes);
  ssize_t send_pieces(int fd, const iovec* pieces, std::size_t count, int flags, Direct* direct);
  ssize_t send_registered(int fd, const iovec& piece, int flags);
  void await_sent(int fd, std::uint64_t ticket);
  bool go_up(int fd);
};

}  // namespace viaduct::sovia

#endif
