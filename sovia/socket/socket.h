// A socket: a kernel TCP socket, and beside it, once the connection is worth it, a lane over VIA.
//
// A socket owns parts, each with its state: the options (modes), the two streams, each with its lock, the link to its
// lane, and how it stands with resets, broken lanes, other processes and waiting calls. Functions over these parts,
// each of which calls only those listed before it:
//
//     fallback       the streams of a lane that has broken
//     lane_life      the beginning and the end of lanes
//     fork_handoff   processes that have the socket too
//     lane_pin       calls that use the lane without the locks
//     Socket         readiness; the way down to the kernel, shutdown and close
//     waiting_call   calls that wait
//     Socket         sending and receiving
// Messages and tagged buffers are built on it: sovia/message.
//
// The sender of a direction alone decides for each burst which carrier takes it: the lane or the kernel (fallback.h). The
// receiver reads on where the sender said. Everything special about a connection (end, reset, urgent data, options)
// happens in the kernel, after the direction has left the lane.
//
// A socket is shared by all descriptors of the process that were made of each other by dup. All
// functions may be called by several threads at once. `fd` is any descriptor of the socket.
#ifndef VIADUCT_SOVIA_SOCKET_SOCKET_H
#define VIADUCT_SOVIA_SOCKET_SOCKET_H

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "sovia/lane/lane.h"
#include "sovia/lane/watchers.h"
#include "sovia/process/lock.h"
#include "sovia/process/reason.h"
#include "sovia/socket/attempt.h"
#include "sovia/socket/burst.h"
#include "sovia/socket/connection_reset.h"
#include "sovia/socket/fallback_state.h"
#include "sovia/socket/handoff_state.h"
#include "sovia/socket/lane_demand.h"
#include "sovia/socket/lane_link.h"
#include "sovia/socket/rx_stream.h"
#include "sovia/socket/socket_modes.h"
#include "sovia/socket/socket_ref.h"
#include "sovia/socket/stream_locks.h"
#include "sovia/socket/tx_stream.h"
#include "sovia/socket/waiters.h"

namespace viaduct::sovia {

// Functions of a socket lock its streams themselves, if their declarations don't say that the caller does.
class Socket final : public SocketCounts, public Watched {
 public:
  SocketModes modes;
  RxStream rx;
  TxStream tx;
  LaneLink link;
  LaneDemand demand;
  Burst burst;
  ConnectionReset reset;
  FallbackState fallback;
  HandoffState handoff;
  Waiters waiters;

  // Whether data of either direction may go over a lane now or soon. If not, every call may go
  // straight to the kernel; if so, calls that the kernel alone should do need leave() first.
  bool may_use_lane() const { return link.is_wanted(); }
  // The program has closed the socket.
  bool closed() const { return descriptors() == 0 && waiters.fd.load() < 0; }
  // Whether no bytes of a lane are left to be received or sent before the kernel's.
  bool has_nothing_left() const { return rx.has_nothing_first() && tx.owes_nothing(); }
  // The descriptor for a call that was given `fd`: the copy for waiting calls, if the program has closed its own.
  int current(int fd) const {
    const int kept = waiters.fd.load(std::memory_order_relaxed);
    return kept < 0 ? fd : kept;
  }

  // ------------------------------------------------------------------ routes
  // Changes whenever ask_kernel()'s answer may have changed: a thread that sleeps on the former answer asks again.
  std::uint32_t routes() const { return routes_.load(std::memory_order_acquire); }
  void routes_changed() {
    routes_.fetch_add(1, std::memory_order_release);
    rx.invalidate_empty();
  }
  // Something about the socket's lane has changed, `what` as in watchers.h: wakes the threads that it concerns, and
  // tells epoll sets. The caller may hold no lock that readers of the socket take.
  void changed(short what = kRouteChange) SOVIA_UNLOCKED;
  void sending_changed(TxRoute route) VIADUCT_REQUIRES(tx.lock);
  // Call this before looking at what is unread: follows what the lane has said about where the next byte comes from, as
  // far as the bytes before have been read.
  void settle_receiving(Lane& lane) SOVIA_RX_LOCKED(*this) VIADUCT_REQUIRES(lane.lock());
  // No lane is to come any more: calls go straight to the kernel, unless the library has a reset to tell: its own, or
  // one that the kernel has told already.
  void stay_with_kernel() { link.wanted.store(reset || reset.is_untold()); }
  void keep_untold_reset(int error) {
    reset.keep_untold(error);
    link.wanted.store(true);
  }

