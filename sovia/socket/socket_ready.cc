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

bool kernel_has_data(int fd) {
  int bytes = 0;
  return fd >= 0 && libc::ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

}  // namespace

short SocketReady::ask_kernel(short wanted) {
  if (!may_use_lane() && inherited_bytes_ == nullptr) return wanted;
  short ask = wanted;
  {
    const std::scoped_lock guard(in_);
    if (receiving_ == Phase::kLane) {
      ask = static_cast<short>(ask & ~kIn);
      if (!lane_end_has_come()) ask = static_cast<short>(ask & ~POLLRDHUP);
    } else if (receiving_ == Phase::kKernel && lane_ != nullptr && (ask & kIn) != 0) {
      ask |= POLLRDHUP;  // so that answer() can tell the end from data
    }
    // The background thread takes the record.
    if (record_is_next() && inherited_bytes_->is_record_certain()) {
      be_watched();
      ask = static_cast<short>(ask & ~(kIn | POLLRDHUP));
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

// In locked, and receiving from the lane.
bool SocketReady::lane_end_has_come() {
  const std::scoped_lock guard(lane_->lane.lock());
  return lane_->lane.receiving() == Lane::State::kEnded;
}

// Whether the peer has yet to say that it has seen the end of this direction's lane. With the lane
// locked.
bool SocketReady::is_coming_down() {
  const Lane& lane = lane_->lane;
  return !write_shut_ && sending_ == Phase::kAfter && lane.sending() == Lane::State::kEnding &&
         !lane.broken() && !lane.peer_closed();
}

bool SocketReady::kernel_knows_all() {
  // The locks of a socket without a lane would cost a tenth of an epoll_ctl().
  const bool laneless = stage_.load(std::memory_order_acquire) != Stage::kOpen;
  if (kernel_alone() || (laneless && !reset_ && inherited_bytes_ == nullptr)) return true;
  {
    const std::scoped_lock guard(in_);
    if (reset_ || inherited_bytes_ != nullptr) return false;
    // Even before it has begun the lane decides when the end of the connection is told.
    if (lane_ != nullptr && receiving_ != Phase::kAfter) return false;
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
  if (!lane.trusted() || end_counts_) return false;
  return lane.started() || (!lane.broken() && lane.receiving() != Lane::State::kEnded);
}

bool SocketReady::receives_in_kernel() {
  const std::scoped_lock guard(in_);
  if (!for_good_.load() || reset_ || inherited_bytes_ != nullptr) return false;
  if (lane_ == nullptr || receiving_ == Phase::kAfter) return true;
  const std::scoped_lock lane_guard(lane_->lane.lock());
  return receiving_ == Phase::kKernel && lane_->lane.over() && !lane_->lane.started();
}

short SocketReady::answer(short wanted, short kernel_says, int fd) {
  if (!may_use_lane() && inherited_bytes_ == nullptr) return kernel_says;
  short says = kernel_says;
  {
    const std::scoped_lock guard(in_);
    if (reset_) {
      return static_cast<short>((kIn | kOut | POLLERR | POLLHUP | POLLRDHUP) &
                                (wanted | POLLERR | POLLHUP));
    }
    if (record_is_next() && inherited_bytes_->is_record_certain()) {
      says = static_cast<short>(says & ~(kIn | POLLRDHUP | POLLHUP));
    }
    if (inherited_bytes_ != nullptr && inherited_bytes_->left() != 0) says |= kIn;
    if (lane_ != nullptr) {
      Lane& lane = lane_->lane;
      const std::scoped_lock lane_guard(lane.lock());
      if (lane.wants_turn()) lane.turn();
      const bool ended = lane.receiving() == Lane::State::kEnded;
      settle_receiving(lane);
      if (receiving_ == Phase::kLane && lane.unread() == 0 && (ended || fell_)) {
        set_receiving(Phase::kAfter);
        background::look_at(*lane_);
      }
      if (receiving_ == Phase::kLane) {
        // The end may not be told before that of the lane has come; a reset always.
        const bool all_has_come = ended && (kernel_says & POLLRDHUP) != 0;
        if ((kernel_says & POLLERR) == 0 && !all_has_come) {
          says = static_cast<short>(says & ~(POLLRDHUP | POLLHUP));
        }
        says = static_cast<short>(says & ~kIn);
        if (lane.unread() != 0 || read_shut_) says |= kIn;
        if (read_shut_) says |= POLLRDHUP;
      } else if (receiving_ == Phase::kDrain) {
        if ((kernel_says & POLLERR) == 0) says = static_cast<short>(says & ~(POLLRDHUP | POLLHUP));
      }
      if (receiving_ == Phase::kKernel && !read_shut_ && must_wait_for_lane_end(lane)) {
        // The end of the connection is told when that of the lane has come, what is before it now.
        const bool may_be_end = (says & POLLRDHUP) != 0 && !kernel_has_data(fd);
        if (early_end_ || may_be_end) says = static_cast<short>(says & ~kIn);
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
      } else if (lane.broken()) {
        // What has not come is the kernel's to bring, as soon as the background thread has looked at it.
        background::look_at(*lane_);
      } else if (lane.has_room() || lane.peer_closed() || lane.sending() != Lane::State::kUp) {
        says |= kOut;
      }
    }
  }
  // A reset is told whatever else may come: a receive finds it, behind what is unread on the lane.
  if ((kernel_says & POLLERR) != 0 && (kernel_says & POLLHUP) != 0) says |= POLLHUP;
  // The kernel may have been asked while the lane had the direction; with TCP one means the others.
  if ((says & POLLHUP) != 0 && lane_number_.load() != 0) says |= kIn | kOut | POLLRDHUP;
  return static_cast<short>(says & (wanted | POLLERR | POLLHUP | POLLNVAL));
}

int SocketReady::unread(int kernel_bytes) {
  const std::scoped_lock guard(in_);
  std::uint64_t bytes = inherited_bytes_ != nullptr ? inherited_bytes_->left() : 0;
  if (record_is_next()) kernel_bytes = 0;
  if (lane_ != nullptr) {
    Lane& lane = lane_->lane;
    const std::scoped_lock lane_guard(lane.lock());
    settle_receiving(lane);
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

int SocketReady::unsent(int kernel_bytes) {
  const std::scoped_lock guard(out_);
  if (kept_ != nullptr) kernel_bytes += static_cast<int>(kept_->bytes - kept_->at);
  if (lane_ == nullptr || fell_) return kernel_bytes;
  const std::scoped_lock lane_guard(lane_->lane.lock());
  return kernel_bytes + static_cast<int>(lane_->lane.unsent());
}

bool SocketReady::lane_has_data() {
  const std::scoped_lock guard(in_);
  if (inherited_bytes_ != nullptr && inherited_bytes_->left() != 0) return true;
  if (lane_ == nullptr) return false;
  const std::scoped_lock lane_guard(lane_->lane.lock());
  return lane_->lane.unread() != 0;
}

}  // namespace viaduct::sovia
