// How a socket leaves its lane: for the kernel, or for good.
#ifndef VIADUCT_SOVIA_SOCKET_SOCKET_LEAVE_H
#define VIADUCT_SOVIA_SOCKET_SOCKET_LEAVE_H

#include "sovia/socket/socket_ready.h"

namespace viaduct::sovia {

class SocketLeave : public SocketReady {
 public:
  // Both directions go down to the kernel and stay there until the socket may go up again. Returns
  // when the peer has gone down too and all that it sent before has come, which then is unread. A peer
  // that does not do so in time loses the lane, and what it sends again comes after a record
  // (socket_fallback.h).
  void leave(int fd, Reason why);
  static constexpr std::uint64_t kLeaveNs = 200'000'000;     // for the peer to leave the lane
  static constexpr std::uint64_t kRecordNs = 2'000'000'000;  // before another program gets the socket
  // The same in two steps, for many sockets at once: until the deadline the peer may do it in good order,
  // then the lane is given up. begin_leaving() is nullptr if there is nothing to wait for.
  LaneEndpoint* begin_leaving(int fd, Reason why);
  void end_leaving(int fd, LaneEndpoint& end, std::uint64_t deadline);
  // The same for ever: no lane any more.
  void leave_for_good(int fd, Reason why);
  // The direction from here alone goes down; what was sent before arrives before what the kernel
  // sends next. Waits only for room in the window.
  void leave_sending(int fd, Reason why);

  // shutdown(2). shut_stream() does it now, whatever the message layer has yet to send.
  int shutdown(int fd, int how);
  int shut_stream(int fd, int how);

  // The last descriptor of the process is about to be closed: sends what is left, in the background
  // if the socket does not linger. Call between table::closing() and the kernel's close.
  void release(int fd);

 protected:
  ~SocketLeave() = default;

 private:
  bool await_arrival(Lane& lane, std::uint64_t ns);
  void await_moment_before_close();
};

}  // namespace viaduct::sovia

#endif
