// Fd: a descriptor of a case, closed at the end of its scope through libc.
#ifndef SEMANTICS_FD_H
#define SEMANTICS_FD_H

#include <unistd.h>

#include <utility>

namespace semantics {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      close();
      fd_ = other.release();
    }
    return *this;
  }
  ~Fd() { close(); }

  operator int() const { return fd_; }  // NOLINT: it goes into calls of the sockets API
  int release() { return std::exchange(fd_, -1); }
  int close() { return fd_ >= 0 ? ::close(release()) : 0; }

 private:
  int fd_ = -1;
};

}  // namespace semantics

#endif
