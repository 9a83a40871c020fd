// Helpers that the files api_*.cc share. Each function of sovia.h first looks the descriptor up in the table: is it a
// socket of the library's, and may its data go over a lane? If not, the function calls the C library.
#ifndef VIADUCT_SOVIA_API_API_H
#define VIADUCT_SOVIA_API_API_H

#include <cerrno>

#include "sovia/process/counters.h"
#include "sovia/process/libc.h"
#include "sovia/process/signals.h"
#include "sovia/socket/socket.h"
#include "sovia/socket/table.h"
#include "sovia/sovia.h"

namespace viaduct::sovia {

// A call of the API on the socket of a descriptor; empty if that is none of ours.
class Call {
 public:
  Call() = default;
  explicit Call(int fd) {
    signals::Inside::enter();
    socket_ = table::find(fd);
    if (!socket_) signals::Inside::leave();
  }
  ~Call() {
    if (!socket_) return;
    socket_.reset();
    signals::Inside::leave();
  }
  Call(const Call&) = delete;

  explicit operator bool() const { return static_cast<bool>(socket_); }
  Socket* operator->() const { return socket_.get(); }
  Socket& operator*() const { return *socket_; }

 private:
  SocketRef socket_;
};

// The socket of a descriptor if its data may go over a lane. The cheap test comes first. After it the functions of
// libc:: may be used.
inline Call may_use_lane(int fd) {
  const Socket* const socket = table::peek(fd);
  if (socket == nullptr || !socket->may_use_lane()) return Call();
  return Call(fd);
}

inline int failed(int error) {
  errno = error;
  return -1;
}

}  // namespace viaduct::sovia

#endif
