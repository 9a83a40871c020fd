// Data over a socket, by whichever route.
#include <errno.h>
#include <string.h>
#include <sys/time.h>

#include <algorithm>
#include <mutex>

#include "sovia/background.h"
#include "sovia/counters.h"
#include "sovia/kernel.h"
#include "sovia/lane_end.h"
#include "sovia/link.h"
#include "sovia/options.h"
#include "sovia/registrations.h"
#include "sovia/residue.h"
#include "sovia/signals.h"
#include "sovia/socket.h"
#include "sovia/waiting.h"

namespace viaduct::sovia {
namespace {

constexpr std::size_t kMostPieces = 1024;  // IOV_MAX

std::size_t total(const iovec* pieces, std::size_t count) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) bytes += pieces[i].iov_len;
  return bytes;
}

// The pieces from `skip` on, at most `limit` bytes of them, for a call to the kernel.
class Rest {
 public:
  Rest(const iovec* pieces, std::size_t count, std::size_t skip, std::uint64_t limit) {
    for (std::size_t i = 0; i < count && used_ < kFew && limit != 0; ++i) {
      if (skip >= pieces[i].iov_len) {
        skip -= pieces[i].iov_len;
        continue;
      }
      const std::size_t here = std::min<std::uint64_t>(pieces[i].iov_len - skip, limit);
      pieces_[used_++] = {static_cast<std::byte*>(pieces[i].iov_base) + skip, here};
      limit -= here;
      skip = 0;
    }
    message_.msg_iov = pieces_;
    message_.msg_iovlen = used_;
  }
  msghdr* message() { return &message_; }
  std::size_t bytes() const { return used_ == 0 ? 0 : pieces_[0].iov_len; }

 private:
  static constexpr std::size_t kFew = 64;
  iovec pieces_[kFew];
  std::size_t used_ = 0;
  msghdr message_{};
};

// What one thread waits for at one socket.
class SocketInterest final : public Interest {
 public:
  SocketInterest(Socket& socket, short events)
      : socket_(socket), events_(events), routes_(socket.routes()) {}
  // A change of routes is one of what is to be waited for.
  bool ready() override {
    return socket_.answer(events_, 0) != 0 || socket_.routes() != routes_;
  }
  bool concerns(const Socket& socket) const override { return &socket == &socket_; }

 private:
  Socket& socket_;
  const short events_;
  const std::uint32_t routes_;
};

// Tells those who wait for the socket that a direction has come down to the kernel, of which they must
// ask more now. To be made before the socket is locked.
class CameDown {
 public:
  explicit CameDown(Socket& socket) : socket_(socket) {}
  ~CameDown() {
    if (!happened) return;
    const int error = errno;
    engine::changed(socket_);
    errno = error;
  }
  bool happened = false;

 private:
  Socket& socket_;
};

}  // namespace

// ---------------------------------------------------------------------------- both

bool Socket::blocks(int fd, int flags) {
  if ((flags & MSG_DONTWAIT) != 0) return false;
  const std::uint32_t known = modes_.load();
  if ((known & (kBlocking | kNonblocking)) != 0) return (known & kBlocking) != 0;
  const bool blocks = (kernel::fcntl(fd, F_GETFL) & O_NONBLOCK) == 0;
  learn(known, blocks ? kBlocking : kNonblocking);
  return blocks;
}

void Socket::learn(std::uint32_t before, std::uint32_t mode) {
  // Another process could change it behind our back.
  if (holders_ == nullptr) modes_.compare_exchange_strong(before, before | mode);
}

void Socket::made(bool nonblocking, bool accepted) {
  modes_.store((nonblocking ? kNonblocking : kBlocking) |
               (accepted ? 0u : kNoReceiveLimit | kNoSendLimit));
}

void Socket::mode_changed() {
  std::uint32_t modes = modes_.load();
  while (!modes_.compare_exchange_weak(modes, (modes / kModeVersion + 1) * kModeVersion)) continue;
  combines_.store(-1, std::memory_order_relaxed);
}

