// The reset of a connection: by this end, because bytes may be lost, or by the kernel, which returns the error to one
// call only.
#ifndef VIADUCT_SOVIA_SOCKET_CONNECTION_RESET_H
#define VIADUCT_SOVIA_SOCKET_CONNECTION_RESET_H

#include <errno.h>

#include <atomic>
#include <cstdint>

#include "sovia/socket/attempt.h"

namespace viaduct::sovia {

class ConnectionReset {
 public:
  // True once this end has reset the connection, which both ends lose.
  operator bool() const { return happened_.load(); }
  // Notes the reset. True the first time.
  bool happens() { return !happened_.exchange(true); }
  bool is_told() const { return told_.load(std::memory_order_relaxed); }
  // ECONNRESET for the first call that meets the reset, as with TCP; then `once_told`.
  Attempt fail(Attempt once_told) {
    if (told_.exchange(true)) return once_told;
    errno = ECONNRESET;
    return Attempt::kFailed;
  }

  // The kernel has returned a reset to a call of the library's, or to one that returns the bytes sent before instead. A
  // later call returns the error to the program, behind the data that came before the reset, as with TCP. `error`: EPIPE
  // if the peer's end had come before, of which a receive tells in place of the reset. take_untold() is not 0 once.
  void keep_untold(int error) { untold_.store(error == EPIPE ? Untold::kPipe : Untold::kReset); }
  bool is_untold() const { return untold_.load(std::memory_order_relaxed) != Untold::kNothing; }
  int take_untold() {
    switch (is_untold() ? untold_.exchange(Untold::kNothing) : Untold::kNothing) {
      case Untold::kReset: return ECONNRESET;
      case Untold::kPipe: return EPIPE;
      case Untold::kNothing: break;
    }
    return 0;
  }
  bool fail_receive() {
    if (untold_.load(std::memory_order_relaxed) != Untold::kReset || take_untold() == 0) return false;
    errno = ECONNRESET;
    return true;
  }
  // The value of getsockopt(SO_ERROR), which tells of the reset, too, where the kernel has said `error`.
  int tell(int error) {
    const bool new_here = happened_.load() && !told_.exchange(true);
    const int of_kernel = take_untold();
    if (error != 0 || !new_here) return error != 0 ? error : of_kernel;
    return ECONNRESET;
  }

 private:
  enum class Untold : std::uint8_t { kNothing, kReset, kPipe };
  std::atomic<bool> happened_{false}, told_{false};
  std::atomic<Untold> untold_{Untold::kNothing};
};

}  // namespace viaduct::sovia

#endif
