// Sending over a socket, by whichever route.
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <mutex>

#include "sovia/background.h"
#include "sovia/counters.h"
#include "sovia/direct_receive.h"
#include "sovia/guard.h"
#include "sovia/kernel.h"
#include "sovia/lane_end.h"
#include "sovia/link.h"
#include "sovia/options.h"
#include "sovia/registrations.h"
#include "sovia/socket.h"
#include "sovia/socket_pieces.h"
#include "sovia/waiting.h"

namespace viaduct::sovia {
namespace {

constexpr std::uint64_t kCorkNs = 200'000'000;  // as long as TCP holds back what TCP_CORK or MSG_MORE ask for

}  // namespace

ssize_t Socket::send(int fd, const iovec* pieces, std::size_t count, int flags) {
  if (count > kMostPieces) {
    errno = EINVAL;
    return -1;
  }
  const std::size_t wanted = total(pieces, count);
  if (wanted > options().copy_limit && count == 1 && sending_ == Phase::kLane &&
      blocks(fd, flags)) {
    return send_registered(fd, pieces[0], flags);
  }
  return send_pieces(fd, pieces, count, flags, nullptr);
}

// The paper's registered sends: the data goes from the program's memory, so the call returns when all
// of it has been taken.
ssize_t Socket::send_registered(int fd, const iovec& piece, int flags) {
  Nic* const nic = engine::nic();
  Direct direct;
  if (nic != nullptr && readable(piece.iov_base, piece.iov_len)) {
    direct.memory = nic->take_memory(piece.iov_base, piece.iov_len);
  }
  if (direct.memory == 0) return send_pieces(fd, &piece, 1, flags, nullptr);
  const ssize_t sent = send_pieces(fd, &piece, 1, flags, &direct);
  const int error = errno;
  if (direct.sent) await_sent(fd, direct.ticket);
  nic->give_back_memory(direct.memory);
  errno = error;
  return sent;
}

// Until the packet is out of the program's hands. A lane that is lost or left lets go of it too.
void Socket::await_sent(int fd, std::uint64_t ticket) {
  class Sent final : public Interest {
   public:
    Sent(Socket& socket, std::uint64_t ticket) : socket_(socket), ticket_(ticket) {}
    bool ready() override {
      const std::scoped_lock guard(socket_.out_);
      if (socket_.lane_ == nullptr) return true;
      Lane& lane = socket_.lane_->lane;
      const std::scoped_lock lane_guard(lane.lock());
      // The rest of the packet must be copied before it is the program's again.
      return lane.broken() ? socket_.fell_ || socket_.reset_ : lane.has_completed(ticket_);
    }
    bool concerns(const Socket& socket) const override { return &socket == &socket_; }

   private:
    Socket& socket_;
    const std::uint64_t ticket_;
  } sent(*this, ticket);
  // Completions make no entries in the completion queue: look often.
  constexpr std::uint64_t kLookNs = 200'000;
  while (wait_for(sent, nullptr, 0, now_ns() + kLookNs, nullptr, true, Signals::kWait) !=
         Woken::kReady) {
    fall_back(fd);
  }
}

ssize_t Socket::send_pieces(int fd, const iovec* pieces, std::size_t count, int flags,
                            Direct* direct) {
  const std::size_t wanted = total(pieces, count);
  std::size_t done = 0;
  Waiting waiting;
  DirectReceive nothing_direct;
  for (;;) {
    ssize_t bytes = 0;
    Attempt attempt = try_send(fd, pieces, count, done, flags, bytes, direct, false);
    if (attempt == Attempt::kLook) {
      progress();
      attempt = try_send(fd, pieces, count, done, flags, bytes, direct, true);
    }
    if (attempt == Attempt::kBroken) {
      fall_back(fd);
      continue;
    }
    if (attempt == Attempt::kPipe && done == 0) {
      // No lock is held: the handler may do with the socket as it likes.
      if ((flags & MSG_NOSIGNAL) == 0) raise(SIGPIPE);
      errno = EPIPE;
    }
    if (attempt == Attempt::kFailed || attempt == Attempt::kPipe) {
      return done != 0 ? static_cast<ssize_t>(done) : -1;
    }
    if (attempt == Attempt::kDone) {
      done += static_cast<std::size_t>(bytes);
      if (starved_.load(std::memory_order_relaxed)) {
        // They may have come and not been taken in.
        starved_.store(false, std::memory_order_relaxed);
        progress();
      }
      if (done >= wanted) return static_cast<ssize_t>(done);
      if (bytes != 0) continue;
    }
    if (!blocks(fd, flags)) {
      if (done != 0) return static_cast<ssize_t>(done);
      errno = EAGAIN;
      return -1;
    }
    if (!await(fd, POLLOUT, SO_SNDTIMEO, waiting, nothing_direct)) {
      return done != 0 ? static_cast<ssize_t>(done) : -1;
    }
  }
}

// The lane is open and nothing speaks against it: this direction begins on it.
bool Socket::go_up(int fd) {
  Lane& lane = lane_->lane;
  std::uint64_t before, unsent;
  if (forbidden_ || !lane.may_start() || lane.broken() || lane.sending() != Lane::State::kIdle ||
      lane.peer_closed() || lane.peer_leaves() || !bytes_written(fd, before, unsent)) {
    return false;
  }
  lane.start(before);
  if (lane.sending() != Lane::State::kUp) return false;
  // The peer reads this first, and nothing more comes that would make the kernel send it.
  if (unsent != 0) push(fd);
  set_sending(Phase::kLane);
  counters::add(Counter::kStartsSent);
  SOVIA_LOG("%d: sending goes up to the lane after %llu bytes", fd,
            static_cast<unsigned long long>(before));
  return true;
}

int Socket::set_pushing(int fd, int name, const void* value, socklen_t length) {
  const std::scoped_lock guard(out_);  // see push()
  const int result = kernel::setsockopt(fd, IPPROTO_TCP, name, value, length);
  int on = 0;
  if (result != 0 || lane_ == nullptr || !copy_guarded(&on, value, sizeof on)) return result;
  // Both push out what was held back.
  if ((on != 0) != (name == TCP_NODELAY)) return result;
  const std::scoped_lock lane_guard(lane_->lane.lock());
  lane_->lane.cork(false);
  lane_->lane.flush();
  background::flush_later(*lane_);
  return result;
}

Socket::Attempt Socket::try_send(int fd, const iovec* pieces, std::size_t count, std::size_t skip,
                                 int flags, ssize_t& bytes, Direct* direct, bool looked) {
  {
    CameDown came_down(*this);
    const std::scoped_lock guard(out_);
    fd = current(fd);
    if (reset_) return fail_reset(Attempt::kPipe);
    if (lane_ != nullptr) {
      Lane& lane = lane_->lane;
      const std::scoped_lock lane_guard(lane.lock());
      if (sending_ == Phase::kKernel) go_up(fd);
      if (sending_ == Phase::kLane && lane.sending() != Lane::State::kUp) {
        set_sending(Phase::kAfter);
        came_down.happened = true;
      }
      if (sending_ == Phase::kLane && lane.peer_closed()) {
        // What the kernel answers to who sends to nobody is what the program is to see.
        lane.finish(false);
        set_sending(Phase::kAfter);
        came_down.happened = true;
      }
      if (sending_ == Phase::kLane) {
        if (lane.broken()) {
          // What came before the connection was lost may still tell that the peer has closed.
          if (looked && !lane.is_cut()) background::look_at(*lane_);
          if (looked && !lane.is_cut()) return Attempt::kAgain;
          return looked ? Attempt::kBroken : Attempt::kLook;
        }
        int combines = combines_.load(std::memory_order_relaxed);
        if (combines < 0) combines = look_up_combining(fd);
        // Without credits it is copied after all: a program that was told of room must not wait.
        if (direct != nullptr && count == 1) {
          const std::size_t left = pieces[0].iov_len - skip;
          const auto here = static_cast<std::uint32_t>(std::min<std::size_t>(left, kChunkBytes));
          const auto* const from = static_cast<const std::byte*>(pieces[0].iov_base) + skip;
          if (lane.write_direct(from, here, direct->memory, direct->ticket)) {
            direct->sent = true;
            bytes = here;
            counters::add(Counter::kBytesSentLane, here);
            return Attempt::kDone;
          }
        }
        const bool corked = combines == kCorked || (flags & MSG_MORE) != 0;
        lane.cork(corked);
        bytes = static_cast<ssize_t>(lane.write(pieces, count, skip, combines != kAtOnce || corked));
        if (!corked || !lane.holds()) {
          lane_->corked_until = 0;
        } else if (lane_->corked_until == 0) {
          lane_->corked_until = now_ns() + kCorkNs;
        }
        if (lane.holds() || lane.awaits_completion()) background::flush_later(*lane_);
        if (lane.awaits_credits()) {
          starved_.store(true, std::memory_order_relaxed);
          background::hurry();
        }
        if (lane.holds() || lane.broken()) stir();
        counters::add(Counter::kBytesSentLane, static_cast<std::uint64_t>(bytes));
        if (bytes == 0 && lane.has_faulted()) {
          errno = EFAULT;
          return Attempt::kFailed;
        }
        if (bytes != 0 || total(pieces, count) == skip) return Attempt::kDone;
        return Attempt::kAgain;
      }
      // Then what was on it goes first.
      if (lane.broken() && !fell_) {
        if (!lane.is_cut()) background::look_at(*lane_);
        if (!lane.is_cut()) return looked ? Attempt::kAgain : Attempt::kLook;
        if (lane.wants_fall_back()) return looked ? Attempt::kBroken : Attempt::kLook;
      }
      // What goes through the kernel could overtake what is still on the lane.
      if (is_coming_down()) return Attempt::kAgain;
    }
    if (shut_later_) return Attempt::kPipe;
    if (!flush_kept(fd)) return Attempt::kAgain;
    if (reset_) return fail_reset(Attempt::kPipe);
    Rest rest(pieces, count, skip, ~0ull);
    bytes = kernel::sendmsg(fd, rest.message(), flags | MSG_DONTWAIT);
    if (bytes < 0) return errno == EAGAIN ? Attempt::kAgain : Attempt::kFailed;
    counters::add(Counter::kBytesSentKernel, static_cast<std::uint64_t>(bytes));
  }
  moved(fd, bytes);
  return Attempt::kDone;
}

}  // namespace viaduct::sovia
