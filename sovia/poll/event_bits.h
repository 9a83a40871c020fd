// The bits POLL* (EPOLL* are the same). A stream socket has two names for "can read" and "can
// write", which always come together; lanes know the shorter ones alone.
#ifndef VIADUCT_SOVIA_POLL_EVENT_BITS_H
#define VIADUCT_SOVIA_POLL_EVENT_BITS_H

#include <poll.h>

namespace viaduct::sovia::event_bits {

inline constexpr short kRead = POLLIN | POLLRDNORM;
inline constexpr short kWrite = POLLOUT | POLLWRNORM;
// Bits that are reported whether wanted or not.
inline constexpr short kUnasked = POLLERR | POLLHUP | POLLNVAL;
// Bits that a socket reports if they are wanted.
inline constexpr short kAsked = POLLIN | POLLOUT | POLLPRI | POLLRDHUP;

// A program's interest in a socket, or the kernel's answer, in the shorter names.
inline short plain(short events) {
  short bits = static_cast<short>(events & (kAsked | kUnasked));
  if (events & kRead) bits |= POLLIN;
  if (events & kWrite) bits |= POLLOUT;
  return bits;
}

// An answer in the shorter names, with the other names of the same bits as far as the program wants them.
inline short dressed(short answer, short wanted) {
  short bits = answer;
  if (answer & POLLIN) bits |= kRead;
  if (answer & POLLOUT) bits |= kWrite;
  return static_cast<short>(bits & (wanted | kUnasked));
}

}  // namespace viaduct::sovia::event_bits

#endif
