#include "sovia/socket/socket_waiting.h"

#include <errno.h>
#include <sys/time.h>

#include <algorithm>
#include <mutex>

#include "sovia/socket/redirected_receive.h"
#include "sovia/process/libc.h"
#include "sovia/lane/engine.h"
#include "sovia/process/own_descriptors.h"
#include "sovia/process/signals.h"
#include "sovia/lane/waiting.h"

namespace viaduct::sovia {
namespace {

// The events that one thread waits for at one socket.
class SocketCondition final : public WaitCondition {
 public:
  SocketCondition(SocketWaiting& socket, short events, const RedirectedReceive& direct, std::uint32_t routes)
      : socket_(socket), events_(events), direct_(direct), routes_(routes) {}
  // A change of routes is one of what is to be waited for.
  bool ready() override {
    // Bytes that came straight into this thread's buffer are no news to another thread, which finds nothing.
    if (direct_.ready() || socket_.routes() != routes_) return true;
    if (events_ == POLLIN && socket_.known_empty()) return false;
    return socket_.answer(events_, 0) != 0 || socket_.routes() != routes_;
  }
  bool concerns(const Watched& source) const override { return &source == &socket_; }

 private:
  SocketWaiting& socket_;
  const short events_;
  const RedirectedReceive& direct_;
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

void SocketWaiting::room_changed(int fd) {
  if (sends_waiting_.load() == 0) return;
  bool on_lane;
  {
    const std::scoped_lock guard(out_);
    on_lane = sending_ == Phase::kLane;
  }
  // A lane's room is what it is; the kernel has what the program asks for.
  if (on_lane) leave(fd, Reason::kOption);
  routes_changed();
  changed();
}

bool SocketWaiting::keep_for_waiting(int fd) {
  if (waiting_.load() == 0) return false;
  {
    const std::scoped_lock both(in_, out_);
    if (waiting_.load() == 0) return false;
    if (waiters_fd_.load() < 0) {
      const int copy = libc::fcntl(fd, F_DUPFD_CLOEXEC, 0);
      if (copy < 0) return false;
      waiters_fd_.store(own_descriptors::adopt(copy));
    }
  }
  // A thread that is about to sleep on the program's number sleeps on this one.
  routes_changed();
  changed();
  return true;
}

void SocketWaiting::waited() {
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
  libc::close(kept);
  errno = error;
}

// `option`: SO_RCVTIMEO or SO_SNDTIMEO.
void SocketWaiting::begin(int fd, int option, Waiting& waiting) {
  if (waiting.deadline == 0) waiting.deadline = look_up_deadline(fd, option, waiting.has_deadline);
}

void SocketWaiting::begin_waiting(Waiting& waiting) {
  waiting.counted = this;
  waiting_.fetch_add(1);
}

bool SocketWaiting::await(int fd, short events, int option, Waiting& waiting, RedirectedReceive& direct) {
  if (waiting.counted == nullptr) {
    begin_waiting(waiting);
    // It was closed before the call could wait.
    if (descriptors() == 0 && waiters_fd_.load() < 0) {
      errno = EBADF;
      return false;
    }
  }
  fd = current(fd);
  begin(fd, option, waiting);
  const std::uint64_t deadline = waiting.deadline;
  SocketCondition condition(*this, events, direct, waiting.looked_at.value_or(routes()));
  const short ask = ask_kernel(events);
  pollfd kernel_fd{fd, ask, 0};
  // A direction that is on its lane has nothing to hear from the kernel.
  const bool lane_alone = ask == 0;
  // The kernel would tell of the end again and again.
  const bool for_a_moment = awaits_lane_end();
  constexpr std::uint64_t kMomentNs = 1'000'000;
  const bool kernel_too = !lane_alone && !for_a_moment;
  const Count sends(events == POLLOUT ? &sends_waiting_ : nullptr);
  const Woken woken = wait_for(condition, &kernel_fd, kernel_too ? 1 : 0,
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
bool SocketWaiting::awaits_lane_end() {
  const std::scoped_lock guard(in_);
  return early_end_ && !end_counts_ && lane_ != nullptr && receiving_ == Phase::kKernel;
}

bool SocketWaiting::await_moment(int fd, Waiting& waiting) {
  begin(fd, SO_RCVTIMEO, waiting);
  constexpr timespec kMoment{0, 200'000};
  progress();
  return libc::ppoll(nullptr, 0, &kMoment, nullptr) == 0 && !signals::held_back() &&
         now_ns() < waiting.deadline;
}

}  // namespace viaduct::sovia
