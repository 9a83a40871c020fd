// Descriptors that programs wait for at queues.
#ifndef VIADUCT_VIPL_FABRIC_SIGNAL_H
#define VIADUCT_VIPL_FABRIC_SIGNAL_H

#include <rdma/fabric.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

namespace viaduct::fabric {

// An event descriptor that becomes readable, made when it is first needed. One thread at a time may use it; any
// thread may call descriptor().
class Signal {
 public:
  Signal() = default;
  ~Signal() {
    if (fd_ >= 0) close(fd_);
  }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  // Returns the descriptor; -1 if there is none, with errno set.
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

// How a program waits at a queue, and what wakes it.
struct WaitObject {
  // FI_WAIT_UNSPEC is a descriptor.
  explicit WaitObject(fi_wait_obj asked) : kind(asked == FI_WAIT_UNSPEC ? FI_WAIT_FD : asked) {}

  static bool is_known(fi_wait_obj asked) {
    return asked == FI_WAIT_NONE || asked == FI_WAIT_UNSPEC || asked == FI_WAIT_FD || asked == FI_WAIT_YIELD;
  }
  // Makes the descriptor that the wait object needs. False: there is none to be had.
  bool open() { return kind != FI_WAIT_FD || signal.open() >= 0; }

  // The queue's fi_control().
  int control(int command, void* argument) const {
    switch (command) {
      case FI_GETWAIT:
        if (kind != FI_WAIT_FD) return -FI_ENODATA;
        *static_cast<int*>(argument) = signal.descriptor();
        return 0;
      case FI_GETWAITOBJ:
        *static_cast<fi_wait_obj*>(argument) = kind;
        return 0;
      default:
        return -FI_ENOSYS;
    }
  }

  const fi_wait_obj kind;
  Signal signal;
};

}  // namespace viaduct::fabric

#endif
