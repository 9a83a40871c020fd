#include "sovia/socket/socket.h"

#include <errno.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "sovia/lane/engine.h"
#include "sovia/lane/tcp_route.h"
#include "sovia/process/counters.h"
#include "sovia/process/libc.h"
#include "sovia/process/options.h"
#include "sovia/process/signals.h"
#include "sovia/process/threads.h"
#include "sovia/socket/background_requests.h"
#include "sovia/socket/fallback.h"
#include "sovia/socket/fork_handoff.h"
#include "sovia/socket/lane_endpoint.h"
#include "sovia/socket/lane_life.h"
#include "sovia/socket/redirected_receive.h"
#include "sovia/socket/rx_sources.h"
#include "sovia/socket/socket_pieces.h"
#include "sovia/socket/waiting_call.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {
namespace {

// True: receive_undisturbed() has to follow. It blocks in the kernel, so no lane may appear meanwhile. In a process of
// one thread none can, as the background thread, which makes lanes, would be a second thread. On a socket that was
// refused a lane, none is asked for during such a receive.
bool begin_undisturbed(Socket& socket, int flags) {
  // A call with MSG_WAITALL may get its first bytes from the kernel and the rest over a lane.
  if ((flags & MSG_WAITALL) != 0) return false;
  const bool alone = has_one_thread();
  const RxGuard guard(socket);
  if (!alone && !socket.demand.was_refused()) return false;
  if (!socket.link.is_idle() || socket.link.end != nullptr) return false;
  if (socket.rx.inherited != nullptr || socket.rx.record().is_expected()) return false;
  if (socket.reset || socket.reset.is_untold()) return false;
  socket.rx.undisturbed.fetch_add(1, std::memory_order_relaxed);
  return true;
}

ssize_t receive_undisturbed(Socket& socket, int fd, const iovec* pieces, std::size_t count, int flags) {
  ssize_t bytes;
  {
    const signals::Outside outside;
    if (count == 1) {
      bytes = libc::recv(fd, pieces[0].iov_base, pieces[0].iov_len, flags);
    } else {
      msghdr message{};
      message.msg_iov = const_cast<iovec*>(pieces);
      message.msg_iovlen = count;
      bytes = libc::recvmsg(fd, &message, flags);
    }
  }
  const bool took = bytes > 0 && (flags & MSG_PEEK) == 0;
  {
    const RxGuard guard(socket);
    if (took) socket.rx.kernel_read += static_cast<std::uint64_t>(bytes);
    socket.rx.undisturbed.fetch_sub(1, std::memory_order_relaxed);
  }
  if (!took) return bytes;
  counters::add(Counter::kBytesReceivedKernel, static_cast<std::uint64_t>(bytes));
  note_kernel_bytes(socket, fd, Direction::kReceiving, bytes);
  return bytes;
}

// True if nothing will come behind the unread data.
bool has_ended(Socket& socket, int fd) {
  {
    const RxGuard guard(socket);
    if (socket.rx.shut) return true;
    if (socket.link.end != nullptr) {
      Lane& lane = socket.link.end->lane;
      const LockGuard lane_guard(lane.lock());
      // The peer frees a lane that has ended, while data of it may be unread here: the kernel goes on with the connection.
      const bool lane_ended = lane.control.receiving() == Lane::State::kEnded;
      if (!lane_ended && lane.control.broken()) return true;
      if (!lane_ended && must_wait_for_lane_end(socket, lane)) return false;
    }
  }
  pollfd kernel_fd{fd, POLLRDHUP, 0};
  return libc::poll(&kernel_fd, 1, 0) > 0;
}

// A look can't go from one source to another and back: what is there is moved to one. The kernel has room for more then.
// False: nothing was moved.
bool gathers_turns(Socket& socket, int fd) {
  std::size_t before;
  {
    const RxGuard guard(socket);
    if (socket.link.end == nullptr) return false;
    const LockGuard lane_guard(socket.link.end->lane.lock());
    if (!socket.link.end->lane.rx.has_turns()) return false;
    before = socket.rx.inherited_left();
  }
  gather(socket, fd, Gather::kWhatIsThere);
  const RxGuard guard(socket);
  return socket.rx.inherited_left() != before;
}

Attempt receive_from_kernel(Socket& socket, int fd, const iovec* pieces, std::size_t count, std::size_t skip,
                            int flags, ssize_t& bytes) SOVIA_RX_LOCKED(socket) {
  bytes = 0;
  if (socket.rx.record().is_expected()) {
    if (!take_record(socket, fd)) return socket.rx.shut ? Attempt::kDone : Attempt::kAgain;
    if (socket.reset) return tell_reset(socket, fd, Attempt::kDone, skip);
    drop_if_read(socket);
  }
  // A receive that has a part leaves the kernel's error to the next one, which may be another process's.
  if (skip != 0 && !socket.handoff.is_alone() && has_only_error(fd)) return Attempt::kDone;
  // The kernel would step over the mark. A receive that has a part ends there, as with TCP.
  if (skip != 0 && is_at_mark(fd)) return Attempt::kDone;
  const std::uint64_t limit = kernel_limit(socket, fd);
  std::byte first;
  const iovec one{&first, 1};
  // Without a byte there may be an error, or the end.
  const bool looks = limit == 0 && total(pieces, count) != skip;
  IovecTail rest(looks ? &one : pieces, looks ? 1 : count, looks ? 0 : skip, limit != 0 ? limit : 1);
  bytes = libc::recvmsg(fd, rest.message(), flags | MSG_DONTWAIT | (looks ? MSG_PEEK : 0));
  // At a mark SIOCINQ, which made the limit, is 0. A direction with urgent data comes to no lane any more.
  const bool at_mark = looks && bytes > 0 && is_at_mark(fd);
  if (at_mark) {
    IovecTail behind(pieces, count, skip, ~0ull);
    bytes = libc::recvmsg(fd, behind.message(), flags | MSG_DONTWAIT);
  }
  if (bytes < 0) socket.reset.kernel_tells(errno, skip == 0);
  if (bytes < 0) return errno == EAGAIN ? Attempt::kAgain : Attempt::kFailed;
  if (bytes == 0 && rest.bytes() != 0 && socket.reset.fail_receive()) return Attempt::kFailed;
  if (looks && bytes > 0 && !at_mark) {
    bytes = 0;
    return Attempt::kAgain;
  }
  // The end of the kernel's stream is the end of the connection only when the lane's end has come.
  if (bytes == 0 && socket.link.end != nullptr && rest.bytes() != 0 && !socket.rx.shut) {
    const LockGuard guard(socket.link.end->lane.lock());
    if (must_wait_for_lane_end(socket, socket.link.end->lane)) {
      socket.rx.early_end = true;
      return Attempt::kAgain;
    }
  }
  if (bytes > 0) socket.rx.count_emptied();
  if (bytes <= 0 || (flags & MSG_PEEK) != 0) return Attempt::kDone;
  counters::add(Counter::kBytesReceivedKernel, static_cast<std::uint64_t>(bytes));
  socket.rx.kernel_read += static_cast<std::uint64_t>(bytes);
  socket.rx.turns = static_cast<std::uint64_t>(bytes) == limit;
  return Attempt::kDone;
}

// Takes unread bytes from the lane.
Attempt take_from_lane(Socket& socket, Lane& lane, const iovec* pieces, std::size_t count, std::size_t skip, int flags,
                       ssize_t& bytes) SOVIA_RX_LOCKED(socket) VIADUCT_REQUIRES(lane.lock()) {
  const bool peek = (flags & MSG_PEEK) != 0;
  bytes = static_cast<ssize_t>((flags & MSG_TRUNC) != 0 && !peek ? lane.rx.discard(total(pieces, count) - skip)
                                                                 : lane.rx.read(pieces, count, skip, peek));
  socket.rx.lane_unread.store(lane.rx.unread_here(), std::memory_order_relaxed);
  const std::size_t left = lane.rx.unread_here();
  if (left == 0) socket.rx.count_emptied();
  socket.rx.last_packet.store(lane.rx.last_packet(), std::memory_order_relaxed);
  if (left == 0 && (lane.control.receiving() != Lane::State::kUp || socket.rx.leaves_lane || lane.rx.unread() != 0)) {
    socket.rx.turns = true;
    if (lane.control.receiving() == Lane::State::kEnded) background::look_at(*socket.link.end);
  }
  if (lane.tx.holds_for_timer()) lane.tx.flush();
  if (lane.wants_poll()) background::flush_later(*socket.link.end);
  counters::add(Counter::kBytesReceivedLane, static_cast<std::uint64_t>(bytes));
  if (bytes == 0 && lane.rx.has_faulted()) {
    errno = EFAULT;
    return Attempt::kFailed;
  }
  return Attempt::kDone;
}

// Whether the lane brings the next bytes, as it has just said.
bool goes_up(Socket& socket) SOVIA_RX_LOCKED(socket) {
  const LockGuard guard(socket.link.end->lane.lock());
  socket.settle_receiving(socket.link.end->lane);
  return socket.rx.on_lane;
}

// Receives from the lane, if that has the next bytes. kKernel: the caller has to receive from the kernel.
Attempt receive_from_lane(Socket& socket, const iovec* pieces, std::size_t count, std::size_t skip, int flags,
                          ssize_t& bytes, bool& cut) SOVIA_RX_LOCKED(socket) {
  Lane& lane = socket.link.end->lane;
  const LockGuard lane_guard(lane.lock());
  socket.settle_receiving(lane);
  if (socket.reset.ended_by_kernel() && socket.rx.on_lane && lane.rx.unread_here() == 0 && !lane.control.is_cut()) {
    // The program knows of a reset, behind which nothing comes.
    lane.cut();
    background::look_at(*socket.link.end);
    socket.settle_receiving(lane);
  }
  cut = lane.control.is_cut();
  if (socket.rx.on_lane) {
    if (lane.rx.unread_here() != 0) return take_from_lane(socket, lane, pieces, count, skip, flags, bytes);
    if (socket.rx.shut) return Attempt::kDone;
    if (lane.tx.holds()) lane.tx.flush();  // the program waits for the answer to it
    socket.rx.empty.store(!lane.control.broken(), std::memory_order_relaxed);
    if (lane.control.broken()) background::look_at(*socket.link.end);
    return Attempt::kAgain;
  }
  if (lane.tx.holds()) lane.tx.flush();
  return Attempt::kKernel;
}

// As fall_back_locked(), with tx yet to be locked: Clang knows of no share in either_stream that becomes the whole.
void fall_back_receiving(Socket& socket, int fd) SOVIA_RX_LOCKED(socket) VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
  const LockGuard guard(socket.tx.lock);
  fall_back_locked(socket, fd);
}

