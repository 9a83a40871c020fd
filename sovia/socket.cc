#include "sovia/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

#include <new>

#include "sovia/background.h"
#include "sovia/counters.h"
#include "sovia/kernel.h"
#include "sovia/lane_end.h"
#include "sovia/options.h"
#include "sovia/residue.h"
#include "sovia/socket_pool.h"
#include "sovia/waiting.h"

namespace viaduct::sovia {
namespace {

constexpr short kIn = POLLIN | POLLRDNORM;
constexpr short kOut = POLLOUT | POLLWRNORM;
constexpr long kLeaveSendingMs = 1000;  // for the peer to take in what is on the lane
constexpr std::uint64_t kLeaveMs = 2000;  // for the peer to leave the lane
constexpr std::uint32_t kCallsAgain = 64;  // before the second try for a lane, doubled each time
constexpr std::uint32_t kMostCallsAgain = 1u << 20;

// What leave() waits for.
class LaneOver final : public Interest {
 public:
  LaneOver(Socket& socket, Lane& lane, bool both) : socket_(socket), lane_(lane), both_(both) {}
  bool ready() override {
    const std::scoped_lock guard(lane_.lock());
    lane_.turn();
    if (both_) lane_.set_aside();
    if (lane_.broken()) return true;
    return both_ ? lane_.over() : lane_.sending() == Lane::State::kEnded;
  }
  bool concerns(const Socket& socket) const override { return &socket == &socket_; }

 private:
  Socket& socket_;
  Lane& lane_;
  const bool both_;
};

// From the kernel, which has them or gets them soon: how many have come in time.
std::size_t receive_all(int fd, std::byte* to, std::size_t bytes) {
  const std::uint64_t deadline = now_ns() + kLeaveMs * 1'000'000;
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t got = kernel::recv(fd, to + done, bytes - done, MSG_DONTWAIT);
    if (got > 0) {
      done += static_cast<std::size_t>(got);
      continue;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR) || now_ns() >= deadline) break;
    pollfd one{fd, POLLIN, 0};
    kernel::poll(&one, 1, 10);
  }
  return done;
}

template <class T>
void renew(T& object) {
  new (&object) T;
}

}  // namespace

// ---------------------------------------------------------------------------- references

SocketRef Socket::reference() {
  references_.fetch_add(1, std::memory_order_relaxed);
  return SocketRef(this);
}

SocketRef& SocketRef::operator=(SocketRef&& other) noexcept {
  if (this != &other) {
    reset();
    socket_ = other.socket_;
    other.socket_ = nullptr;
  }
  return *this;
}

void SocketRef::reset() {
  Socket* const socket = socket_;
  socket_ = nullptr;
  if (socket == nullptr) return;
  if (socket->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) SocketPool::give_back(socket);
}

// ---------------------------------------------------------------------------- readiness

void Socket::set_receiving(Phase phase) {
  receiving_ = phase;
  routes_.fetch_add(1, std::memory_order_release);
}

void Socket::set_sending(Phase phase) {
  sending_ = phase;
  routes_.fetch_add(1, std::memory_order_release);
}

short Socket::ask_kernel(short wanted) {
  if (!concerned() && residue_ == nullptr) return wanted;
  short ask = wanted;
  {
    const std::scoped_lock guard(in_);
    if (receiving_ == Phase::kLane) {
      ask = static_cast<short>(ask & ~(kIn | POLLRDHUP));
    } else if (receiving_ == Phase::kKernel && lane_ != nullptr && (ask & kIn) != 0) {
      ask |= POLLRDHUP;  // so that answer() can tell the end from data
    }
  }
  const std::scoped_lock guard(out_);
  bool masked = sending_ == Phase::kLane || reset_;
  if (lane_ != nullptr && !masked) {
    const std::scoped_lock lane_guard(lane_->lane.lock());
    masked = is_coming_down();
  }
  if (masked) ask = static_cast<short>(ask & ~kOut);
  return ask;
}

