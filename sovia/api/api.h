// Helpers that the files api_*.cc share. Each function of sovia.h first looks the descriptor up in the table: is it a
// socket of the library's, and may its data go over a lane? If not, the function calls the C library.
#ifndef VIADUCT_SOVIA_API_API_H
#define VIADUCT_SOVIA_API_API_H

#include <cerrno>

#include "sovia/process/counters.h"
#include "sovia/process/libc.h"
#include "sovia/process/signals.h"
#include "sovia/socket/lane_life.h"
#include "sovia/socket/quick_bypass.h"
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

// Makes a call by the kernel alone, if the socket bypasses the library. False: it does not, and no call was made.
template <class KernelCall>
bool bypass_library(int fd, const Socket& known, ssize_t& result, KernelCall&& call) {
  if (quick_bypass::call(known, result, call, [&] { return table::peek(fd) == &known; })) return true;
  if (!known.demand.bypasses()) return false;
  const Call socket(fd);
  if (!socket || !begin_bypass(*socket)) return false;
  {
    const signals::Outside outside;
    result = call();
  }
  end_bypass(*socket, result);
  return true;
}

inline ssize_t counted(Counter counter, ssize_t result) {
  if (result > 0) counters::add(counter, static_cast<std::uint64_t>(result));
  return result;
}

// Bytes that went through the kernel on a socket of ours.
inline ssize_t kernel_sent(ssize_t result) { return counted(Counter::kBytesSentKernel, result); }
inline ssize_t kernel_received(ssize_t result) { return counted(Counter::kBytesReceivedKernel, result); }

// The connection leaves its lane, if it has one, and gets none any more.
inline void leave_for_good(int fd, Reason why) {
  if (const Call socket = may_use_lane(fd); socket) socket->leave_for_good(fd, why);
}

// The descriptor is about to be given to the kernel for longer than a call: its connection leaves its lane.
void leave_for_kernel(int fd);

// The kernel has made `copy` of a descriptor, or returned -1. Returns the same.
int copied(int fd, int copy);

// A call that connects a socket of ours has returned this error, or 0.
void connect_called(int fd, int error);

}  // namespace viaduct::sovia

#endif