// Receives what comes behind the inherited bytes.
Attempt receive_from_route(Socket& socket, int fd, const iovec* pieces, std::size_t count, std::size_t skip, int flags,
                           ssize_t& bytes, bool& moved) SOVIA_RX_LOCKED(socket) {
  if (socket.link.end == nullptr) {
    if (socket.reset) return tell_reset(socket, fd, Attempt::kDone, skip);
    return receive_from_kernel(socket, fd, pieces, count, skip, flags, bytes);
  }
  const std::uint32_t routes = socket.routes();
  for (;;) {
    bool cut = false;
    const Attempt on_lane = receive_from_lane(socket, pieces, count, skip, flags, bytes, cut);
    if (on_lane != Attempt::kKernel) return on_lane;
    if (cut && !socket.fallback.done) fall_back_receiving(socket, fd);
    moved |= socket.routes() != routes;
    if (socket.reset) return tell_reset(socket, fd, Attempt::kDone, skip);
    const Attempt attempt = receive_from_kernel(socket, fd, pieces, count, skip, flags, bytes);
    if (attempt != Attempt::kAgain || !goes_up(socket)) return attempt;
  }
}

// Receives from the source of the next bytes.
Attempt receive_from_source(Socket& socket, int fd, const iovec* pieces, std::size_t count, std::size_t skip, int flags,
                            ssize_t& bytes, bool& moved) SOVIA_RX_LOCKED(socket) {
  socket.rx.turns = false;
  if (socket.rx.inherited != nullptr) {
    const Attempt attempt = receive_inherited_bytes(socket, pieces, count, skip, (flags & MSG_PEEK) != 0, bytes);
    socket.rx.turns = socket.rx.inherited_left() == 0;
    if (socket.rx.turns) socket.rx.count_emptied();
    if (attempt != Attempt::kAgain) return attempt;
    socket.rx.turns = false;
    moved |= !socket.may_use_lane();
  }
  return receive_from_route(socket, fd, pieces, count, skip, flags, bytes, moved);
}

