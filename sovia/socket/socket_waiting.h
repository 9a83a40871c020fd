// Calls that wait at a socket.
#ifndef VIADUCT_SOVIA_SOCKET_SOCKET_WAITING_H
#define VIADUCT_SOVIA_SOCKET_SOCKET_WAITING_H

#include <atomic>
#include <cstdint>
#include <optional>

#include "sovia/socket/redirected_receive.h"

namespace viaduct::sovia {

class SocketWaiting : public SocketDirect {
 public:
  // A descriptor is about to be closed. Calls of other threads that wait at the socket go on, as the
  // kernel's do: if there are any, the socket keeps a descriptor for them, is released when the last
  // of them has ended, and this is true.
  bool keep_for_waiting(int fd);
  // SO_SNDBUF: a send that waits looks again.
  void room_changed(int fd);

  // A call that waits, perhaps several times.
  struct Waiting {
    Waiting() = default;
    ~Waiting() { end(); }
    void end() {
      if (counted != nullptr) counted->waited();
      counted = nullptr;
    }
    Waiting(const Waiting&) = delete;
    std::uint64_t deadline = 0;  // 0: not looked up yet
    bool has_deadline = false;
    SocketWaiting* counted = nullptr;  // it has waited at this one
    // routes() before the call looked for something else that it waits for, of which a change of routes tells.
    std::optional<std::uint32_t> looked_at;
  };
  // A call that will wait, though it has not begun to.
  void begin_waiting(Waiting& waiting);
  // It is another process's.
  void forget_waiting() { waiting_.fetch_sub(1); }
  // Until an attempt is worth while; `events`: POLLIN or POLLOUT, `option`: SO_RCVTIMEO or SO_SNDTIMEO. False with errno
  // if the call is to end. `direct` has ended then.
  bool await(int fd, short events, int option, Waiting& waiting, RedirectedReceive& direct);
  // A short sleep. False if the call is to end.
  bool await_moment(int fd, Waiting& waiting);

 protected:
  ~SocketWaiting() = default;

 private:
  void waited();
  bool awaits_lane_end();
  void begin(int fd, int option, Waiting& waiting);

  std::atomic<int> waiting_{0};        // calls that wait, or have waited
  std::atomic<int> sends_waiting_{0};  // threads
};

}  // namespace viaduct::sovia

#endif
