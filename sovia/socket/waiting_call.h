// A call that waits at a socket, perhaps several times.
#ifndef VIADUCT_SOVIA_SOCKET_WAITING_CALL_H
#define VIADUCT_SOVIA_SOCKET_WAITING_CALL_H

#include <cstdint>
#include <optional>

#include "sovia/process/clock.h"
#include "sovia/socket/redirected_receive.h"
#include "sovia/socket/socket.h"

namespace viaduct::sovia {

class WaitingCall {
 public:
  explicit WaitingCall(Socket& socket) : socket_(socket) {}
  ~WaitingCall() { end(); }
  WaitingCall(const WaitingCall&) = delete;
  WaitingCall& operator=(const WaitingCall&) = delete;

  // The call will wait later: from now on a socket that is closed keeps a descriptor for it.
  void begin();
  void end();
  // Waits until an attempt is worth while; `events`: POLLIN or POLLOUT, `option`: SO_RCVTIMEO or SO_SNDTIMEO. False
  // with errno if the call is to end. On return `direct` has been ended.
  bool await(int fd, short events, int option, RedirectedReceive* direct = nullptr);
  // Sleeps for a moment. False if the call is to end.
  bool await_moment(int fd);
  // The time at which the call is to end: the one that was set, or the socket's time limit, which is looked up once.
  void set_deadline(std::uint64_t deadline) {
    deadline_ = deadline;
    has_deadline_ = deadline != kNever;
  }
  std::uint64_t deadline(int fd, int option);

  // The value of routes() before the call checked a condition of its own that a change of routes tells of: await() then
  // returns at once if routes() has changed since.
  std::optional<std::uint32_t> looked_at;

 private:
  Socket& socket_;
  std::uint64_t deadline_ = 0;  // 0: not looked up yet
  bool has_deadline_ = false;
  bool counted_ = false;
};

// A descriptor is about to be closed. Calls of other threads that wait at the socket go on, as the kernel's do. True if
// there are any: the socket keeps a descriptor for them, and is released when the last of them has ended.
bool keep_for_waiting(Socket& socket, int fd);
// SO_SNDBUF was set: a send that waits tries again.
void room_changed(Socket& socket, int fd);

}  // namespace viaduct::sovia

#endif