// `option`: SO_RCVTIMEO or SO_SNDTIMEO.
void Socket::begin(int fd, int option, Waiting& waiting) {
  if (waiting.deadline != 0) return;
  const std::uint32_t known = modes_.load();
  const std::uint32_t none = option == SO_RCVTIMEO ? kNoReceiveLimit : kNoSendLimit;
  if ((known & none) != 0) {
    waiting.deadline = kNever;
    return;
  }
  timeval timeout{};
  socklen_t length = sizeof timeout;
  kernel::getsockopt(fd, SOL_SOCKET, option, &timeout, &length);
  waiting.has_deadline = timeout.tv_sec != 0 || timeout.tv_usec != 0;
  const timespec time{timeout.tv_sec, timeout.tv_usec * 1000};
  waiting.deadline = deadline_in(waiting.has_deadline ? &time : nullptr);
  if (!waiting.has_deadline) learn(known, none);
}

// Waits until an attempt is worth while. False with errno if the call is to end.
bool Socket::await(int fd, short events, int option, Waiting& waiting) {
  begin(fd, option, waiting);
  const std::uint64_t deadline = waiting.deadline;
  SocketInterest interest(*this, events);
  const short ask = ask_kernel(events);
  pollfd kernel_fd{fd, ask, 0};
  // A direction that is on its lane has nothing to hear from the kernel.
  const bool lane_alone = ask == 0;
  // The kernel would tell of the end again and again.
  const bool for_a_moment = awaits_lane_end();
  constexpr std::uint64_t kMomentNs = 1'000'000;
  const bool kernel_too = !lane_alone && !for_a_moment;
  switch (wait_for(interest, &kernel_fd, kernel_too ? 1 : 0,
                   for_a_moment ? std::min(deadline, now_ns() + kMomentNs) : deadline,
                   nullptr, !kernel_too)) {
    case Woken::kReady:
    case Woken::kDescriptors:
      // As in the kernel, which does not read past an urgent byte that a signal tells of.
      if (!signals::held_back() || lane_has_data()) return true;
      break;
    case Woken::kTimeout:
      if (for_a_moment && now_ns() < deadline) return true;
      errno = EAGAIN;
      return false;
    case Woken::kSignal:
      break;
  }
  if (signals::run_held_back() && !waiting.has_deadline) return true;
  errno = EINTR;
  return false;
}

// Whether the kernel has told of the end of its stream, and that of the lane is yet to come.
bool Socket::awaits_lane_end() {
  const std::scoped_lock guard(in_);
  return early_end_ && lane_ != nullptr && receiving_ == Phase::kKernel;
}

// A call has moved data through the kernel: is the connection worth a lane by now?
void Socket::moved(int fd, ssize_t bytes) {
  if (bytes <= 0 || stage_ != Stage::kNone || !concerned()) return;
  const std::uint32_t calls = calls_.fetch_add(1, std::memory_order_relaxed) + 1;
  const std::uint64_t all =
      bytes_.fetch_add(static_cast<std::uint64_t>(bytes), std::memory_order_relaxed) +
      static_cast<std::uint64_t>(bytes);
  if (calls_needed_ == 0) {
    if (calls < options().upgrade_after && all < options().upgrade_bytes) return;
  } else if (calls < calls_needed_) {
    return;
  }
  {
    const std::scoped_lock both(in_, out_);
    if (stage_ != Stage::kNone || forbidden_ || reset_) return;
    if (holders_ != nullptr && !sole_holder(*holders_)) {
      calls_.store(0);
      if (reason_.exchange(Reason::kShared) != Reason::kShared) counters::fell(Reason::kShared);
      return;
    }
    if (!read_known_ && !bytes_read(fd, kernel_read_)) {
      forbidden_ = true;
      return;
    }
    read_known_ = true;
    stage_ = Stage::kAsked;
  }
  background::ask(reference(), fd);
}

Socket::Attempt Socket::fail_reset() {
  const bool told = reset_told_;
  reset_told_ = true;
  if (told) return Attempt::kDone;
  errno = ECONNRESET;
  return Attempt::kFailed;
}

// ---------------------------------------------------------------------------- receiving

