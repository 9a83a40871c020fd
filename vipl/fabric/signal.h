// A descriptor of the kernel's that becomes readable. Made when it is first needed.
#ifndef VIADUCT_VIPL_FABRIC_SIGNAL_H
#define VIADUCT_VIPL_FABRIC_SIGNAL_H

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

namespace viaduct::fabric {

// Not for several threads at once, but for `descriptor`.
class Signal {
 public:
  Signal() = default;
  ~Signal() {
    if (fd_ >= 0) close(fd_);
  }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  // -1 if there is none, with errno set.
  int open() {
    if (fd_ < 0) fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return fd_;
  }
  int descriptor() const { return fd_; }

  void raise() {
    if (fd_ < 0 || raised_) return;
    const std::uint64_t one = 1;
    raised_ = write(fd_, &one, sizeof one) == sizeof one;
  }
  void lower() {
    if (!raised_) return;
    std::uint64_t count;
    raised_ = read(fd_, &count, sizeof count) < 0;
  }

 private:
  int fd_ = -1;
  bool raised_ = false;
};

}  // namespace viaduct::fabric

#endif