// Whether the peer has yet to say that it has seen the end of this direction's lane. With the lane
// locked.
bool Socket::is_coming_down() {
  const Lane& lane = lane_->lane;
  return !write_shut_ && sending_ == Phase::kAfter && lane.sending() == Lane::State::kEnding && !lane.broken() &&
         !lane.peer_closed();
}

bool Socket::kernel_knows_all() {
  if (kernel_alone()) return true;
  {
    const std::scoped_lock guard(in_);
    if (reset_ || residue_ != nullptr) return false;
    // Even before it has begun the lane decides when the end of the connection is told.
    if (lane_ != nullptr && receiving_ != Phase::kAfter) return false;
  }
  const std::scoped_lock guard(out_);
  if (lane_ == nullptr) return true;
  const std::scoped_lock lane_guard(lane_->lane.lock());
  return sending_ != Phase::kLane && !is_coming_down();
}

short Socket::answer(short wanted, short kernel_says) {
  if (!concerned() && residue_ == nullptr) return kernel_says;
  short says = kernel_says;
  {
    const std::scoped_lock guard(in_);
    if (reset_) {
      return static_cast<short>((kIn | kOut | POLLERR | POLLHUP | POLLRDHUP) &
                                (wanted | POLLERR | POLLHUP));
    }
    if (residue_ != nullptr && residue_->left() != 0) says |= kIn;
    if (lane_ != nullptr) {
      Lane& lane = lane_->lane;
      const std::scoped_lock lane_guard(lane.lock());
      if (lane.wants_turn()) lane.turn();
      const bool ended = lane.receiving() == Lane::State::kEnded;
      if (receiving_ == Phase::kKernel && lane.started()) settle_receiving(lane);
      if (receiving_ == Phase::kLane && lane.unread() == 0 && ended) {
        set_receiving(Phase::kAfter);
        background::look_at(*lane_);
      }
      if (receiving_ == Phase::kLane) {
        says = static_cast<short>(says & ~(kIn | POLLRDHUP | POLLHUP | POLLERR));
        if (lane.unread() != 0 || lane.broken() || read_shut_) says |= kIn;
        if (read_shut_) says |= POLLRDHUP;
      } else if (receiving_ == Phase::kDrain) {
        says = static_cast<short>(says & ~(POLLRDHUP | POLLHUP | POLLERR));
      }
      if (lane.lost() && receiving_ != Phase::kAfter) says |= kIn | POLLERR | POLLHUP;
      if (receiving_ == Phase::kKernel && !lane.started() && !ended && !lane.broken() &&
          !read_shut_) {
        // The end of the connection is told when that of the lane has come.
        if (early_end_ || (says & POLLRDHUP) != 0) says = static_cast<short>(says & ~kIn);
        says = static_cast<short>(says & ~(POLLRDHUP | POLLHUP));
      }
      if ((wanted & kIn) != 0 && (says & kIn) == 0 && lane.holds()) lane.flush();
    }
  }
  if ((wanted & kOut) != 0) {
    const std::scoped_lock guard(out_);
    if (lane_ != nullptr && sending_ != Phase::kKernel) {
      Lane& lane = lane_->lane;
      const std::scoped_lock lane_guard(lane.lock());
      if (sending_ == Phase::kLane || is_coming_down()) says = static_cast<short>(says & ~kOut);
      if (sending_ == Phase::kLane && lane.awaits_completion()) background::flush_later(*lane_);
      if (sending_ != Phase::kLane) {
        // The kernel says whether there is room, when the lane is done with.
      } else if (lane.has_room() || lane.broken() || lane.peer_closed() ||
          lane.sending() != Lane::State::kUp) {
        says |= kOut;
      }
    }
  }
  // The kernel may have been asked while the lane had the direction; with TCP one means the others.
  if ((says & POLLHUP) != 0 && lane_number_.load() != 0) says |= kIn | kOut | POLLRDHUP;
  return static_cast<short>(says & (wanted | POLLERR | POLLHUP | POLLNVAL));
}

