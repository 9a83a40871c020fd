// How far a socket's streams have come on their way from a broken lane to the kernel (fallback.h).
#ifndef VIADUCT_SOVIA_SOCKET_FALLBACK_STATE_H
#define VIADUCT_SOVIA_SOCKET_FALLBACK_STATE_H

#include <atomic>

namespace viaduct::sovia {

struct FallbackState {
  bool done = false;  // the lane has broken, and all has been done about it that can be; changed under both locks
  std::atomic<bool> peer_ended{false};  // it was killed
  std::atomic<bool> watched{false};     // the background thread looks at what is yet to come
};

}  // namespace viaduct::sovia

#endif
