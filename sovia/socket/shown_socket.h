// A socket as `sovia sockets` sees it while the program runs: by which way its data goes, and why. A row of the
// counters' file (sovia/process/counters.h), at the number of the socket's descriptor, the newest if it has several.
#ifndef VIADUCT_SOVIA_SOCKET_SHOWN_SOCKET_H
#define VIADUCT_SOVIA_SOCKET_SHOWN_SOCKET_H

#include <atomic>

#include "sovia/process/counters.h"

namespace viaduct::sovia {

class ShownSocket {
 public:
  using Way = counters::Way;

  // The socket has this descriptor from now on.
  void at(int fd) {
    const int before = fd_.exchange(fd, std::memory_order_relaxed);
    if (before >= 0 && before != fd) counters::show_socket(before, Way::kNone, Reason::kNone);
    show();
  }
  // The descriptor is about to be closed.
  void leaves(int fd) {
    int expected = fd;
    if (fd_.compare_exchange_strong(expected, -1)) counters::show_socket(fd, Way::kNone, Reason::kNone);
  }
  void set(Way way, Reason why) {
    way_.store(way, std::memory_order_relaxed);
    reason_.store(why, std::memory_order_relaxed);
    show();
  }
  Reason reason() const { return reason_.load(std::memory_order_relaxed); }

 private:
  void show() {
    const int fd = fd_.load(std::memory_order_relaxed);
    if (fd >= 0) counters::show_socket(fd, way_.load(std::memory_order_relaxed), reason());
  }

  std::atomic<int> fd_{-1};
  std::atomic<Way> way_{Way::kKernel};
  std::atomic<Reason> reason_{Reason::kShort};
};

}  // namespace viaduct::sovia

#endif
