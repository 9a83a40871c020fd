// The progress of a socket's fallback from a broken lane to the kernel (fallback.h).
#ifndef VIADUCT_SOVIA_SOCKET_FALLBACK_STATE_H
#define VIADUCT_SOVIA_SOCKET_FALLBACK_STATE_H

#include <atomic>

#include "sovia/socket/stream_locks.h"

namespace viaduct::sovia {

struct FallbackState {
  bool done VIADUCT_GUARDED_BY(either_stream) = false;  // fall_back() has run for the present lane
  std::atomic<bool> watched{false};     // by the background thread (be_watched())
};

}  // namespace viaduct::sovia

#endif
