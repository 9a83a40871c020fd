// The progress of a socket's fallback from a broken lane to the kernel (fallback.h).
#ifndef VIADUCT_SOVIA_SOCKET_FALLBACK_STATE_H
#define VIADUCT_SOVIA_SOCKET_FALLBACK_STATE_H

#include <atomic>

namespace viaduct::sovia {

struct FallbackState {
  bool done = false;  // fall_back() has run for the present lane; changed under both locks
  std::atomic<bool> peer_ended{false};  // the peer was killed
  std::atomic<bool> watched{false};     // by the background thread (be_watched())
};

}  // namespace viaduct::sovia

#endif
