// One agent for each interface.
//
// The lock is a listening Unix socket with an abstract name made of the interface's index. Such
// names are private to a network namespace, and the kernel takes them back when the last process
// that holds the descriptor is gone: there is no file to go stale.
#ifndef VIADUCT_XDP_INTERFACE_LOCK_H
#define VIADUCT_XDP_INTERFACE_LOCK_H

namespace viaduct {

class InterfaceLock {
 public:
  // Waits a while for a holder to go (the guard of an agent that has just died). Throws PortError
  // that names the holder's process.
  InterfaceLock(int ifindex, const char* interface, unsigned wait_ms = 2000);
  ~InterfaceLock();
  InterfaceLock(const InterfaceLock&) = delete;
  InterfaceLock& operator=(const InterfaceLock&) = delete;

  int descriptor() const { return fd_; }

 private:
  int fd_;
};

}  // namespace viaduct

#endif
