// Sockets that other processes get: by fork, exec or a message.
#ifndef VIADUCT_SOVIA_SOCKET_SOCKET_SHARE_H
#define VIADUCT_SOVIA_SOCKET_SOCKET_SHARE_H

#include <atomic>
#include <cstdint>

#include "sovia/process/reason.h"
#include "sovia/socket/shown_socket.h"
#include "sovia/socket/socket_fallback.h"

namespace viaduct::sovia {

class SocketShare : public SocketFallback {
 public:
  // Before fork, lane left: unread data of the lane moves to memory that parent and child share, and
  // the socket counts one more process that holds it. Undone by fork_failed().
  void share(int fd);
  void fork_failed();
  // In the child, for every socket: no thread is inside any more.
  void after_fork_in_child();

  // Lane left. Takes unread bytes that come before the kernel's to memory of the socket's own.
  void gather(int fd);
  // Another program or process is about to get the descriptor. Lane left. The file of what is unread
  // and comes before anything that the kernel has; -1: there is none.
  int export_unread(int fd);
  // This process has got it so: no lane, and `inherited_bytes` is read first.
  void inherit(InheritedBytes* inherited_bytes, Reason why);
  // The same, but what was unread has been lost.
  void inherit_loss(int fd);
  // This process does not hold it any more from now on: it ends, or another program takes over that
  // does not get it. More than once does no harm. Undone by reattach().
  void detach();
  void reattach();

  // A child that is spawned gets it, whether it closes on exec or not.
  void will_be_passed() { passed_.store(true); }
  bool passed() const { return passed_.load(); }

  ShownSocket& shown() { return shown_; }

 protected:
  ~SocketShare() = default;
  void gather_unread(int fd);

  std::atomic<bool> for_good_{false};
  ShownSocket shown_;
  std::atomic<std::uint32_t> lane_number_{0};
  std::atomic<std::uint32_t> calls_{0};
  std::atomic<std::uint64_t> bytes_{0};

 private:
  bool detached_ = false;
  std::atomic<bool> passed_{false};
};

}  // namespace viaduct::sovia

#endif