ssize_t Socket::receive(int fd, const iovec* pieces, std::size_t count, int flags) {
  if (count > kMostPieces) {
    errno = EINVAL;
    return -1;
  }
  const std::size_t wanted = total(pieces, count);
  const bool all = (flags & MSG_WAITALL) != 0;
  const bool peek = (flags & MSG_PEEK) != 0;
  std::size_t done = 0;
  Waiting waiting;
  for (;;) {
    ssize_t bytes = 0;
    // As long as small reads find all that they want, what has come meanwhile can wait.
    const std::size_t left = lane_left_.load(std::memory_order_relaxed);
    const bool looked = left == 0 || left < wanted;
    if (looked) progress();
    const Attempt attempt =
        try_receive(fd, pieces, count, peek ? 0 : done, flags & ~MSG_WAITALL, bytes);
    if (attempt == Attempt::kAgain && !looked) {
      lane_left_.store(0, std::memory_order_relaxed);
      continue;
    }
    if (attempt == Attempt::kFailed) return done != 0 && !peek ? static_cast<ssize_t>(done) : -1;
    if (attempt == Attempt::kDone) {
      if (bytes == 0) return static_cast<ssize_t>(done);
      if (peek) {
        done = static_cast<std::size_t>(bytes);
        if (!all || done >= wanted) return bytes;
        // More may come behind it; what is there does not count as something new.
        if (!blocks(fd, flags) || has_ended(fd)) return bytes;
        if (!await_moment(fd, waiting)) return bytes;
        continue;
      }
      moved(fd, bytes);
      done += static_cast<std::size_t>(bytes);
      if (!all || done >= wanted) return static_cast<ssize_t>(done);
      continue;
    }
    if (!blocks(fd, flags)) {
      if (done != 0) return static_cast<ssize_t>(done);
      errno = EAGAIN;
      return -1;
    }
    if (!await(fd, POLLIN, SO_RCVTIMEO, waiting)) {
      return done != 0 ? static_cast<ssize_t>(done) : -1;
    }
  }
}

// Whether no more will come than is unread.
bool Socket::has_ended(int fd) {
  {
    const std::scoped_lock guard(in_);
    if (lane_ != nullptr && receiving_ != Phase::kAfter) {
      const std::scoped_lock lane_guard(lane_->lane.lock());
      return lane_->lane.broken() ||
             (receiving_ == Phase::kLane && lane_->lane.receiving() == Lane::State::kEnded);
    }
  }
  pollfd kernel_fd{fd, POLLRDHUP, 0};
  return kernel::poll(&kernel_fd, 1, 0) > 0;
}

