// The sending direction of a socket: its route, and bytes of a broken lane that the kernel has yet to take.
#ifndef VIADUCT_SOVIA_SOCKET_TX_STREAM_H
#define VIADUCT_SOVIA_SOCKET_TX_STREAM_H

#include <cstddef>
#include <cstdint>

#include "sovia/process/lock.h"
#include "sovia/socket/route.h"
#include "sovia/socket/unacked_copy.h"

namespace viaduct::sovia {

struct TxStream {
  Lock lock;  // guards all below
  Route<Direction::kSending> route;
  bool lane_forbidden = false;
  bool shut = false;        // by the program
  bool shut_later = false;  // in the kernel, when all that was sent before has arrived
  UnackedCopy unacked;
};

}  // namespace viaduct::sovia

#endif
