#include "raw.h"

#include <fcntl.h>

#include <cerrno>

namespace semantics::raw {
namespace {

constexpr int kFirstOwn = 500;  // below FD_SETSIZE and the usual limit of 1024

template <class Byte>
bool all(long number, int fd, Byte* at, std::size_t n) {
  while (n > 0) {
    const long done = call(number, fd, at, n);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done;
    n -= static_cast<std::size_t>(done);
  }
  return true;
}

}  // namespace

bool read_all(int fd, void* to, std::size_t n) {
  return all(SYS_read, fd, static_cast<char*>(to), n);
}

bool write_all(int fd, const void* from, std::size_t n) {
  return all(SYS_write, fd, static_cast<const char*>(from), n);
}

int out_of_the_way(int fd) {
  const long moved = call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, kFirstOwn);
  close(fd);
  return static_cast<int>(moved);
}

}  // namespace semantics::raw