  // ------------------------------------------------------------------ readiness (socket_ready.cc)
  // The events to ask the kernel for in place of `wanted` (POLL*).
  short ask_kernel(short wanted) SOVIA_UNLOCKED;
  // The events to tell the program when the kernel has answered `kernel_says`. Quick and without a system call, unless
  // data and the end may have come together and `fd` is given. With `kernel_says` 0: the events of the lane alone.
  short answer(short wanted, short kernel_says, int fd = -1) SOVIA_UNLOCKED;
  // Whether the kernel's answers can be given to the program as they are, now and for some time.
  bool kernel_alone() const { return !may_use_lane() && has_nothing_left(); }
  // As kernel_alone(), for good: there are no messages either, which the library may read before the program receives
  // them.
  bool stays_kernel_alone() const { return kernel_alone() && !modes.carries_messages(); }
  // As kernel_alone(), for this moment only.
  bool kernel_knows_all() SOVIA_UNLOCKED;
  // Whether the next bytes are the kernel's, and those after them too: for calls whose control data
  // only the kernel has.
  bool receives_in_kernel() SOVIA_UNLOCKED;
  // Bytes that receive() would find, for FIONREAD.
  int unread(int fd) SOVIA_UNLOCKED;
  int unread_locked(int fd) SOVIA_RX_LOCKED(*this);
  // Bytes sent that the peer has not received, for SIOCOUTQ. `kernel_bytes`: what the kernel says.
  int unsent(int kernel_bytes) SOVIA_UNLOCKED;
  // Whether unread data lies on the lane, before anything the kernel has (SIOCATMARK is then 0).
  bool lane_has_data() SOVIA_UNLOCKED;

  // ------------------------------------------------------------------ data (socket_send.cc, socket_receive.cc)
  // As sendmsg for `count` pieces, without address and control data: bytes, or -1 with errno. Waits as the
  // socket's modes and the flags say, and may raise SIGPIPE.
  ssize_t send(int fd, const iovec* pieces, std::size_t count, int flags) SOVIA_UNLOCKED;
  // setsockopt() of TCP_NODELAY or TCP_CORK. Pushes held-back data out as the kernel would.
  int set_pushing(int fd, int name, const void* value, socklen_t length) SOVIA_UNLOCKED;
  // As recvmsg, in the same way.
  ssize_t receive(int fd, const iovec* pieces, std::size_t count, int flags) SOVIA_UNLOCKED;
  // True: a receive would not wait and find nothing, so the caller need not try. Polls the lanes. False when in doubt.
  bool finds_nothing(int flags) SOVIA_UNLOCKED;
  // Receives what there is, without waiting: kDone, kAgain, or kFailed with errno.
  Attempt try_receive(int fd, const iovec* pieces, std::size_t count, std::size_t skip, int flags,
                      ssize_t& bytes) SOVIA_UNLOCKED;
  // Puts bytes back that were taken off the stream too early: they are read next. False: there is no memory.
  bool put_back(const iovec* pieces, std::size_t count) SOVIA_UNLOCKED;