// Receives, after a poll of the lanes if that is worth it.
Attempt poll_and_receive(Socket& socket, int fd, const iovec* pieces, std::size_t count, std::size_t skip, int flags,
                         std::size_t wanted, ssize_t& bytes) {
  flags &= ~MSG_WAITALL;
  // The lanes are not polled as long as the unread data is enough for the call.
  const std::size_t left = socket.rx.lane_unread.load(std::memory_order_relaxed);
  if (left != 0 && left >= wanted) {
    const Attempt attempt = socket.try_receive(fd, pieces, count, skip, flags, bytes);
    if (attempt != Attempt::kAgain) return attempt;
    socket.rx.lane_unread.store(0, std::memory_order_relaxed);
  }
  progress();
  return socket.try_receive(fd, pieces, count, skip, flags, bytes);
}

// Waits for data, which may come straight to the pieces. False with errno if the call is to end.
bool await_data(Socket& socket, WaitingCall& waiting, int fd, const iovec* pieces, std::size_t count, std::size_t skip,
                std::size_t& redirected) {
  RedirectedReceive direct;
  if (count != 0) direct.begin(socket, pieces, count, skip);
  const bool goes_on = waiting.await(fd, POLLIN, SO_RCVTIMEO, &direct);
  redirected = direct.take_bytes();
  return goes_on;
}

}  // namespace

