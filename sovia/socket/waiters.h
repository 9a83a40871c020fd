// The calls that wait at a socket (waiting_call.h).
#ifndef VIADUCT_SOVIA_SOCKET_WAITERS_H
#define VIADUCT_SOVIA_SOCKET_WAITERS_H

#include <atomic>

namespace viaduct::sovia {

struct Waiters {
  std::atomic<int> fd{-1};    // the library's descriptor for these calls, when the program has closed its own
  std::atomic<int> calls{0};  // calls under way that wait, or have waited
  std::atomic<int> sends{0};  // threads that wait for room to send
};

}  // namespace viaduct::sovia

#endif
