// Sockets of one poll() or select() that rest (SocketLane::rests): the kernel alone is asked, and no lane
// comes to them meanwhile.
#ifndef VIADUCT_SOVIA_POLL_AT_REST_H
#define VIADUCT_SOVIA_POLL_AT_REST_H

#include <cstddef>

#include "sovia/process/signals.h"
#include "sovia/socket/table.h"

namespace viaduct::sovia {

class AtRest {
 public:
  AtRest() = default;
  ~AtRest() {
    const signals::Inside inside;
    while (count_ != 0) sockets_[--count_]->end_rest(0);
  }
  AtRest(const AtRest&) = delete;
  AtRest& operator=(const AtRest&) = delete;

  // With the program's handlers held back, as they might leave by longjmp. False if the socket does not rest, or
  // there are too many of them.
  bool take(int fd) {
    const Socket* const known = table::peek(fd);
    if (known == nullptr || !known->rests() || count_ == kMost) return false;
    SocketRef& socket = sockets_[count_];
    socket = table::find(fd);
    if (!socket || !socket->begin_rest()) return false;
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
