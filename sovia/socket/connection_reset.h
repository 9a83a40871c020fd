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
  bool is_told() const { return told().load(std::memory_order_relaxed); }
  // Processes that share the connection since a fork tell of its reset once: `told` lies in memory of them all. It stays
  // valid.
  void share_told(std::atomic<bool>& told) {
    if (told_.load()) told.store(true);
    shared_told_.store(&told);
  }
  // This process alone has lost the connection: the others still have theirs, and tell of a reset of their own.
  void happens_here_alone() {
    shared_told_.store(nullptr);
    happened_.store(true);
  }
  // The kernel's connection had ended with this error (0: not) before this end reset its own: an administrator has ended
  // it, or nothing came from the peer for too long.
  void is_caused_by(int error) {
    if (error == ECONNABORTED || error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH) error_.store(error);
  }
  // The peer's end has come before the reset, and all before it. A receive tells of that only, and a send gets EPIPE, or the
  // error if this end `has_shut` too.
  void comes_behind_end(bool has_shut) {
    behind_end_.store(true);
    if (!has_shut) error_.store(EPIPE);
  }
  int error() const { return error_.load(); }
  // The kernel has the error too, which it returns once, to whichever process asks first.
  void is_with_kernel() { with_kernel_.store(true); }
  bool was_with_kernel() const { return with_kernel_.load(); }
  // The error for the first call that meets the reset, as with TCP; then `once_told`. `of_kernel`: the error that the
  // kernel has just returned, or 0.
  Attempt fail(Attempt once_told, int of_kernel) {
    is_caused_by(of_kernel);
    if (once_told == Attempt::kDone && behind_end_.load()) return once_told;
    const bool others_told = with_kernel_.load() && of_kernel == 0;
    if (told().exchange(true) || others_told) return once_told;
    errno = error();
    return errno == EPIPE ? Attempt::kPipe : Attempt::kFailed;
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
  // The kernel has returned this error: nothing can be sent any more, not on a lane either. `to_program`: a call returns it, so
  // no own reset that follows is told.
  void kernel_tells(int error, bool to_program) {
    if (error != ECONNRESET && error != EPIPE && error != ETIMEDOUT) return;
    ended_by_kernel_.store(true);
    if (to_program && error != EPIPE) told().store(true);
  }
  bool ended_by_kernel() const { return ended_by_kernel_.load(std::memory_order_relaxed); }
  // The value of getsockopt(SO_ERROR), where the kernel has said `error`. Behind an own reset the kernel says ECONNRESET,
  // whether a call has told of it or not.
  int tell(int error) {
    const int of_kernel = take_untold();
    if (happened_.load()) return told().exchange(true) ? 0 : error_.load();
    kernel_tells(error, true);
    return error != 0 ? error : of_kernel;
  }

 private:
  std::atomic<bool>& told() {
    std::atomic<bool>* const shared = shared_told_.load(std::memory_order_relaxed);
    return shared != nullptr ? *shared : told_;
  }
  const std::atomic<bool>& told() const { return const_cast<ConnectionReset*>(this)->told(); }

  enum class Untold : std::uint8_t { kNothing, kReset, kPipe };
  std::atomic<bool> happened_{false}, told_{false}, with_kernel_{false}, behind_end_{false}, ended_by_kernel_{false};
  std::atomic<int> error_{ECONNRESET};
  std::atomic<std::atomic<bool>*> shared_told_{nullptr};
  std::atomic<Untold> untold_{Untold::kNothing};
};

}  // namespace viaduct::sovia

#endif