int Socket::unread(int kernel_bytes) {
  const std::scoped_lock guard(in_);
  std::uint64_t bytes = residue_ != nullptr ? residue_->left() : 0;
  if (lane_ != nullptr) {
    Lane& lane = lane_->lane;
    const std::scoped_lock lane_guard(lane.lock());
    if (receiving_ == Phase::kLane || receiving_ == Phase::kAfter) {
      bytes += lane.unread();
      if (lane.receiving() != Lane::State::kEnded) kernel_bytes = 0;
    } else if (receiving_ == Phase::kDrain &&
               static_cast<std::uint64_t>(kernel_bytes) >= kernel_left_) {
      bytes += lane.unread();
    } else if (receiving_ == Phase::kKernel && kernel_bytes == 0) {
      bytes += lane.unread();
    }
  }
  return static_cast<int>(bytes + static_cast<std::uint64_t>(kernel_bytes));
}

int Socket::unsent(int kernel_bytes) {
  const std::scoped_lock guard(out_);
  if (lane_ == nullptr) return kernel_bytes;
  const std::scoped_lock lane_guard(lane_->lane.lock());
  return kernel_bytes + static_cast<int>(lane_->lane.unsent());
}

bool Socket::lane_has_data() {
  const std::scoped_lock guard(in_);
  if (residue_ != nullptr && residue_->left() != 0) return true;
  if (lane_ == nullptr) return false;
  const std::scoped_lock lane_guard(lane_->lane.lock());
  return lane_->lane.unread() != 0;
}

int Socket::look_up_combining(int fd) {
  int nodelay = 0;
  socklen_t length = sizeof nodelay;
  kernel::getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &nodelay, &length);
  const int combines = options().combine != 0 && nodelay == 0 ? 1 : 0;
  combines_.store(combines, std::memory_order_relaxed);
  return combines;
}

// ---------------------------------------------------------------------------- leaving

void Socket::forbid(Reason why) {
  {
    const std::scoped_lock both(in_, out_);
    forbidden_ = true;
    reason_.store(why);
    if (stage_ == Stage::kNone && residue_ == nullptr) {
      lane_wanted_.store(false, std::memory_order_release);
    }
  }
  counters::fell(why);
  if (!concerned()) engine::changed(*this);
}

void Socket::listens() {
  lane_wanted_.store(false, std::memory_order_release);
  engine::changed(*this);
}

void Socket::leave_sending(int, Reason why) {
  LaneEnd* end;
  {
    const std::scoped_lock both(in_, out_);
    forbidden_ = true;
    end = lane_;
    if (end == nullptr) return;
    const std::scoped_lock lane_guard(end->lane.lock());
    if (sending_ == Phase::kLane) counters::fell(why);
    end->lane.finish(false);
    set_sending(Phase::kAfter);
    if (end->lane.sending() == Lane::State::kEnded) return;
    ++end->pins;
  }
  // What the kernel sends next is not to overtake what is on the lane.
  LaneOver over(*this, end->lane, false);
  wait_for(over, nullptr, 0, deadline_in_ms(kLeaveSendingMs), nullptr, true);
  --end->pins;
}

bool Socket::leave(int fd, Reason why) {
  if (!concerned()) return true;
  bool asked;
  {
    const std::scoped_lock both(in_, out_);
    asked = stage_ == Stage::kAsked;
  }
  if (asked && background::cancel(*this)) lane_refused(why);
  LaneEnd* end;
  {
    const std::scoped_lock both(in_, out_);
    end = lane_;
    if (end == nullptr) return true;
    ++end->pins;
    const std::scoped_lock lane_guard(end->lane.lock());
    end->lane.finish(false);
    end->lane.ask_to_leave();
    set_sending(Phase::kAfter);
  }
  counters::fell(why);
  SOVIA_LOG("%d: leaves the lane: %s", fd, text_of(why));
  LaneOver over(*this, end->lane, true);
  const bool in_time =
      wait_for(over, nullptr, 0, now_ns() + kLeaveMs * 1'000'000, nullptr, true) == Woken::kReady;
  bool good;
  {
    const std::scoped_lock both(in_, out_);
    const std::scoped_lock lane_guard(end->lane.lock());
    if (receiving_ == Phase::kKernel && end->lane.started()) settle_receiving(end->lane);
    good = in_time && !end->lane.lost();
    if (!good) reset(fd);
    background::look_at(*end);
    --end->pins;
  }
  return good;
}

