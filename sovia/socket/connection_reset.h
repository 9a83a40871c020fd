// The reset of a connection: by this end, because bytes may be lost, or by the kernel, which returns the error to one
// call only.
#ifndef VIADUCT_SOVIA_SOCKET_CONNECTION_RESET_H
#define VIADUCT_SOVIA_SOCKET_CONNECTION_RESET_H

#include <errno.h>

#include <atomic>

#include "sovia/socket/attempt.h"

namespace viaduct::sovia {

class ConnectionReset {
 public:
  // True once this end has reset the connection, which both ends lose.
  operator bool() const { return happened_.load(); }
  // Notes the reset. True the first time.
  bool happens() { return !happened_.exchange(true); }
  // ECONNRESET for the first call that meets the reset, as with TCP; then `once_told`.
  Attempt fail(Attempt once_told) {
    if (told_.exchange(true)) return once_told;
    errno = ECONNRESET;
    return Attempt::kFailed;
  }

  // The kernel has returned a reset to a call that returns the bytes sent before instead. A later call returns the
  // error to the program, behind the data that came before the reset, as with TCP. take_untold() is true once, and sets
  // errno.
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
