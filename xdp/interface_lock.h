// One agent for each interface.
//
// The lock is flock() on a file in a folder of root's, named by network namespace and interface: an index is
// private to its namespace, the folder is not. The kernel takes the lock back when the last process that holds
// the descriptor is gone, so a file that is left over is no lock. Users can neither make such a file nor open one:
// a process that can open a file can lock it. That is also why it does not lie in /run/viaduct, which containers mount.
#ifndef VIADUCT_XDP_INTERFACE_LOCK_H
#define VIADUCT_XDP_INTERFACE_LOCK_H

#include <string>

#include "xdp/descriptor.h"

namespace viaduct {

class InterfaceLock {
 public:
  static constexpr char kFolder[] = "/run/viad";

  // Waits a while for a holder to go (the guard of an agent that has just died). Throws PortError
  // that names the holder's process.
  InterfaceLock(int ifindex, const char* interface, unsigned wait_ms = 2000);
  // Removes the file, unless a guard still holds it.
  ~InterfaceLock();
  InterfaceLock(const InterfaceLock&) = delete;
  InterfaceLock& operator=(const InterfaceLock&) = delete;

  int descriptor() const { return fd_.get(); }
  // The lock's path for the interface with that index in this thread's network namespace.
  static std::string path_of(int ifindex);

 private:
  std::string path_;
  Descriptor fd_;
};

}  // namespace viaduct

#endif