bool Socket::finds_nothing(int flags) {
  if (!rx.known_empty()) return false;
  const bool waits = (flags & MSG_DONTWAIT) == 0 && !modes.is_nonblocking();
  if (waits) return false;
  const signals::Inside inside;
  progress();
  if (!rx.known_empty()) return false;
  rx.count_emptied();
  engine::after_look_in_vain();
  return true;
}

Attempt Socket::try_receive(int fd, const iovec* pieces, std::size_t count, std::size_t skip, int flags,
                            ssize_t& bytes) {
  RouteMove move(*this);
  const RxGuard guard(*this);
  fd = current(fd);
  const std::uint32_t routes_before = routes();
  const Attempt attempt = receive_from_source(*this, fd, pieces, count, skip, flags, bytes, move.happened);
  if (attempt == Attempt::kAgain) rx.count_emptied();
  if (attempt != Attempt::kDone || bytes <= 0) return attempt;
  std::size_t done = static_cast<std::size_t>(bytes);
  if ((flags & MSG_PEEK) != 0) {
    done += look_behind(*this, fd, pieces, count, skip, done);
  } else {
    while (rx.turns && skip + done < total(pieces, count) && goes_on_behind(*this, fd)) {
      ssize_t more = 0;
      const Attempt next =
          receive_from_source(*this, fd, pieces, count, skip + done, flags, more, move.happened);
      if (next == Attempt::kFailed && errno == ECONNRESET) keep_untold_reset(errno);  // the kernel returns it only once
      if (next != Attempt::kDone || more <= 0) break;
      done += static_cast<std::size_t>(more);
    }
  }
  // Sets that wait for the next bytes learn where these come from now.
  if (rx.turns && link.end != nullptr) goes_up(*this);
  move.happened |= routes() != routes_before;
  bytes = static_cast<ssize_t>(done);
  return attempt;
}

