// A receive that waits and has the next packet written straight to its buffer.
//
//     RedirectedReceive direct;
//     direct.begin(socket, pieces, count, skip);  // maybe it is on from now on
//     ... wait ...
//     direct.end();                               // in any case before the call returns
//     direct.take_bytes()                         // have come there
//
// While the redirection is on, the buffer belongs to the stack: no signal handler of the program may run, as it could
// leave the call by longjmp.
#ifndef VIADUCT_SOVIA_SOCKET_REDIRECTED_RECEIVE_H
#define VIADUCT_SOVIA_SOCKET_REDIRECTED_RECEIVE_H

#include <sys/uio.h>
#include <vipl/vipl.h>

#include <cstddef>
#include <cstdint>

#include "sovia/socket/socket.h"

namespace viaduct::sovia {

class LaneEndpoint;
class ProcessNic;

// Whether all of the memory can be written. A packet for memory that can't be would cost the lane.
bool writable(void* data, std::size_t bytes);

class RedirectedReceive {
 public:
  RedirectedReceive() = default;
  ~RedirectedReceive() { end(); }
  RedirectedReceive(const RedirectedReceive&) = delete;
  RedirectedReceive& operator=(const RedirectedReceive&) = delete;

  // Redirects to the piece that comes next, if that is worth it. To be called with none of the socket's locks.
  void begin(Socket& socket, const iovec* pieces, std::size_t count, std::size_t skip);
  void end();
  // Whether something has come to the buffer.
  bool ready() const;
  // To be called once, after end(): the number of bytes that have come there.
  std::size_t take_bytes();

 private:
  ProcessNic* nic_ = nullptr;
  Socket* socket_ = nullptr;
  LaneEndpoint* lane_ = nullptr;  // while the redirection is on
  std::uint32_t number_ = 0;      // the lane's number for this redirection
  VIP_MEM_HANDLE memory_ = 0;
  std::uint32_t bytes_ = 0;
};

}  // namespace viaduct::sovia

#endif
