// Receiving over a socket, by whichever route.
#ifndef VIADUCT_SOVIA_SOCKET_SOCKET_RECEIVE_H
#define VIADUCT_SOVIA_SOCKET_SOCKET_RECEIVE_H

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>

#include "sovia/socket/socket_waiting.h"

namespace viaduct::sovia {

class SocketReceive : public SocketWaiting {
 public:
  // As recvmsg for `count` pieces, without address and control data: bytes, or -1 with errno. Waits as the
  // socket's modes and the flags say.
  ssize_t receive(int fd, const iovec* pieces, std::size_t count, int flags);

  // Whether a receive that does not wait would find nothing, and is spared the way there. Gives the
  // lanes a turn. False when in doubt.
  bool finds_nothing(int flags);

  // Receives what there is, without waiting: kDone, kAgain, or kFailed with errno.
  Attempt try_receive(int fd, const iovec* pieces, std::size_t count, std::size_t skip, int flags,
                      ssize_t& bytes);
  // Bytes that are to be read before what comes next: they were taken off the stream too early. False: there is no
  // memory.
  bool put_back(const iovec* pieces, std::size_t count);

 protected:
  ~SocketReceive() = default;

 private:
  // Whether what this thread waits for is the kernel's alone; receive_undisturbed() has to follow.
  bool begin_undisturbed(int flags);
  ssize_t receive_undisturbed(int fd, const iovec* pieces, std::size_t count, int flags);
  Attempt receive_from_kernel(int fd, const iovec* pieces, std::size_t count, std::size_t skip,
                              int flags, ssize_t& bytes);
  bool has_ended(int fd);
};

}  // namespace viaduct::sovia

#endif