  // ------------------------------------------------------------------ the way down (socket_leave.cc)
  // Both directions go down to the kernel and stay there until the socket may go up again. Returns when the peer has
  // gone down too, and all data that it sent before has come and is unread here. If the peer does not do so in time the
  // lane is given up, and the data that the peer sends again comes after a record (fallback.h).
  void leave(int fd, Reason why) SOVIA_UNLOCKED;
  static constexpr std::uint64_t kLeaveNs = 20'000'000;      // the time that the peer has for leaving the lane in good order
  static constexpr std::uint64_t kRecordNs = 2'000'000'000;  // for what others who get the socket have to know
  // leave() in two steps, for many sockets at once: until the deadline the peer may leave in good order, then the lane
  // is given up. begin_leaving() is nullptr if there is nothing to wait for.
  LaneEndpoint* begin_leaving(int fd, Reason why) SOVIA_UNLOCKED;
  void end_leaving(int fd, LaneEndpoint& end, std::uint64_t deadline) SOVIA_UNLOCKED;
  // As leave(), for good: no lane comes any more.
  void leave_for_good(int fd, Reason why) SOVIA_UNLOCKED;
  // Only the sending direction goes down; data sent before arrives before the data that the kernel sends next. Waits
  // only for room in the window.
  void leave_sending(int fd, Reason why) SOVIA_UNLOCKED;
  // Waits until the kernel may send, if the direction is about to come down, or its lane has just broken; for a burst a
  // moment only. False: the kernel may not. A send must not fail for want of room that the kernel has.
  bool await_coming_down(int fd) SOVIA_UNLOCKED;
  // shutdown(2). shut_stream() shuts at once, whatever the message layer has yet to send.
  int shutdown(int fd, int how) SOVIA_UNLOCKED;
  int shut_stream(int fd, int how) SOVIA_UNLOCKED;
  // The last descriptor of the process is about to be closed: sends the rest of the data, in the background if the
  // socket does not linger. Call between table::closing() and the kernel's close.
  void release(int fd) SOVIA_UNLOCKED;

 private:
  friend class SocketPool;

  void await_landing(int fd, LaneEndpoint& end) SOVIA_UNLOCKED;
  explicit Socket(bool nothing_read) : rx(nothing_read) {}
  ~Socket() = default;

  std::atomic<std::uint32_t> routes_{0};
};

// Locks the receiving stream to the end of the block.
class VIADUCT_SCOPED_CAPABILITY RxGuard {
 public:
  explicit RxGuard(Socket& socket) VIADUCT_ACQUIRE(socket.rx.lock) VIADUCT_ACQUIRE_SHARED(either_stream)
      : lock_(socket.rx.lock) {
    lock_.lock();
  }
  // It is locked already.
  RxGuard(std::adopt_lock_t, Socket& socket) VIADUCT_REQUIRES(socket.rx.lock) VIADUCT_ACQUIRE_SHARED(either_stream)
      : lock_(socket.rx.lock) {}
  ~RxGuard() VIADUCT_RELEASE() { lock_.unlock(); }
  RxGuard(const RxGuard&) = delete;
  RxGuard& operator=(const RxGuard&) = delete;

 private:
  Lock& lock_;
};

// Locks the sending stream to the end of the block.
class VIADUCT_SCOPED_CAPABILITY TxGuard {
 public:
  explicit TxGuard(Socket& socket) VIADUCT_ACQUIRE(socket.tx.lock) VIADUCT_ACQUIRE_SHARED(either_stream)
      : lock_(socket.tx.lock) {
    lock_.lock();
  }
  ~TxGuard() VIADUCT_RELEASE() { lock_.unlock(); }
  TxGuard(const TxGuard&) = delete;
  TxGuard& operator=(const TxGuard&) = delete;

 private:
  Lock& lock_;
};

// Locks both streams to the end of the block.
class VIADUCT_SCOPED_CAPABILITY StreamsGuard {
 public:
  explicit StreamsGuard(Socket& socket) VIADUCT_ACQUIRE(socket.rx.lock, socket.tx.lock, either_stream)
      : rx_(socket.rx.lock), tx_(socket.tx.lock) {
    rx_.lock();
    tx_.lock();
  }
  ~StreamsGuard() VIADUCT_RELEASE() {
    tx_.unlock();
    rx_.unlock();
  }
  StreamsGuard(const StreamsGuard&) = delete;
  StreamsGuard& operator=(const StreamsGuard&) = delete;

 private:
  Lock &rx_, &tx_;
};

}  // namespace viaduct::sovia

#endif