bool Socket::leave_for_good(int fd, Reason why) {
  for_good_.store(true);
  const bool left = leave(fd, why);
  forbid(why);
  return left;
}

int Socket::shutdown(int fd, int how) {
  {
    const std::scoped_lock both(in_, out_);
    if (how == SHUT_RD || how == SHUT_RDWR) read_shut_ = true;
    if (how == SHUT_WR || how == SHUT_RDWR) {
      forbidden_ = write_shut_ = true;
      if (lane_ != nullptr) {
        const std::scoped_lock lane_guard(lane_->lane.lock());
        lane_->lane.finish(false);
        set_sending(Phase::kAfter);
        background::look_at(*lane_);
      }
    }
  }
  const int result = kernel::shutdown(fd, how);
  const int error = errno;
  engine::changed(*this);
  errno = error;
  return result;
}

// Both ends lose the connection: bytes of it may be lost. In and out locked.
void Socket::reset(int fd) {
  if (reset_.exchange(true)) return;
  counters::fell(Reason::kLost);
  SOVIA_LOG("%d: the lane is lost, the connection is reset", fd);
  sockaddr unspecified{};
  unspecified.sa_family = AF_UNSPEC;
  const int error = errno;
  kernel::connect(fd, &unspecified, sizeof unspecified);
  errno = error;
}

void Socket::release(int fd) {
  for_good_.store(true);
  depart();
  bool asked;
  {
    const std::scoped_lock both(in_, out_);
    forbidden_ = true;
    asked = stage_ == Stage::kAsked;
  }
  if (asked && background::cancel(*this)) lane_refused(Reason::kEnd);
  LaneEnd* end;
  linger linger{};
  {
    const std::scoped_lock both(in_, out_);
    if (residue_ != nullptr) free_residue(residue_);
    residue_ = nullptr;
    end = lane_;
    if (end == nullptr) return;
    socklen_t length = sizeof linger;
    kernel::getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &length);
    const std::scoped_lock lane_guard(end->lane.lock());
    // TCP resets a connection that is closed before all was read.
    if (end->lane.unread() != 0 && receiving_ != Phase::kKernel) {
      const struct linger now = {1, 0};
      kernel::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    end->lane.deafen();
    end->lane.finish(true);
    set_sending(Phase::kAfter);
    set_receiving(Phase::kAfter);
    background::look_at(*end);
    if (linger.l_onoff == 0 || linger.l_linger <= 0 || !blocks(fd, 0)) return;
    ++end->pins;
  }
  {
    LaneOver over(*this, end->lane, false);
    wait_for(over, nullptr, 0, deadline_in_ms(linger.l_linger * 1000L), nullptr, true);
  }
  const std::scoped_lock both(in_, out_);
  background::look_at(*end);
  --end->pins;
}

// ---------------------------------------------------------------------------- fork

// What is unread and can be read by this process alone moves to shared memory: the rest of what was
// moved before, then what the kernel has yet to give before the lane's, then the lane's. In and out
// locked.
void Socket::gather_unread(int fd) {
  if (lane_ == nullptr || reset_) return;
  Lane& lane = lane_->lane;
  std::size_t bytes;
  {
    const std::scoped_lock lane_guard(lane.lock());
    bytes = lane.unread();
  }
  if (bytes == 0) return;
  const std::size_t rest = residue_ != nullptr ? residue_->left() : 0;
  const std::size_t before = receiving_ == Phase::kDrain ? kernel_left_ : 0;
  Residue* const residue = make_residue(rest + before + bytes);
  std::size_t at = 0;
  if (residue != nullptr) {
    const iovec first{residue->data(), rest};
    if (rest != 0) at = read_residue(*residue_, &first, 1, 0, false);
    const std::size_t got = receive_all(fd, residue->data() + at, before);
    at += got;
    kernel_read_ += got;
    if (got == before) {
      const std::scoped_lock lane_guard(lane.lock());
      const iovec all{residue->data() + at, bytes};
      const std::size_t read = lane.read(&all, 1, 0, false);
      if (read != bytes) reset(fd);
      at += read;
      kernel_left_ = 0;
    } else {
      reset(fd);
    }
    residue->bytes = at;
    counters::add(Counter::kResidueBytes, at);
    if (residue_ != nullptr) free_residue(residue_);
    residue_ = residue;
  } else {
    reset(fd);
  }
  // A process that went on without these bytes would take what follows for them.
  if (reset_) {
    const std::scoped_lock lane_guard(lane.lock());
    lane.discard(lane.unread());
  }
  set_receiving(Phase::kAfter);
  background::look_at(*lane_);
}

