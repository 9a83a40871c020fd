// What sending and receiving over a socket share: its modes, waiting, and when it is worth a lane.
#include <errno.h>
#include <sys/time.h>

#include <algorithm>
#include <mutex>

#include "sovia/background/background.h"
#include "sovia/process/counters.h"
#include "sovia/socket/direct_receive.h"
#include "sovia/process/libc.h"
#include "sovia/socket/lane_endpoint.h"
#include "sovia/lane/tcp_route.h"
#include "sovia/process/options.h"
#include "sovia/process/own_descriptors.h"
#include "sovia/socket/inherited_bytes.h"
#include "sovia/process/signals.h"
#include "sovia/socket/socket.h"
#include "sovia/lane/waiting.h"

namespace viaduct::sovia {
namespace {

// What one thread waits for at one socket.
class SocketInterest final : public Interest {
 public:
  SocketInterest(Socket& socket, short events, const DirectReceive& direct)
      : socket_(socket), events_(events), direct_(direct), routes_(socket.routes()) {}
  // A change of routes is one of what is to be waited for.
  bool ready() override {
    // What came straight into this thread's buffer is no news to another one that finds nothing.
    if (direct_.ready() || socket_.routes() != routes_) return true;
    if (events_ == POLLIN && socket_.is_quiet()) return false;
    return socket_.answer(events_, 0) != 0 || socket_.routes() != routes_;
  }
  bool concerns(const Socket& socket) const override { return &socket == &socket_; }

 private:
  Socket& socket_;
  const short events_;
  const DirectReceive& direct_;
  const std::uint32_t routes_;
};

class Count {
 public:
  explicit Count(std::atomic<int>* count) : count_(count) {
    if (count_ != nullptr) ++*count_;
  }
  ~Count() {
    if (count_ != nullptr) --*count_;
  }
  Count(const Count&) = delete;
  Count& operator=(const Count&) = delete;

 private:
  std::atomic<int>* const count_;
};

}  // namespace

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
  const auto next = [](std::uint32_t before) {
    return (before / kModeVersion + 1) * kModeVersion | (before & (kReceivesAtOnce | kSendsAtOnce));
  };
  while (!modes_.compare_exchange_weak(modes, next(modes))) continue;
  combines_.store(kNotKnown, std::memory_order_relaxed);
}

void Socket::set_waits_not(bool receiving, bool not_at_all) {
  const std::uint32_t mode = receiving ? kReceivesAtOnce : kSendsAtOnce;
  if (not_at_all) {
    modes_.fetch_or(mode);
  } else {
    modes_.fetch_and(~mode);
  }
}

void Socket::want_control(unsigned bit, bool on) {
  const unsigned before = control_wanted_.load();
  // A socket has one kind of time.
  const unsigned others = bit == kControlUnread ? before : before & kControlUnread;
  control_wanted_.store(on ? others | bit : before & ~bit);
}

void Socket::room_changed(int fd) {
  if (sends_waiting_.load() == 0) return;
  bool on_lane;
  {
    const std::scoped_lock guard(out_);
    on_lane = sending_ == Phase::kLane;
  }
  // A lane's room is what it is; the kernel has what the program asks for.
  if (on_lane) leave(fd, Reason::kOption);
  routes_changed();
  engine::changed(*this);
}

// ---------------------------------------------------------------------------- closed meanwhile

bool Socket::keep_for_waiting(int fd) {
  if (waiting_.load() == 0) return false;
  {
    const std::scoped_lock both(in_, out_);
    if (waiting_.load() == 0) return false;
    if (waiters_fd_.load() < 0) {
      const int copy = kernel::fcntl(fd, F_DUPFD_CLOEXEC, 0);
      if (copy < 0) return false;
      waiters_fd_.store(own_descriptors::adopt(copy));
    }
  }
  // Who is about to sleep on the program's number sleeps on this one.
  routes_changed();
  engine::changed(*this);
  return true;
}

void Socket::waited() {
  if (waiting_.fetch_sub(1) != 1 || waiters_fd_.load() < 0) return;
  int kept;
  {
    const std::scoped_lock both(in_, out_);
    if (waiting_.load() != 0) return;
    kept = waiters_fd_.exchange(-1);
  }
  if (kept < 0) return;
  const int error = errno;
  if (descriptors() == 0) release(kept);
  own_descriptors::release(kept);
  kernel::close(kept);
  errno = error;
}

// `option`: SO_RCVTIMEO or SO_SNDTIMEO.
void Socket::begin(int fd, int option, Waiting& waiting) {
  if (waiting.deadline != 0) return;
  const std::uint32_t known = modes_.load();
  if ((known & (option == SO_RCVTIMEO ? kReceivesAtOnce : kSendsAtOnce)) != 0) {
    waiting.has_deadline = true;
    waiting.deadline = 1;
    return;
  }
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
// `direct` has ended then.
bool Socket::await(int fd, short events, int option, Waiting& waiting, DirectReceive& direct) {
  if (waiting.counted == nullptr) {
    waiting.counted = this;
    waiting_.fetch_add(1);
    // It was closed before the call could wait.
    if (descriptors() == 0 && waiters_fd_.load() < 0) {
      errno = EBADF;
      return false;
    }
  }
  fd = current(fd);
  begin(fd, option, waiting);
  const std::uint64_t deadline = waiting.deadline;
  SocketInterest interest(*this, events, direct);
  const short ask = ask_kernel(events);
  pollfd kernel_fd{fd, ask, 0};
  // A direction that is on its lane has nothing to hear from the kernel.
  const bool lane_alone = ask == 0;
  // The kernel would tell of the end again and again.
  const bool for_a_moment = awaits_lane_end();
  constexpr std::uint64_t kMomentNs = 1'000'000;
  const bool kernel_too = !lane_alone && !for_a_moment;
  const Count sends(events == POLLOUT ? &sends_waiting_ : nullptr);
  const Woken woken = wait_for(interest, &kernel_fd, kernel_too ? 1 : 0,
                               for_a_moment ? std::min(deadline, now_ns() + kMomentNs) : deadline,
                               nullptr, !kernel_too);
  direct.end();
  switch (woken) {
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
  // A handler may leave the call for good, or close the socket, of which the call is to hear.
  waiting.end();
  if (signals::run_held_back() && !waiting.has_deadline) return true;
  errno = EINTR;
  return false;
}

// Whether the kernel has told of the end of its stream, and that of the lane is yet to come.
bool Socket::awaits_lane_end() {
  const std::scoped_lock guard(in_);
  return early_end_ && !end_counts_ && lane_ != nullptr && receiving_ == Phase::kKernel;
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
    // Such a receive, of another thread or interrupted by a handler, would not hear of a lane.
    if (undisturbed_.load(std::memory_order_relaxed) != 0) return;
    if (stage_ != Stage::kNone || forbidden_ || reset_ || residue_ != nullptr || kept_ != nullptr) return;
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

Socket::Attempt Socket::fail_reset(Attempt once_told) {
  if (reset_told_.exchange(true)) return once_told;
  errno = ECONNRESET;
  return Attempt::kFailed;
}

}  // namespace viaduct::sovia
