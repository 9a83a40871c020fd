// The failure of a connection's messages: the bytes that come are no message, or a part of one is missing, so it is not
// known where the next one begins.
#ifndef VIADUCT_SOVIA_MESSAGE_MESSAGE_FAILURE_H
#define VIADUCT_SOVIA_MESSAGE_MESSAGE_FAILURE_H

#include <errno.h>
#include <sys/socket.h>

#include <atomic>

#include "sovia/process/options.h"
#include "sovia/socket/socket.h"

namespace viaduct::sovia {

class MessageFailure {
 public:
  explicit MessageFailure(Socket& socket) : socket_(socket) {}

  // The errno for all calls from now on; 0: none.
  int error() const { return error_.load(); }
  // Ends the connection, and sets errno.
  void fail(int fd, int error) {
    SOVIA_LOG("%d: the connection's messages end: %s", fd,
              error == EPROTO ? "the peer does not send messages" : "a part of one is missing");
    error_.store(error);
    socket_.shut_stream(fd, SHUT_RDWR);
    errno = error;
  }

 private:
  Socket& socket_;
  std::atomic<int> error_{0};
};

}  // namespace viaduct::sovia

#endif