void Socket::share(int fd) {
  const std::scoped_lock both(in_, out_);
  gather_unread(fd);
  if (lane_ != nullptr) background::look_at(*lane_);
  read_known_ = false;  // from now on others may read too
  if (holders_ == nullptr) {
    holders_ = make_holders();
    if (holders_ != nullptr) holders_->lanes.store(lane_number_.load());
  }
  if (holders_ != nullptr) holders_->count.fetch_add(1);
  nonblocking_.store(-1, std::memory_order_relaxed);
}

void Socket::fork_failed() {
  const std::scoped_lock both(in_, out_);
  if (holders_ != nullptr) holders_->count.fetch_sub(1);
}

int Socket::bequeath(int fd) {
  const std::scoped_lock both(in_, out_);
  gather_unread(fd);
  if (residue_ == nullptr || residue_->left() == 0) return -1;
  const int file = file_of(residue_);
  if (file < 0) reset(fd);
  struct stat about;
  if (file >= 0 && fstat(fd, &about) == 0) residue_->socket = about.st_ino;
  return file;
}

void Socket::inherit(Residue* residue, Reason why) {
  const std::scoped_lock both(in_, out_);
  residue_ = residue;
  forbidden_ = true;
  for_good_.store(true);
  reason_.store(why);
  read_known_ = false;
}

void Socket::inherit_loss(int fd) {
  const std::scoped_lock both(in_, out_);
  forbidden_ = true;
  reset(fd);
}

void Socket::depart() {
  const std::scoped_lock both(in_, out_);
  if (departed_ || holders_ == nullptr) return;
  departed_ = true;
  holders_->count.fetch_sub(1);
}

void Socket::stay() {
  const std::scoped_lock both(in_, out_);
  if (!departed_) return;
  departed_ = false;
  holders_->count.fetch_add(1);
}

void Socket::after_fork_in_child() {
  renew(in_);
  renew(out_);
  // The end is the parent's thread's to free; here it is only memory that is never looked at again.
  if (lane_ != nullptr && receiving_ == Phase::kKernel && sending_ == Phase::kKernel) {
    // leave() has not been called, or failed.
    reset_ = true;
  }
  lane_ = nullptr;
  set_receiving(Phase::kKernel);
  set_sending(Phase::kKernel);
  stage_ = Stage::kNone;
  calls_.store(0);
  bytes_.store(0);
}

// ---------------------------------------------------------------------------- the lane's life

bool Socket::lane_opened(LaneEnd& end) {
  const std::scoped_lock both(in_, out_);
  if (stage_ != Stage::kAsked || for_good_.load() || reset_) return false;
  // A fork may have come between the decision to ask and the task.
  if (holders_ != nullptr && !sole_holder(*holders_)) {
    stage_ = Stage::kNone;
    return false;
  }
  stage_ = Stage::kOpen;
  lane_ = &end;
  set_receiving(Phase::kKernel);
  set_sending(Phase::kKernel);
  if (write_shut_) {
    // It happened while the lane was asked for; the peer waits for both ends of the stream.
    const std::scoped_lock lane_guard(end.lane.lock());
    end.lane.finish(false);
    set_sending(Phase::kAfter);
  }
  reason_.store(Reason::kNone);
  lane_number_.fetch_add(1);
  if (holders_ != nullptr) holders_->lanes.store(lane_number_.load());
  return true;
}

