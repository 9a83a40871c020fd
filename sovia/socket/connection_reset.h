// A connection that has been reset: by this end, as bytes may be lost, or by the kernel, which tells only one call.
#ifndef VIADUCT_SOVIA_SOCKET_CONNECTION_RESET_H
#define VIADUCT_SOVIA_SOCKET_CONNECTION_RESET_H

#include <errno.h>

#include <atomic>

#include "sovia/socket/attempt.h"

namespace viaduct::sovia {

class ConnectionReset {
 public:
  // Both ends lose the connection.
  operator bool() const { return happened_.load(); }
  // Whether it had not happened.
  bool happens() { return !happened_.exchange(true); }
  // ECONNRESET for the first call that meets the reset, as with TCP; then `once_told`.
  Attempt fail(Attempt once_told) {
    if (told_.exchange(true)) return once_told;
    errno = ECONNRESET;
    return Attempt::kFailed;
  }

  // The kernel has told a call of a reset, once, that returns what it sent before: a later call is to tell the
  // program, behind what has come before the reset, as with TCP. take_untold() is true once, with errno.
  void keep_untold() { untold_.store(true); }
  bool is_untold() const { return untold_.load(std::memory_order_relaxed); }
  bool take_untold() {
    if (!is_untold() || !untold_.exchange(false)) return false;
    errno = ECONNRESET;
    return true;
  }

 private:
  std::atomic<bool> happened_{false}, told_{false}, untold_{false};
};

}  // namespace viaduct::sovia

#endif
