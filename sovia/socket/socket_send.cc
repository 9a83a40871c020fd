#include "sovia/socket/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <optional>

#include "sovia/lane/engine.h"
#include "sovia/lane/registrations.h"
#include "sovia/lane/tcp_route.h"
#include "sovia/lane/waiting.h"
#include "sovia/process/counters.h"
#include "sovia/process/guarded_copy.h"
#include "sovia/process/libc.h"
#include "sovia/process/options.h"
#include "sovia/socket/background_requests.h"
#include "sovia/socket/fallback.h"
#include "sovia/socket/held_sends.h"
#include "sovia/socket/lane_endpoint.h"
#include "sovia/socket/lane_life.h"
#include "sovia/socket/redirected_receive.h"
#include "sovia/socket/socket_pieces.h"
#include "sovia/socket/waiting_call.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {
namespace {

constexpr std::uint64_t kCorkNs = 200'000'000;  // as long as TCP holds back what TCP_CORK or MSG_MORE ask for

// The state of a send from the program's own memory.
struct Direct {
  std::uint32_t memory = 0;  // handle of its registered region
  bool sent = false;
  std::uint64_t ticket = 0;  // of the last packet
};

// Brings this direction to the lane, if the lane is open and nothing speaks against it.
bool go_up(Socket& socket, int fd, Lane& lane) SOVIA_TX_LOCKED(socket) VIADUCT_REQUIRES(lane.lock()) {
  std::uint64_t before, unsent;
  if (socket.tx.lane_forbidden || !lane.greeting.may_start() || lane.control.broken()) return false;
  if (lane.control.sending() != Lane::State::kIdle || !socket.tx.owed.empty()) return false;
  if (lane.control.peer_closed() || lane.control.peer_leaves() || socket.reset.ended_by_kernel()) return false;
  if (!bytes_written(fd, socket.modes.opener(), before, unsent) || !lane.tx.go_up(before)) return false;
  // The peer has to read the kernel's unsent bytes first, and no later write will make the kernel send them.
  if (unsent != 0) push(fd);
  socket.sending_changed(TxRoute::kLane);
  counters::add(Counter::kStartsSent);
  SOVIA_LOG("%d: sending goes up to the lane after %llu bytes", fd, static_cast<unsigned long long>(before));
  return true;
}

// Decides which carrier takes the next bytes. True if the kernel does from now on.
bool choose_route(Socket& socket, int fd, std::size_t bytes) SOVIA_TX_LOCKED(socket) SOVIA_LANE_LOCKED(socket) {
  const bool was_kernel = socket.tx.route == TxRoute::kKernel;
  const bool in_kernel = socket.burst.is_long(bytes) && options().route == kRouteAuto && !socket.modes.carries_messages();
  if (!in_kernel && was_kernel) go_up(socket, fd, socket.link.end->lane);
  if (in_kernel && socket.tx.route == TxRoute::kLane) leave_lane(socket, fd, false);
  leave_ended_lane(socket, fd);
  if (socket.tx.route == TxRoute::kLanding) land(socket, fd);
  return !was_kernel && socket.tx.route == TxRoute::kKernel;
}

// False: there are no credits, and the data is copied after all, because a program that was told of room must not wait.
bool send_direct(Lane& lane, const iovec& piece, std::size_t skip, ssize_t& bytes, Direct& direct)
    VIADUCT_REQUIRES(lane.lock()) {
  const std::size_t left = piece.iov_len - skip;
  const auto here = static_cast<std::uint32_t>(std::min<std::size_t>(left, kChunkBytes));
  const auto* const from = static_cast<const std::byte*>(piece.iov_base) + skip;
  if (!lane.tx.write_direct(from, here, direct.memory, direct.ticket)) return false;
  direct.sent = true;
  bytes = here;
  counters::add(Counter::kBytesSentLane, here);
  return true;
}

Attempt send_on_lane(Socket& socket, int fd, const iovec* pieces, std::size_t count, std::size_t skip, int flags,
                     ssize_t& bytes, Direct* direct, bool looked) SOVIA_TX_LOCKED(socket) SOVIA_LANE_LOCKED(socket) {
  Lane& lane = socket.link.end->lane;
  same_lane(socket.link.end->lane, lane);
  if (lane.control.broken()) {
    // Packets that came before the connection was lost may still tell that the peer has closed.
    if (looked && !lane.control.is_cut()) background::look_at(*socket.link.end);
    if (looked && !lane.control.is_cut()) return Attempt::kAgain;
    return looked ? Attempt::kBroken : Attempt::kPollCompletions;
  }
  const int combines = socket.modes.combining(fd);
  if (direct != nullptr && count == 1 && send_direct(lane, pieces[0], skip, bytes, *direct)) {
    return Attempt::kDone;
  }
  const bool corked = combines == SocketModes::kCorked || (flags & MSG_MORE) != 0;
  const bool held = !corked && combines == SocketModes::kAtOnce &&
                    total(pieces, count) - skip <= held_sends::kMostBytes &&
                    socket.modes.returns_at_once(fd, flags) && held_sends::may_hold();
  lane.tx.cork(corked || held);
  bytes = static_cast<ssize_t>(lane.tx.write(pieces, count, skip, combines != SocketModes::kAtOnce || corked));
  if (held && lane.tx.holds()) held_sends::add(*socket.link.end);
  if (!corked || !lane.tx.holds()) {
    socket.link.end->corked_until = 0;
  } else if (socket.link.end->corked_until == 0) {
    socket.link.end->corked_until = now_ns() + kCorkNs;
  }
  if (lane.tx.holds() || lane.ring.awaits_completion()) background::flush_later(*socket.link.end);
  if (lane.tx.awaits_credits()) background::hurry();
  if (lane.tx.holds() || lane.control.broken()) socket.rx.invalidate_empty();
  counters::add(Counter::kBytesSentLane, static_cast<std::uint64_t>(bytes));
  if (bytes == 0 && lane.tx.has_faulted()) {
    errno = EFAULT;
    return Attempt::kFailed;
  }
  if (bytes != 0 || total(pieces, count) == skip) return Attempt::kDone;
  socket.tx.count_filled();
  return Attempt::kAgain;
}

// The direction is not on the lane. kDone: the kernel may send; bytes on their way by the lane arrive before.
Attempt finish_on_lane(Socket& socket, int fd, bool looked) SOVIA_TX_LOCKED(socket) SOVIA_LANE_LOCKED(socket) {
  Lane& lane = socket.link.end->lane;
  same_lane(socket.link.end->lane, lane);
  if (socket.tx.route != TxRoute::kKernel && lane.control.broken() && !lane.control.peer_closed() && !socket.fallback.done) {
    if (!lane.control.is_cut()) background::look_at(*socket.link.end);
    if (!looked) return Attempt::kPollCompletions;
    return lane.control.is_cut() ? Attempt::kBroken : Attempt::kAgain;
  }
  return land(socket, fd) || socket.tx.shut ? Attempt::kDone : Attempt::kAgain;
}

// A reset that the kernel has told to another call. kDone: there is none.
Attempt untold_reset(Socket& socket) {
  const int error = socket.reset.take_untold();
  if (error == 0) return Attempt::kDone;
  errno = error;
  return error == EPIPE ? Attempt::kPipe : Attempt::kFailed;
}

Attempt send_in_kernel(Socket& socket, int fd, const iovec* pieces, std::size_t count, std::size_t skip, int flags,
                       ssize_t& bytes) SOVIA_TX_LOCKED(socket) {
  if (socket.tx.shut_later) return Attempt::kPipe;
  // The kernel reads pages of MSG_ZEROCOPY later.
  const bool apart = (flags & MSG_ZEROCOPY) != 0;
  if (apart && !send_owed(socket, fd, true)) return Attempt::kAgain;
  if (socket.reset) return tell_reset(socket, fd, Attempt::kPipe, skip);
  if (skip == 0) {
    if (const Attempt told = untold_reset(socket); told != Attempt::kDone) return told;
  }
  // A send with a part leaves the kernel's error to the next call, which may be another process's.
  if (skip != 0 && !socket.handoff.is_alone() && has_kernel_failed(fd)) return Attempt::kFailed;
  OwedBytes& owed = socket.tx.owed;
  IovecTail rest(pieces, count, skip, ~0ull, owed.piece());
  bytes = libc::sendmsg(fd, rest.message(), flags | MSG_DONTWAIT);
  if (!owed.empty()) after_send_of_owed(socket, bytes);
  if (bytes == 0 || (bytes < 0 && errno == EAGAIN)) return Attempt::kAgain;
  // With TCP_FASTOPEN_CONNECT the first send connects, which a send that may wait does.
  if (bytes < 0 && errno == EINPROGRESS && socket.modes.blocks(fd, flags)) return Attempt::kAgain;
  // Behind a part EPIPE is a reset, too, unless the program has shut the direction down.
  const bool resets = bytes < 0 && (errno == ECONNRESET || (errno == EPIPE && !socket.tx.shut));
  if (resets && skip != 0) socket.keep_untold_reset(errno);
  if (resets) socket.reset.kernel_tells(errno, skip == 0);
  if (bytes < 0) return Attempt::kFailed;
  counters::add(Counter::kBytesSentKernel, static_cast<std::uint64_t>(bytes));
  return Attempt::kDone;
}

Attempt try_send(Socket& socket, int fd, const iovec* pieces, std::size_t count, std::size_t skip, int flags,
                 ssize_t& bytes, Direct* direct, bool looked) {
  {
    RouteMove move(socket);
    const TxGuard guard(socket);
    fd = socket.current(fd);
    if (socket.reset) return tell_reset(socket, fd, Attempt::kPipe, skip);
    if (socket.link.end != nullptr) {
      const LockGuard lane_guard(socket.link.end->lane.lock());
      move.happened = choose_route(socket, fd, total(pieces, count) - skip);
      if (socket.tx.route == TxRoute::kLane) {
        return send_on_lane(socket, fd, pieces, count, skip, flags, bytes, direct, looked);
      }
      if (const Attempt first = finish_on_lane(socket, fd, looked); first != Attempt::kDone) return first;
    }
    const Attempt attempt = send_in_kernel(socket, fd, pieces, count, skip, flags, bytes);
    if (attempt == Attempt::kAgain) socket.tx.count_filled();
    if (attempt == Attempt::kFailed) move.happened |= socket.reset.is_untold();
    if (attempt != Attempt::kDone) return attempt;
  }
  note_kernel_bytes(socket, fd, Direction::kSending, bytes);
  return Attempt::kDone;
}

// Waits until the lane needs the program's memory no more, as the packet has been sent or the lane is lost.
void await_sent(Socket& socket, int fd, std::uint64_t ticket) {
  class Sent final : public WaitCondition {
   public:
    Sent(Socket& socket, std::uint64_t ticket) : socket_(socket), ticket_(ticket) {}
    bool ready() override {
      const TxGuard guard(socket_);
      if (socket_.link.end == nullptr) return true;
      Lane& lane = socket_.link.end->lane;
      const LockGuard lane_guard(lane.lock());
      // The fallback of a broken lane has to copy the packet before the memory is the program's again.
      return lane.control.broken() ? socket_.fallback.done || socket_.reset : lane.ring.has_completed(ticket_);
    }
    bool concerns(const Watched& source) const override { return &source == &socket_; }

   private:
    Socket& socket_;
    const std::uint64_t ticket_;
  } sent(socket, ticket);
  while (!wait_for_completion(sent)) fall_back(socket, fd);
}

// To be called without a lock, as the signal handler may use the socket.
void fail_with_pipe(int flags) {
  if ((flags & MSG_NOSIGNAL) == 0) raise(SIGPIPE);
  errno = EPIPE;
}

ssize_t send_pieces(Socket& socket, int fd, const iovec* pieces, std::size_t count, int flags, Direct* direct) {
  const std::size_t wanted = total(pieces, count);
  std::size_t done = 0;
  std::optional<WaitingCall> waiting;
  for (;;) {
    ssize_t bytes = 0;
    // A call that has sent a part returns it: an end that it meets behind is the next call's to tell, with the signal.
    if (done != 0) flags |= MSG_NOSIGNAL;
    Attempt attempt = try_send(socket, fd, pieces, count, done, flags, bytes, direct, false);
    if (attempt == Attempt::kPollCompletions) {
      progress();
      attempt = try_send(socket, fd, pieces, count, done, flags, bytes, direct, true);
    }
    if (attempt == Attempt::kBroken) {
      fall_back(socket, fd);
      continue;
    }
    if (attempt == Attempt::kPipe && done == 0) fail_with_pipe(flags);
    if (attempt == Attempt::kFailed || attempt == Attempt::kPipe) {
      return done != 0 ? static_cast<ssize_t>(done) : -1;
    }
    if (attempt == Attempt::kDone) {
      socket.burst.sent(static_cast<std::size_t>(bytes));
      done += static_cast<std::size_t>(bytes);
      if (done >= wanted) return static_cast<ssize_t>(done);
      if (bytes != 0) continue;
    }
    // A call that has begun to wait goes on, whatever another process sets.
    const bool blocks = waiting || socket.modes.blocks(fd, flags);
    if ((done == 0 || blocks) && socket.await_coming_down(fd)) continue;
    if (!blocks) {
      if (done != 0) return static_cast<ssize_t>(done);
      errno = EAGAIN;
      return -1;
    }
    if (!waiting) waiting.emplace(socket);
    if (!waiting->await(fd, POLLOUT, SO_SNDTIMEO)) {
      return done != 0 ? static_cast<ssize_t>(done) : -1;
    }
  }
}

// A send of no bytes is the kernel's, unless the direction has ended in a way that the kernel does not know of.
ssize_t send_nothing(Socket& socket, int fd, int flags) {
  Attempt attempt;
  bool shut;
  {
    const TxGuard guard(socket);
    shut = socket.tx.shut;
    fd = socket.current(fd);
    attempt = socket.reset          ? tell_reset(socket, fd, Attempt::kPipe, 0)
              : socket.tx.shut_later ? Attempt::kPipe
                                     : untold_reset(socket);
  }
  if (attempt == Attempt::kDone) {
    const msghdr nothing{};
    const ssize_t sent = libc::sendmsg(fd, &nothing, flags);
    if (sent < 0 && !(errno == EPIPE && shut)) socket.reset.kernel_tells(errno, true);
    return sent;
  }
  if (attempt == Attempt::kPipe) fail_with_pipe(flags);
  return -1;
}

// The paper's registered sends: the data goes from the program's memory, so the call returns only when the lane needs
// that memory no more.
ssize_t send_registered(Socket& socket, int fd, const iovec& piece, int flags) {
  ProcessNic* const nic = engine::nic();
  Direct direct;
  if (nic != nullptr && readable(piece.iov_base, piece.iov_len)) {
    direct.memory = nic->take_memory(piece.iov_base, piece.iov_len);
  }
  if (direct.memory == 0) return send_pieces(socket, fd, &piece, 1, flags, nullptr);
  const ssize_t sent = send_pieces(socket, fd, &piece, 1, flags, &direct);
  const int error = errno;
  if (direct.sent) await_sent(socket, fd, direct.ticket);
  nic->give_back_memory(direct.memory);
  errno = error;
  return sent;
}

}  // namespace

