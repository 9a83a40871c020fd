// Copies for memory that a program hands over and that may not be there: the library then returns EFAULT, as the kernel
// does.
#ifndef VIADUCT_SOVIA_PROCESS_GUARDED_COPY_H
#define VIADUCT_SOVIA_PROCESS_GUARDED_COPY_H

#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <vipl/vipl_ext.h>

#include "sovia/process/units.h"

namespace viaduct::sovia {

// False if some of it can't be read or written.
inline bool copy_guarded(void* to, const void* from, std::size_t bytes) {
  return VipxCopy(to, from, bytes) != 0;
}

// The first copy installs handlers for faults. To be called before a program forbids itself the system calls for that.
inline void prepare_copying() {
  char byte = 0;
  copy_guarded(&byte, &byte, sizeof byte);
}

// Whether the memory lies in one page, so that all of it is there, or nothing.
inline bool lies_in_a_page(const void* data, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % kPage + bytes <= kPage;
}

// Whether memory can be read, by a try of a byte in each page. Memory that goes beyond the last address can't.
inline bool can_read(const void* data, std::size_t bytes) {
  if (bytes == 0) return true;
  auto at = reinterpret_cast<std::uintptr_t>(data);
  std::uintptr_t last;
  if (__builtin_add_overflow(at, bytes - 1, &last)) return false;
  for (char seen;; at = (at / kPage + 1) * kPage) {
    if (!copy_guarded(&seen, reinterpret_cast<const void*>(at), 1)) return false;
    if (at / kPage == last / kPage) return true;
  }
}

// Whether a message that is sent has an address that can be read, or none. TCP ignores it, after the kernel has read it.
inline bool can_read_address(const msghdr& message) {
  return message.msg_name == nullptr ||
         can_read(message.msg_name, std::min<std::size_t>(message.msg_namelen, sizeof(sockaddr_storage)));
}

}  // namespace viaduct::sovia

#endif
