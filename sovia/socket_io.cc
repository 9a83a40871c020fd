// What sending and receiving over a socket share: its modes, waiting, and when it is worth a lane.
#include <errno.h>
#include <sys/time.h>

#include <algorithm>
#include <mutex>

#include "sovia/background.h"
#include "sovia/counters.h"
#include "sovia/direct_receive.h"
#include "sovia/kernel.h"
#include "sovia/lane_end.h"
#include "sovia/link.h"
#include "sovia/options.h"
#include "sovia/residue.h"
#include "sovia/signals.h"
#include "sovia/socket.h"
#include "sovia/waiting.h"

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
// `direct` has ended then.
bool Socket::await(int fd, short events, int option, Waiting& waiting, DirectReceive& direct) {
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
  // The receive that a handler has interrupted would not hear of a lane.
  if (undisturbed_.load(std::memory_order_relaxed)) return;
  {
    const std::scoped_lock both(in_, out_);
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
