// The beginning and the end of a socket's lanes.
#ifndef VIADUCT_SOVIA_SOCKET_SOCKET_LANE_H
#define VIADUCT_SOVIA_SOCKET_SOCKET_LANE_H

#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "sovia/socket/peer_history.h"
#include "sovia/socket/socket_share.h"

namespace viaduct::sovia {

class SocketLane : public SocketShare {
 public:
  // ------------------------------------------------------------------ for the background thread
  // The lane is open: sends may go up. False if the socket does not want it any more.
  bool lane_opened(LaneEndpoint& end);
  // The peer may begin with the lane from now on. `fd`: the descriptor that the lane was asked for by.
  void trust_lane(LaneEndpoint& end, int fd);
  // START may have come: whether what is to be read next is another one's to say since then.
  bool settle(LaneEndpoint& end);
  // No lane; how many calls later it is worth trying again is the socket's to say.
  void lane_refused(Reason why);
  // The lane is over; takes it from the socket, for good. False while there is something to read.
  bool lane_over(LaneEndpoint& end);
  // When the process ends: FIN to the peer. No call is under way.
  void finish_lane();
  // Which lane of this connection the next one is.
  std::uint32_t lane_number();

  // A connection that was refused a lane bypasses the library: until it asks again, after so many calls that move
  // data, calls are the kernel's alone. No thread asks for a lane while such a call is under way, as the call would not
  // learn of it.
  bool bypasses() const { return bypass_calls_.load() > 0; }
  // end_bypass() has to follow if this was true.
  bool begin_bypass() {
    undisturbed_.fetch_add(1);
    if (bypasses() && !untold_reset_.load()) return true;
    undisturbed_.fetch_sub(1);
    return false;
  }
  void end_bypass(ssize_t moved) {
    if (moved > 0) count_bypass(moved);
    undisturbed_.fetch_sub(1);
  }

  // connect() or accept() has made the connection: what is known about the peer says when it asks for a lane, maybe
  // at once.
  void connection_made(int fd, Role role);
  // connect() goes on by itself: the first call that moves data does the same.
  void connection_being_made() { begins_.store(true); }

  // The sending direction may not use the lane from now on although it could.
  void forbid(Reason why);
  void listens();  // so it has no data, and the kernel alone knows all about it

  // A call has moved so many bytes by the kernel, which may make a lane worth it.
  void note_kernel_bytes(int fd, ssize_t bytes);

 protected:
  ~SocketLane() = default;
  // In or out locked.
  void unpin(LaneEndpoint& end);
  // There is something to be read that the kernel has not.
  void stop_bypass() { bypass_calls_.store(0); }
  // Whether no lane is to be had for some time.
  bool was_refused() const { return calls_needed_ != 0; }

  // Calls of receive_undisturbed(); increased with in_ locked. A handler that left one by longjmp leaves
  // this behind: such a connection stays with the kernel.
  std::atomic<int> undisturbed_{0};

 private:
  void put_off_lane();
  // A call has moved data. The experience of other connections counts only as long as this one is like them.
  void count_bypass(ssize_t moved) {
    bypass_calls_.fetch_sub(1);
    if (bypass_until_.load(std::memory_order_relaxed) != 0) look_at_bypass(moved);
  }
  void look_at_bypass(ssize_t moved);
  void ask_for_lane(int fd);

  void start_bypass();

  std::uint32_t calls_needed_ = 0;  // 0: the option's
  std::atomic<Role> role_{Role::kNeither};
  std::atomic<bool> begins_{false};
  std::atomic<std::int32_t> bypass_calls_{0};  // calls
  std::atomic<std::uint64_t> bypass_until_{0};  // 0, or for as long as it bypasses because of other connections
};

}  // namespace viaduct::sovia

#endif
