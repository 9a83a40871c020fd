// The events that a socket is ready for.
#ifndef VIADUCT_SOVIA_SOCKET_SOCKET_READY_H
#define VIADUCT_SOVIA_SOCKET_SOCKET_READY_H

#include "sovia/socket/readiness.h"
#include "sovia/socket/socket_lane.h"

namespace viaduct::sovia {

class SocketReady : public SocketLane {
 public:
  // Instead of asking the kernel for `wanted` (POLL*), ask it for this ...
  short ask_kernel(short wanted);
  // ... and this is what to tell the program when the kernel has answered `kernel_says`. Short and
  // without a system call, but when data and the end may have come together and `fd` is given; with
  // kernel_says 0 it is what the lane alone has to say.
  short answer(short wanted, short kernel_says, int fd = -1);

  // Whether the kernel's answers are the program's, now and for some time ...
  bool kernel_alone() const { return !may_use_lane() && inherited_bytes_ == nullptr && kept_ == nullptr; }
  // ... and for good: there are no messages either, which may be read ahead of what the program receives ...
  bool stays_kernel_alone() const { return kernel_alone() && !carries_messages(); }
  // ... or at least now.
  bool kernel_knows_all();

  // Whether the next bytes are the kernel's, and those after them too: for calls whose control data
  // only the kernel has.
  bool receives_in_kernel();

  // Bytes that receive() would find, for FIONREAD. `kernel_bytes`: what the kernel says.
  int unread(int kernel_bytes);
  // Bytes sent that the peer has not got, for SIOCOUTQ.
  int unsent(int kernel_bytes);
  // Whether unread data lies on the lane, before anything the kernel has (SIOCATMARK is then 0).
  bool lane_has_data();

 protected:
  ~SocketReady() = default;
  bool is_coming_down();
  bool must_wait_for_lane_end(const Lane& lane) const;

 private:
  Readiness snapshot(bool sends);
  void advance(Lane& lane, bool sends);
};

}  // namespace viaduct::sovia

#endif