ssize_t Socket::send(int fd, const iovec* pieces, std::size_t count, int flags) {
  if (count > kMostPieces) {
    errno = EINVAL;
    return -1;
  }
  const std::size_t wanted = total(pieces, count);
  if (wanted == 0) return send_nothing(*this, fd, flags);
  if (options().route == kRoutePure && demand.take_hold()) await_lane(*this, fd);
  const bool on_lane = tx.may_be_on_lane.load(std::memory_order_relaxed);
  if (wanted > held_sends::kMostBytes || !on_lane) held_sends::before_other_send(this);
  if (wanted > options().copy_limit && count == 1 && on_lane && modes.blocks(fd, flags)) {
    return send_registered(*this, fd, pieces[0], flags);
  }
  return send_pieces(*this, fd, pieces, count, flags, nullptr);
}

int Socket::set_pushing(int fd, int name, const void* value, socklen_t length) {
  const TxGuard guard(*this);  // push() needs the options unchanged
  const int result = libc::setsockopt(fd, IPPROTO_TCP, name, value, length);
  int on = 0;
  if (result != 0 || link.end == nullptr || !copy_guarded(&on, value, sizeof on)) return result;
  // Setting TCP_NODELAY and clearing TCP_CORK push held-back data out.
  if ((on != 0) != (name == TCP_NODELAY)) return result;
  const LockGuard lane_guard(link.end->lane.lock());
  link.end->lane.tx.cork(false);
  link.end->lane.tx.flush();
  background::flush_later(*link.end);
  return result;
}

}  // namespace viaduct::sovia