// A short sleep of a peek that wants more than there is. False if it is to end.
bool Socket::await_moment(int fd, Waiting& waiting) {
  begin(fd, SO_RCVTIMEO, waiting);
  constexpr timespec kMoment{0, 200'000};
  progress();
  return kernel::ppoll(nullptr, 0, &kMoment, nullptr) == 0 && !signals::held_back() &&
         now_ns() < waiting.deadline;
}

// START has come: how much there is to read from the kernel before.
void Socket::settle_receiving(Lane& lane) {
  kernel_left_ = lane.peer_kernel_bytes() - kernel_read_;
  set_receiving(kernel_left_ != 0 ? Phase::kDrain : Phase::kLane);
  SOVIA_LOG("receiving goes up to the lane after %llu more bytes",
            static_cast<unsigned long long>(kernel_left_));
}

Socket::Attempt Socket::try_receive(int fd, const iovec* pieces, std::size_t count,
                                    std::size_t skip, int flags, ssize_t& bytes) {
  const bool peek = (flags & MSG_PEEK) != 0;
  CameDown came_down(*this);
  const std::scoped_lock guard(in_);
  if (residue_ != nullptr) {
    const Attempt attempt = receive_residue(pieces, count, skip, peek, bytes);
    if (attempt != Attempt::kAgain) return attempt;
    came_down.happened = !concerned();
  }
  if (reset_ && (lane_ == nullptr || receiving_ == Phase::kAfter)) return fail_reset();
  if (lane_ == nullptr) {
    return receive_from_kernel(fd, pieces, count, skip, flags, bytes);
  }
  Lane& lane = lane_->lane;
  bool lost = true;
  {
    const std::scoped_lock lane_guard(lane.lock());
    if (receiving_ == Phase::kKernel && lane.receiving() != Lane::State::kIdle &&
        lane.started()) {
      settle_receiving(lane);
    }
    if (receiving_ == Phase::kLane) {
      if (lane.unread() != 0) {
        bytes = static_cast<ssize_t>((flags & MSG_TRUNC) != 0 && !peek
                                         ? lane.discard(total(pieces, count) - skip)
                                         : lane.read(pieces, count, skip, peek));
        lane_left_.store(lane.unread(), std::memory_order_relaxed);
        if (lane.receiving() == Lane::State::kEnded && lane.unread() == 0) background::look_at(*lane_);
        if (lane.wants_turn()) background::flush_later(*lane_);
        counters::add(Counter::kBytesReceivedLane, static_cast<std::uint64_t>(bytes));
        if (bytes == 0 && lane.has_faulted()) {
          errno = EFAULT;
          return Attempt::kFailed;
        }
        return Attempt::kDone;
      }
      if (read_shut_) return Attempt::kDone;
      if (lane.receiving() == Lane::State::kEnded) {
        set_receiving(Phase::kAfter);
        came_down.happened = true;
        background::look_at(*lane_);
      } else if (!lane.broken()) {
        if (lane.holds()) lane.flush();  // the program wants an answer
        if (total(pieces, count) == skip) return Attempt::kDone;
        return Attempt::kAgain;
      }
    }
    if (receiving_ == Phase::kKernel && lane.holds()) lane.flush();
    if (receiving_ == Phase::kAfter || !lane.lost()) lost = false;
  }
  // What the kernel has came before what is lost.
  if (lost && receiving_ != Phase::kLane) {
    const Attempt attempt = receive_from_kernel(fd, pieces, count, skip, flags, bytes);
    if (attempt == Attempt::kDone && bytes > 0) return attempt;
  }
  if (lost) {
    reset(fd);
    return fail_reset();
  }
  return receive_from_kernel(fd, pieces, count, skip, flags, bytes);
}

Socket::Attempt Socket::receive_from_kernel(int fd, const iovec* pieces, std::size_t count,
                                            std::size_t skip, int flags, ssize_t& bytes) {
  const std::uint64_t limit = receiving_ == Phase::kDrain ? kernel_left_ : ~0ull;
  Rest rest(pieces, count, skip, limit);
  bytes = kernel::recvmsg(fd, rest.message(), flags | MSG_DONTWAIT);
  if (bytes < 0) return errno == EAGAIN ? Attempt::kAgain : Attempt::kFailed;
  // The end of the kernel's stream is that of the connection only when that of the lane has come.
  if (bytes == 0 && lane_ != nullptr && receiving_ == Phase::kKernel && rest.bytes() != 0 &&
      !read_shut_) {
    const std::scoped_lock guard(lane_->lane.lock());
    const bool ended = lane_->lane.receiving() == Lane::State::kEnded && !lane_->lane.started();
    if (!ended && !lane_->lane.broken()) {
      early_end_ = true;
      return Attempt::kAgain;
    }
  }
  if (bytes > 0 && (flags & MSG_PEEK) != 0 && receiving_ == Phase::kDrain &&
      static_cast<std::uint64_t>(bytes) == kernel_left_) {
    // What comes next is on the lane.
    const std::scoped_lock guard(lane_->lane.lock());
    bytes += static_cast<ssize_t>(
        lane_->lane.read(pieces, count, skip + static_cast<std::size_t>(bytes), true));
  }
  if (bytes > 0 && (flags & MSG_PEEK) == 0) {
    counters::add(Counter::kBytesReceivedKernel, static_cast<std::uint64_t>(bytes));
    kernel_read_ += static_cast<std::uint64_t>(bytes);
    if (receiving_ == Phase::kDrain) {
      kernel_left_ -= static_cast<std::uint64_t>(bytes);
      if (kernel_left_ == 0) set_receiving(Phase::kLane);
    }
  }
  return Attempt::kDone;
}

// ---------------------------------------------------------------------------- sending

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
  if (direct.sent) await_sent(direct.ticket);
  nic->give_back_memory(direct.memory);
  errno = error;
  return sent;
}