ssize_t Socket::receive(int fd, const iovec* pieces, std::size_t count, int flags) {
  if (count > kMostPieces) {
    errno = EINVAL;
    return -1;
  }
  if (link.is_idle() && begin_undisturbed(*this, flags)) {
    return receive_undisturbed(*this, fd, pieces, count, flags);
  }
  const std::size_t wanted = total(pieces, count);
  const bool all = (flags & MSG_WAITALL) != 0;
  const bool peek = (flags & MSG_PEEK) != 0;
  std::size_t done = 0;
  std::optional<WaitingCall> waiting;
  for (;;) {
    ssize_t bytes = 0;
    const Attempt attempt = poll_and_receive(*this, fd, pieces, count, peek ? 0 : done, flags, wanted, bytes);
    if (attempt == Attempt::kFailed) {
      if (done == 0 || peek) return -1;
      if (errno == ECONNRESET) keep_untold_reset(errno);  // the kernel returns it only once
      return static_cast<ssize_t>(done);
    }
    if (attempt == Attempt::kDone) {
      burst.received();
      if (bytes == 0) return static_cast<ssize_t>(done);
      if (peek) {
        done = static_cast<std::size_t>(bytes);
        if (done < wanted && gathers_turns(*this, fd)) continue;
        if (!all || done >= wanted) return bytes;
        // More data may come behind the peeked data. The peeked data stays readable and a wait would end at once, so
        // the call sleeps for a moment and looks again.
        if ((!waiting && !modes.blocks(fd, flags)) || has_ended(*this, fd)) return bytes;
        if (!waiting) waiting.emplace(*this);
        if (!waiting->await_moment(fd)) return bytes;
        continue;
      }
      note_kernel_bytes(*this, fd, Direction::kReceiving, bytes);
      done += static_cast<std::size_t>(bytes);
      if (!all || done >= wanted) return static_cast<ssize_t>(done);
      continue;
    }
    // A call that has begun to wait goes on, whatever another process sets.
    if (!waiting && !modes.blocks(fd, flags)) {
      if (done != 0) return static_cast<ssize_t>(done);
      errno = EAGAIN;
      return -1;
    }
    if (!waiting) waiting.emplace(*this);
    const bool redirects = !peek && (flags & MSG_TRUNC) == 0;
    std::size_t redirected = 0;
    const bool goes_on = await_data(*this, *waiting, fd, pieces, redirects ? count : 0, done, redirected);
    done += redirected;
    if (redirected != 0) burst.received();
    if (redirected != 0 && (!all || done >= wanted)) return static_cast<ssize_t>(done);
    if (!goes_on) return done != 0 ? static_cast<ssize_t>(done) : -1;
  }
}

bool Socket::put_back(const iovec* pieces, std::size_t count) {
  const StreamsGuard both(*this);
  const std::size_t bytes = total(pieces, count);
  const std::size_t rest = rx.inherited_left();
  InheritedBytes* const all = make_inherited_bytes(bytes + rest);
  if (all == nullptr) return false;
  std::byte* to = all->data();
  for (std::size_t i = 0; i < count; ++i) {
    if (pieces[i].iov_len != 0) std::memcpy(to, pieces[i].iov_base, pieces[i].iov_len);
    to += pieces[i].iov_len;
  }
  const iovec behind{to, rest};
  const std::size_t moved = rest != 0 ? read_inherited_bytes(*rx.inherited, &behind, 1, 0, false) : 0;
  all->set_bytes(bytes + moved);
  rx.replace_inherited(all);
  demand.stop_bypass();
  return true;
}

}  // namespace viaduct::sovia
