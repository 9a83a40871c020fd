// A receive that waits and has the next packet written straight to its buffer.
//
//     DirectReceive direct(socket, pieces, count, skip);  // maybe it is on from now on
//     ... wait ...
//     direct.end();                                       // in any case before the call returns
//     direct.bytes()                                      // have come there
//
// While it is on, the buffer belongs to the stack: no handler of the program may run, for it could leave
// the call by longjmp.
#ifndef VIADUCT_SOVIA_SOCKET_DIRECT_RECEIVE_H
#define VIADUCT_SOVIA_SOCKET_DIRECT_RECEIVE_H

#include <sys/uio.h>
#include <vipl/vipl.h>

#include <cstddef>
#include <cstdint>

namespace viaduct::sovia {

class LaneEnd;
class Nic;
class Socket;

class DirectReceive {
 public:
  DirectReceive() = default;
  ~DirectReceive() { end(); }
  DirectReceive(const DirectReceive&) = delete;
  DirectReceive& operator=(const DirectReceive&) = delete;

  // For the piece that comes next, if that is worth it. With none of the socket's locks.
  void begin(Socket& socket, const iovec* pieces, std::size_t count, std::size_t skip);
  void end();
  // Whether something has come there.
  bool ready() const;
  // After end(): what has. Once.
  std::size_t take_bytes();

 private:
  Nic* nic_ = nullptr;
  LaneEnd* lane_ = nullptr;  // while it is on
  VIP_MEM_HANDLE memory_ = 0;
  std::uint32_t bytes_ = 0;
};

}  // namespace viaduct::sovia

#endif