// Until the packet is out of the program's hands. A lane that is lost or left lets go of it too.
void Socket::await_sent(std::uint64_t ticket) {
  class Sent final : public Interest {
   public:
    Sent(Socket& socket, std::uint64_t ticket) : socket_(socket), ticket_(ticket) {}
    bool ready() override {
      const std::scoped_lock guard(socket_.out_);
      if (socket_.lane_ == nullptr) return true;
      Lane& lane = socket_.lane_->lane;
      const std::scoped_lock lane_guard(lane.lock());
      return lane.broken() || lane.has_completed(ticket_);
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
  }
}

ssize_t Socket::send_pieces(int fd, const iovec* pieces, std::size_t count, int flags,
                            Direct* direct) {
  const std::size_t wanted = total(pieces, count);
  std::size_t done = 0;
  Waiting waiting;
  for (;;) {
    ssize_t bytes = 0;
    Attempt attempt = try_send(fd, pieces, count, done, flags, bytes, direct, false);
    if (attempt == Attempt::kLook) {
      progress();
      attempt = try_send(fd, pieces, count, done, flags, bytes, direct, true);
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
      if (done >= wanted) return static_cast<ssize_t>(done);
      if (bytes != 0) continue;
    }
    if (!blocks(fd, flags)) {
      if (done != 0) return static_cast<ssize_t>(done);
      errno = EAGAIN;
      return -1;
    }
    if (!await(fd, POLLOUT, SO_SNDTIMEO, waiting)) {
      return done != 0 ? static_cast<ssize_t>(done) : -1;
    }
  }
}

// The lane is open and nothing speaks against it: this direction begins on it.
bool Socket::go_up(int fd) {
  Lane& lane = lane_->lane;
  std::uint64_t before;
  if (forbidden_ || !lane.may_start() || lane.broken() || lane.sending() != Lane::State::kIdle ||
      lane.peer_closed() || lane.peer_leaves() || !bytes_written(fd, before)) {
    return false;
  }
  lane.start(before);
  if (lane.sending() != Lane::State::kUp) return false;
  set_sending(Phase::kLane);
  counters::add(Counter::kWakeupsSent);
  SOVIA_LOG("%d: sending goes up to the lane after %llu bytes", fd,
            static_cast<unsigned long long>(before));
  return true;
}

Socket::Attempt Socket::try_send(int fd, const iovec* pieces, std::size_t count, std::size_t skip,
                                 int flags, ssize_t& bytes, Direct* direct, bool looked) {
  {
    CameDown came_down(*this);
    const std::scoped_lock guard(out_);
    if (reset_) return Attempt::kPipe;
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
          if (!looked) return Attempt::kLook;
          reset(fd);
          return Attempt::kPipe;
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
        const bool wait = combines != 0 || (flags & MSG_MORE) != 0;
        bytes = static_cast<ssize_t>(lane.write(pieces, count, skip, wait));
        if (lane.holds() || lane.awaits_completion()) background::flush_later(*lane_);
        counters::add(Counter::kBytesSentLane, static_cast<std::uint64_t>(bytes));
        if (bytes == 0 && lane.has_faulted()) {
          errno = EFAULT;
          return Attempt::kFailed;
        }
        if (bytes != 0 || total(pieces, count) == skip) return Attempt::kDone;
        return Attempt::kAgain;
      }
      // What goes through the kernel could overtake what is still on the lane.
      if (is_coming_down()) return Attempt::kAgain;
    }
    Rest rest(pieces, count, skip, ~0ull);
    bytes = kernel::sendmsg(fd, rest.message(), flags | MSG_DONTWAIT);
    if (bytes < 0) return errno == EAGAIN ? Attempt::kAgain : Attempt::kFailed;
    counters::add(Counter::kBytesSentKernel, static_cast<std::uint64_t>(bytes));
  }
  moved(fd, bytes);
  return Attempt::kDone;
}

}  // namespace viaduct::sovia
