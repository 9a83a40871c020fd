// A receive that waits and has the next packet written straight to its buffer.
//
//     RedirectedReceive direct(socket, pieces, count, skip);  // maybe it is on from now on
//     ... wait ...
//     direct.end();                                       // in any case before the call returns
//     direct.bytes()                                      // have come there
//
// While it is on, the buffer belongs to the stack: no handler of the program may run, for it could leave
// the call by longjmp.
#ifndef VIADUCT_SOVIA_SOCKET_REDIRECTED_RECEIVE_H
#define VIADUCT_SOVIA_SOCKET_REDIRECTED_RECEIVE_H

#include <sys/uio.h>
#include <vipl/vipl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sovia/socket/lane_pin.h"
#include "sovia/socket/socket_leave.h"

namespace viaduct::sovia {

class Nic;

// A socket whose lane may write to a reader's memory.
class SocketDirect : public SocketLeave {
 public:
  // The lane, which stays until let_go(); nullptr: not now. `number`: the lane's for this reader.
  LaneEndpoint* begin_direct(std::byte* to, std::uint32_t bytes, std::uint32_t memory, std::uint32_t& number);
  // The lane of a direction that is on it, or whichever there is (`number`: the how manieth of the connection); none
  // for a receiving direction that has bytes to read before those of the lane.
  LanePin pin_receiving_lane();
  LanePin pin_sending_lane();
  LanePin pin_lane(std::uint32_t* number = nullptr);
  // A call has used the lane, which may have ended meanwhile.
  void let_go(LaneEndpoint& end);
  std::size_t last_packet() const { return last_packet_.load(std::memory_order_relaxed); }

 protected:
  ~SocketDirect() = default;

  std::atomic<std::uint32_t> last_packet_{0};  // bytes of the last one from the lane: a hint
};

// Whether all of it can be written; what can't would cost the lane.
bool writable(void* data, std::size_t bytes);

class RedirectedReceive {
 public:
  RedirectedReceive() = default;
  ~RedirectedReceive() { end(); }
  RedirectedReceive(const RedirectedReceive&) = delete;
  RedirectedReceive& operator=(const RedirectedReceive&) = delete;

  // For the piece that comes next, if that is worth it. With none of the socket's locks.
  void begin(SocketDirect& socket, const iovec* pieces, std::size_t count, std::size_t skip);
  void end();
  // Whether something has come there.
  bool ready() const;
  // After end(): what has. Once.
  std::size_t take_bytes();

 private:
  Nic* nic_ = nullptr;
  SocketDirect* socket_ = nullptr;
  LaneEndpoint* lane_ = nullptr;  // while it is on
  std::uint32_t number_ = 0;      // the lane's for it
  VIP_MEM_HANDLE memory_ = 0;
  std::uint32_t bytes_ = 0;
};

}  // namespace viaduct::sovia

#endif
