// The fallback of a connection whose lane has broken: both streams go on through the kernel.
//
// A sender still has every byte of which it does not know that it has come. It writes these to the kernel,
// behind a record (Resume, packet.h) that says where on the lane they begin, and then what the program
// sends next. A receiver gives the program what the lane has, takes the record, and drops what it has twice.
#ifndef VIADUCT_SOVIA_SOCKET_SOCKET_FALLBACK_H
#define VIADUCT_SOVIA_SOCKET_SOCKET_FALLBACK_H

#include <sys/types.h>
#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sovia/socket/socket_route.h"

namespace viaduct::sovia {

class InheritedBytes;
struct Holders;

class SocketFallback : public SocketRoute {
 public:
  // The lane has broken: the streams go on through the kernel. Nothing is lost, if the peer lives.
  void fall_back(int fd);
  // Work left for the background thread to do for that, as POLLIN and POLLOUT; 0: nothing.
  short falling();
  void go_on_falling(int fd);
  bool has_fallen(LaneEndpoint& end);

  // Waits until what the peer has sent on a lane that it has lost has come.
  void await_record(int fd, std::uint64_t deadline);
  // Waits until the kernel has taken what it had to send on its own. -1: another thread sees to it.
  void await_kernel(int fd);
  // Sockets of the process of which the kernel has yet to take something.
  static unsigned count_kept() { return g_kept.load(); }
  static void forget_kept() { g_kept.store(0); }

 protected:
  ~SocketFallback() = default;
  void fall_back_locked(int fd);
  void shut_if_due(int fd);
  void keep_unsent(int fd, Lane& lane);
  bool flush_kept(int fd, bool patient = false);
  void drop_kept();
  bool take_record(int fd);
  // Bytes that the kernel has behind FIN may be a record although the lane has not broken here. False: as much of it as
  // there is may be one, or the connection has been reset.
  bool meet_early_record(int fd);
  // The next that is read is a record in the kernel's stream, or what comes before it has been read.
  bool record_is_next() const;
  void be_watched();
  void rest_with_kernel();
  Attempt receive_inherited_bytes(const iovec* pieces, std::size_t count, std::size_t skip, bool peek,
                          ssize_t& bytes);
  bool record_would_reset(int fd);

  Holders* holders_ = nullptr;  // as lane_
  InheritedBytes* inherited_bytes_ = nullptr;
  // Bytes of a broken lane that the kernel has yet to take.
  struct Kept {
    std::size_t bytes, at;
    std::byte data[1];
  };
  Kept* kept_ = nullptr;
  static constinit std::atomic<unsigned> g_kept;
  // Until then a record without data waits for the peer's answer: no byte depends on it, and the kernel of a peer that
  // was killed would answer it with a reset.
  std::uint64_t kept_until_ = 0;
  std::atomic<bool> peer_ended_{false};  // it was killed
  std::atomic<bool> watched_{false};  // the background thread looks at what is yet to come
  bool fell_ = false;        // lane_ has broken, and all has been done about it that can be
  bool shut_later_ = false;  // in the kernel, when all that was sent before has arrived
};

}  // namespace viaduct::sovia

#endif