std::uint32_t Socket::lane_number() {
  const std::scoped_lock guard(in_);
  if (holders_ != nullptr) lane_number_.store(holders_->lanes.load());
  return lane_number_.load();
}

void Socket::lane_refused(Reason why) {
  counters::fell(why);
  {
    const std::scoped_lock both(in_, out_);
    if (stage_ == Stage::kOpen) return;  // it opened while it was being cancelled
    stage_ = Stage::kNone;
    reason_.store(why);
    calls_.store(0);
    bytes_.store(0);
    calls_needed_ = calls_needed_ == 0 ? kCallsAgain
                    : calls_needed_ < kMostCallsAgain ? calls_needed_ * 2 : calls_needed_;
    const bool never = why == Reason::kLocal || why == Reason::kOffLink || why == Reason::kOff ||
                       why == Reason::kOtherNic || why == Reason::kStandardStream ||
                       why == Reason::kPassed;
    if ((never || forbidden_) && residue_ == nullptr) {
      lane_wanted_.store(false, std::memory_order_release);
    }
  }
  if (!concerned()) engine::changed(*this);
}

bool Socket::lane_over(LaneEnd& end) {
  const std::scoped_lock both(in_, out_);
  if (lane_ != &end) return true;
  if (end.pins != 0) return false;  // whoever looks at it has it looked at again
  {
    const std::scoped_lock lane_guard(end.lane.lock());
    if (!end.lane.over()) return false;
    const bool lost = end.lane.lost();
    // A program that has not seen the end of it yet has to.
    if (lost && !for_good_.load()) return false;
    if (end.lane.unread() != 0) return false;
    if (end.lane.started() && receiving_ != Phase::kAfter) return false;
  }
  early_end_ = false;
  lane_ = nullptr;
  stage_ = Stage::kNone;
  set_receiving(Phase::kKernel);
  set_sending(Phase::kKernel);
  calls_.store(0);
  bytes_.store(0);
  calls_needed_ = calls_needed_ == 0 ? kCallsAgain : calls_needed_ * 2;
  if (forbidden_ && residue_ == nullptr) lane_wanted_.store(false, std::memory_order_release);
  return true;
}

void Socket::finish_lane() {
  const std::scoped_lock both(in_, out_);
  if (lane_ == nullptr) return;
  const std::scoped_lock lane_guard(lane_->lane.lock());
  lane_->lane.deafen();
  lane_->lane.finish(true);
}

Socket::Attempt Socket::receive_residue(const iovec* pieces, std::size_t count, std::size_t skip,
                                        bool peek, ssize_t& bytes) {
  bytes = static_cast<ssize_t>(read_residue(*residue_, pieces, count, skip, peek));
  if (bytes != 0) return Attempt::kDone;
  if (residue_->left() != 0) return Attempt::kDone;  // nothing was asked for
  free_residue(residue_);
  residue_ = nullptr;
  if (forbidden_ && stage_ == Stage::kNone) lane_wanted_.store(false, std::memory_order_release);
  return Attempt::kAgain;
}

// ---------------------------------------------------------------------------- events of the wire

void LaneEnd::arrived(const Nic::Arrival& arrival) {
  unsigned changes;
  bool news;  // that there is room
  {
    const std::scoped_lock guard(lane.lock());
    changes = arrival.lost ? lane.cut()
                           : lane.arrived(arrival.place, arrival.bytes, arrival.immediate);
    if (lane.wants_turn()) background::flush_later(*this);
    news = (changes & Lane::kWritable) != 0 && lane.take_lack();
  }
  if ((changes & Lane::kState) != 0) background::look_at(*this);
  if (changes == 0) return;
  short what = kAnyChange;
  if ((changes & Lane::kState) == 0) {
    what = 0;
    if ((changes & Lane::kReadable) != 0) what |= POLLIN;
    if (news) what |= POLLOUT;
  }
  engine::changed(*socket, what);
}

}  // namespace viaduct::sovia
