#include "sovia/socket/socket_ready.h"

#include <poll.h>
#include <sys/ioctl.h>

#include <mutex>

#include "sovia/socket/background_requests.h"
#include "sovia/process/libc.h"
#include "sovia/socket/lane_endpoint.h"
#include "sovia/socket/inherited_bytes.h"

namespace viaduct::sovia {
namespace {

constexpr short kIn = POLLIN | POLLRDNORM;
constexpr short kOut = POLLOUT | POLLWRNORM;

// The locks of a snapshot: that of receiving, for POLLOUT that of sending, and the lane's.
class SnapshotLocks {
 public:
  SnapshotLocks(Lock& rx, Lock& tx, bool both) : rx_(rx, std::defer_lock), tx_(tx, std::defer_lock) {
    if (both) {
      std::lock(rx_, tx_);
    } else {
      rx_.lock();
    }
  }
  void lock(Lane& lane) { lane_ = std::unique_lock(lane.lock()); }

 private:
  std::unique_lock<Lock> rx_, tx_, lane_;
};

bool kernel_has_data(int fd) {
  int bytes = 0;
  return fd >= 0 && libc::ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

}  // namespace

// All locked.
Readiness SocketReady::snapshot(bool sends) {
  Readiness now;
  now.reset = reset_.load();
  now.has_lane = lane_ != nullptr;
  now.had_lanes = lane_number_.load() != 0;
  now.receiving = receiving_;
  now.read_shut = read_shut_;
  now.early_end = early_end_;
  if (inherited_bytes_ != nullptr) {
    now.has_inherited = inherited_bytes_->left() != 0;
    now.record_next = record_is_next() && inherited_bytes_->is_record_certain();
  }
  if (sends) now.sending = sending_;
  if (lane_ == nullptr) return now;
  Lane& lane = lane_->lane;
  now.lane_unread = lane.rx.unread() != 0;
  now.lane_ended = lane.control.receiving() == Lane::State::kEnded;
  now.awaits_lane_end = receiving_ == Phase::kKernel && !read_shut_ && must_wait_for_lane_end(lane);
  if (!sends) return now;
  now.coming_down = is_coming_down();
  now.lane_broken = lane.control.broken();
  now.lane_room = sending_ == Phase::kLane &&
                  (lane.tx.has_room() || lane.control.peer_closed() || lane.control.sending() != Lane::State::kUp);
  return now;
}

short SocketReady::ask_kernel(short wanted) {
  if (!may_use_lane() && inherited_bytes_ == nullptr) return wanted;
  const bool sends = (wanted & kOut) != 0;
  SnapshotLocks locks(in_, out_, sends);
  if (lane_ != nullptr) locks.lock(lane_->lane);
  const Readiness now = snapshot(sends);
  if (now.record_next) be_watched();
  return now.to_ask(wanted);
}

// Whether the peer has yet to say that it has seen the end of this direction's lane. With the lane
// locked.
bool SocketReady::is_coming_down() {
  const Lane& lane = lane_->lane;
  return !write_shut_ && sending_ == Phase::kKernelAgain && lane.control.sending() == Lane::State::kEnding &&
         !lane.control.broken() && !lane.control.peer_closed();
}

bool SocketReady::kernel_knows_all() {
  // The locks of a socket without a lane would cost a tenth of an epoll_ctl().
  const bool laneless = stage_.load(std::memory_order_acquire) != Stage::kOpen;
  if (kernel_alone() || (laneless && !reset_ && inherited_bytes_ == nullptr)) return true;
  {
    const std::scoped_lock guard(in_);
    if (reset_ || inherited_bytes_ != nullptr) return false;
    // Even before it has begun the lane decides when the end of the connection is told.
    if (lane_ != nullptr && receiving_ != Phase::kKernelAgain) return false;
  }
  const std::scoped_lock guard(out_);
  if (lane_ == nullptr) return true;
  const std::scoped_lock lane_guard(lane_->lane.lock());
  return sending_ != Phase::kLane && !is_coming_down();
}

// Whether the end of the kernel's stream is not that of the connection yet, as the peer may have sent
// more on the lane. With the lane locked.
bool SocketReady::must_wait_for_lane_end(const Lane& lane) const {
  // START may have come since it was looked at, all that follows it, and the end of the lane.
  if (!lane.greeting.trusted() || end_counts_) return false;
  return lane.control.started() || (!lane.control.broken() && lane.control.receiving() != Lane::State::kEnded);
}

bool SocketReady::receives_in_kernel() {
  const std::scoped_lock guard(in_);
  if (!for_good_.load() || reset_ || inherited_bytes_ != nullptr) return false;
  if (lane_ == nullptr || receiving_ == Phase::kKernelAgain) return true;
  const std::scoped_lock lane_guard(lane_->lane.lock());
  return receiving_ == Phase::kKernel && lane_->lane.control.over() && !lane_->lane.control.started();
}

// Takes in what has come on the lane, and leaves it behind when it has ended, as a receive would. All locked.
void SocketReady::advance(Lane& lane, bool sends) {
  if (lane.wants_poll()) lane.poll();
  const bool ended = lane.control.receiving() == Lane::State::kEnded;
  settle_receiving(lane);
  if (receiving_ == Phase::kLane && lane.rx.unread() == 0 && (ended || fell_)) {
    receiving_changed(RouteEvent::kLaneEnded);
    background::look_at(*lane_);
  }
  if (!sends || sending_ == Phase::kKernel) return;
  if (sending_ == Phase::kLane && lane.ring.awaits_completion()) background::flush_later(*lane_);
  // The background thread hands what has not arrived to the kernel.
  if (sending_ == Phase::kLane && lane.control.broken()) background::look_at(*lane_);
}

short SocketReady::answer(short wanted, short kernel_says, int fd) {
  if (!may_use_lane() && inherited_bytes_ == nullptr) return kernel_says;
  const bool sends = (wanted & kOut) != 0;
  SnapshotLocks locks(in_, out_, sends);
  if (lane_ != nullptr) {
    locks.lock(lane_->lane);
    if (!reset_) advance(lane_->lane, sends);
  }
  Readiness now = snapshot(sends);
  if (now.awaits_lane_end && (kernel_says & POLLRDHUP) != 0) now.kernel_unread = kernel_has_data(fd);
  const short told = now.to_tell(wanted, kernel_says);
  // The peer may be waiting for what waits here for more.
  if ((wanted & kIn) != 0 && (told & kIn) == 0 && lane_ != nullptr && lane_->lane.tx.holds()) lane_->lane.tx.flush();
  return told;
}

int SocketReady::unread(int kernel_bytes) {
  const std::scoped_lock guard(in_);
  std::uint64_t bytes = inherited_bytes_ != nullptr ? inherited_bytes_->left() : 0;
  if (record_is_next()) kernel_bytes = 0;
  if (lane_ != nullptr) {
    Lane& lane = lane_->lane;
    const std::scoped_lock lane_guard(lane.lock());
    settle_receiving(lane);
    if (receiving_ == Phase::kLane || receiving_ == Phase::kKernelAgain) {
      bytes += lane.rx.unread();
      if (lane.control.receiving() != Lane::State::kEnded) kernel_bytes = 0;
    } else if (receiving_ == Phase::kDrain &&
               static_cast<std::uint64_t>(kernel_bytes) >= kernel_left_) {
      bytes += lane.rx.unread();
    } else if (receiving_ == Phase::kKernel && kernel_bytes == 0) {
      bytes += lane.rx.unread();
    }
  }
  return static_cast<int>(bytes + static_cast<std::uint64_t>(kernel_bytes));
}

int SocketReady::unsent(int kernel_bytes) {
  const std::scoped_lock guard(out_);
  if (kept_ != nullptr) kernel_bytes += static_cast<int>(kept_->bytes - kept_->at);
  if (lane_ == nullptr || fell_) return kernel_bytes;
  const std::scoped_lock lane_guard(lane_->lane.lock());
  return kernel_bytes + static_cast<int>(lane_->lane.ring.unsent());
}

bool SocketReady::lane_has_data() {
  const std::scoped_lock guard(in_);
  if (inherited_bytes_ != nullptr && inherited_bytes_->left() != 0) return true;
  if (lane_ == nullptr) return false;
  const std::scoped_lock lane_guard(lane_->lane.lock());
  return lane_->lane.rx.unread() != 0;
}

}  // namespace viaduct::sovia
