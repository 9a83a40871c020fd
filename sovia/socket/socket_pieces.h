// Code that sending and receiving have in common.
#ifndef VIADUCT_SOVIA_SOCKET_SOCKET_PIECES_H
#define VIADUCT_SOVIA_SOCKET_SOCKET_PIECES_H

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "sovia/socket/socket.h"

namespace viaduct::sovia {

inline constexpr std::size_t kMostPieces = 1024;  // IOV_MAX

inline std::size_t total(const iovec* pieces, std::size_t count) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) bytes += pieces[i].iov_len;
  return bytes;
}

// The pieces from `skip` on, at most `limit` bytes of them, for a call to the kernel. `before`: a piece that goes first.
class IovecTail {
 public:
  IovecTail(const iovec* pieces, std::size_t count, std::size_t skip, std::uint64_t limit, iovec before = {}) {
    if (before.iov_len != 0) pieces_[used_++] = before;
    for (std::size_t i = 0; i < count && used_ < kFew && limit != 0; ++i) {
      if (skip >= pieces[i].iov_len) {
        skip -= pieces[i].iov_len;
        continue;
      }
      const std::size_t here = std::min<std::uint64_t>(pieces[i].iov_len - skip, limit);
      pieces_[used_++] = {static_cast<std::byte*>(pieces[i].iov_base) + skip, here};
      limit -= here;
      skip = 0;
    }
    message_.msg_iov = pieces_;
    message_.msg_iovlen = used_;
  }
  msghdr* message() { return &message_; }
  std::size_t bytes() const { return used_ == 0 ? 0 : pieces_[0].iov_len; }

 private:
  static constexpr std::size_t kFew = 64;
  iovec pieces_[kFew];
  std::size_t used_ = 0;
  msghdr message_{};
};

// Tells the threads and sets that wait for the socket when a direction has moved to the kernel or to the lane
// (`happened`): the events of the other one count now, also those that have come already. To be made before the socket
// is locked, so that the destructor runs after its unlocking.
class RouteMove {
 public:
  explicit RouteMove(Socket& socket) : socket_(socket) {}
  ~RouteMove() {
    if (!happened) return;
    const int error = errno;
    socket_.changed();
    errno = error;
  }
  bool happened = false;

 private:
  Socket& socket_;
};

}  // namespace viaduct::sovia

#endif
