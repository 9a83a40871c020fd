// Eventfds that wake threads which sleep on descriptors.
#ifndef VIADUCT_SOVIA_PROCESS_WAKE_EVENT_H
#define VIADUCT_SOVIA_PROCESS_WAKE_EVENT_H

#include <sys/eventfd.h>

#include <cstdint>

#include "sovia/process/libc.h"
#include "sovia/process/own_descriptors.h"

namespace viaduct::sovia::wake_event {

// -1: there is no descriptor left.
inline int make() { return own_descriptors::adopt(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }

// A signal handler may call it. -1 is passed over.
inline void ring(int fd) {
  if (fd < 0) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = libc::write(fd, &one, sizeof one);
}

// Makes it unreadable again. False: nothing has rung it.
inline bool empty(int fd) {
  std::uint64_t count;
  return libc::read(fd, &count, sizeof count) > 0;
}

}  // namespace viaduct::sovia::wake_event

#endif
