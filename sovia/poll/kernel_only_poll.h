// Sockets of one poll() or select() that bypass the library (lane_demand.h): the kernel alone is asked, no lane
// comes to them meanwhile.
#ifndef VIADUCT_SOVIA_POLL_KERNEL_ONLY_POLL_H
#define VIADUCT_SOVIA_POLL_KERNEL_ONLY_POLL_H

#include <cstddef>

#include "sovia/process/signals.h"
#include "sovia/socket/lane_life.h"
#include "sovia/socket/table.h"

namespace viaduct::sovia {

class KernelOnlyPoll {
 public:
  KernelOnlyPoll() = default;
  ~KernelOnlyPoll() {
    const signals::Inside inside;
    while (count_ != 0) end_bypass(*sockets_[--count_], 0);
  }
  KernelOnlyPoll(const KernelOnlyPoll&) = delete;
  KernelOnlyPoll& operator=(const KernelOnlyPoll&) = delete;

  // Adds a socket. The program's signal handlers must be held back, as they might leave by longjmp. False if the socket
  // does not bypass the library, or there are too many sockets.
  bool take(int fd) {
    const Socket* const known = table::peek(fd);
    if (known == nullptr || !known->demand.bypasses() || count_ == kMost) return false;
    SocketRef& socket = sockets_[count_];
    socket = table::find(fd);
    if (!socket || !begin_bypass(*socket)) return false;
    ++count_;
    return true;
  }

 private:
  static constexpr std::size_t kMost = 8;
  SocketRef sockets_[kMost];
  std::size_t count_ = 0;
};

}  // namespace viaduct::sovia

#endif
