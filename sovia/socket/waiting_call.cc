#include "sovia/socket/waiting_call.h"

#include <errno.h>
#include <sys/time.h>

#include <algorithm>

#include "sovia/lane/engine.h"
#include "sovia/lane/waiting.h"
#include "sovia/process/libc.h"
#include "sovia/process/own_descriptors.h"
#include "sovia/process/signals.h"
#include "sovia/socket/held_sends.h"
#include "sovia/socket/redirected_receive.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {
namespace {

// The events that one thread waits for at one socket.
class SocketCondition final : public WaitCondition {
 public:
  SocketCondition(Socket& socket, short events, const RedirectedReceive* direct, std::uint32_t routes)
      : socket_(socket), events_(events), direct_(direct), routes_(routes) {}
  // A change of routes ends the wait, too.
  bool ready() override {
    // Bytes that came straight to this thread's buffer don't show in the socket's state, as other threads find nothing
    // there.
    if ((direct_ != nullptr && direct_->ready()) || socket_.routes() != routes_) return true;
    if (events_ == POLLIN && socket_.rx.known_empty()) return false;
    return socket_.answer(events_, 0) != 0 || socket_.routes() != routes_;
  }
  bool concerns(const Watched& source) const override { return &source == &socket_; }

 private:
  Socket& socket_;
  const short events_;
  const RedirectedReceive* const direct_;
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

// A call that waited has ended. The last one at a closed socket releases the socket.
void waited(Socket& socket) {
  if (socket.waiters.calls.fetch_sub(1) != 1 || socket.waiters.fd.load() < 0) return;
  int kept;
  {
    const StreamsGuard both(socket);
    if (socket.waiters.calls.load() != 0) return;
    kept = socket.waiters.fd.exchange(-1);
  }
  if (kept < 0) return;
  const int error = errno;
  if (socket.descriptors() == 0) socket.release(kept);
  own_descriptors::close(kept);
  errno = error;
}

// Whether the kernel has told of the end of its stream, and the lane's end is yet to come.
bool awaits_lane_end(Socket& socket) {
  const RxGuard guard(socket);
  return socket.rx.early_end && !socket.rx.end_counts && socket.link.end != nullptr && !socket.rx.on_lane;
}

}  // namespace

void room_changed(Socket& socket, int fd) {
  if (socket.waiters.sends.load() == 0) return;
  bool on_lane;
  {
    const TxGuard guard(socket);
    on_lane = socket.tx.route == TxRoute::kLane;
  }
  // A lane's room is fixed. The kernel's follows the option, so the lane is left.
  if (on_lane) socket.leave(fd, Reason::kOption);
  socket.routes_changed();
  socket.changed();
}

bool keep_for_waiting(Socket& socket, int fd) {
  if (socket.waiters.calls.load() == 0) return false;
  {
    const StreamsGuard both(socket);
    if (socket.waiters.calls.load() == 0) return false;
    if (socket.waiters.fd.load() < 0) {
      const int copy = libc::fcntl(fd, F_DUPFD_CLOEXEC, 0);
      if (copy < 0) return false;
      socket.waiters.fd.store(own_descriptors::adopt(copy));
      // The last call may have ended meanwhile, without a look at the copy.
      if (socket.waiters.calls.load() == 0) {
        own_descriptors::close(socket.waiters.fd.exchange(-1));
        return false;
      }
    }
  }
  // A thread that is about to sleep on the program's descriptor sleeps on the copy instead.
  socket.routes_changed();
  socket.changed();
  return true;
}

void WaitingCall::begin() {
  if (counted_) return;
  counted_ = true;
  socket_.waiters.calls.fetch_add(1);
}

void WaitingCall::end() {
  if (counted_) waited(socket_);
  counted_ = false;
}

std::uint64_t WaitingCall::deadline(int fd, int option) {
  if (deadline_ == 0) deadline_ = socket_.modes.look_up_deadline(fd, option, has_deadline_);
  return deadline_;
}

bool WaitingCall::await(int fd, short events, int option, RedirectedReceive* direct) {
  held_sends::before_wait();
  if (!counted_) {
    begin();
    // The program closed the socket before the call could wait.
    if (socket_.closed()) {
      errno = EBADF;
      return false;
    }
  }
  fd = socket_.current(fd);
  const std::uint64_t until = deadline(fd, option);
  SocketCondition condition(socket_, events, direct, looked_at.value_or(socket_.routes()));
  // `kernel_fd` has no events if the direction is on its lane.
  pollfd kernel_fd{fd, socket_.ask_kernel(events), 0};
  // A wait for the kernel would end at once, again and again, as its stream has ended: the call waits for a moment
  // only.
  const bool for_a_moment = awaits_lane_end(socket_);
  constexpr std::uint64_t kMomentNs = 1'000'000;
  const bool kernel_too = kernel_fd.events != 0 && !for_a_moment;
  const Count sends(events == POLLOUT ? &socket_.waiters.sends : nullptr);
  const Woken woken = wait_for(condition, &kernel_fd, kernel_too ? 1 : 0,
                               for_a_moment ? std::min(until, now_ns() + kMomentNs) : until, nullptr, !kernel_too);
  if (direct != nullptr) direct->end();
  switch (woken) {
    case Woken::kReady:
    case Woken::kDescriptors:
      // A signal that is held back is handled before the call goes on, unless the lane has data: it may tell of an
      // urgent byte, past which the kernel does not read either.
      if (!signals::held_back() || socket_.lane_has_data()) return true;
      break;
    case Woken::kTimeout:
      if (for_a_moment && now_ns() < until) return true;
      errno = EAGAIN;
      return false;
    case Woken::kSignal:
      break;
  }
  // The wait ends before handlers run: one may leave the call by longjmp, or close the socket, which the call has to
  // notice.
  end();
  if (signals::run_held_back() && !has_deadline_) return true;
  errno = EINTR;
  return false;
}

bool WaitingCall::await_moment(int fd) {
  const std::uint64_t until = deadline(fd, SO_RCVTIMEO);
  constexpr timespec kMoment{0, 200'000};
  progress();
  return libc::ppoll(nullptr, 0, &kMoment, nullptr) == 0 && !signals::held_back() && now_ns() < until;
}

}  // namespace viaduct::sovia
