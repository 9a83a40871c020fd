#include "sovia/socket/socket.h"

#include <poll.h>
#include <sys/ioctl.h>

#include <mutex>

#include "sovia/process/libc.h"
#include "sovia/socket/background_requests.h"
#include "sovia/socket/fallback.h"
#include "sovia/socket/lane_endpoint.h"
#include "sovia/socket/lane_life.h"
#include "sovia/socket/readiness.h"

namespace viaduct::sovia {
namespace {

constexpr short kIn = POLLIN | POLLRDNORM;
constexpr short kOut = POLLOUT | POLLWRNORM;

// The locks of a snapshot: the receiving stream's, for POLLOUT the sending stream's too, and the lane's.
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

// All locked.
Readiness snapshot(Socket& socket, bool sends) {
  Readiness now;
  now.reset = socket.reset;
  now.untold = socket.reset ? !socket.reset.is_told() : socket.reset.is_untold();
  now.end_delayed = socket.tx.shut_later.load();
  now.has_lane = socket.link.end != nullptr;
  now.had_lanes = socket.link.number.load() != 0;
  now.receiving = socket.rx.route;
  now.read_shut = socket.rx.shut;
  now.early_end = socket.rx.early_end;
  if (socket.rx.inherited != nullptr) {
    now.has_inherited = socket.rx.inherited->left() != 0;
    now.record_next = record_is_next(socket) && socket.rx.inherited->is_record_certain();
  }
  if (sends) now.sending = socket.tx.route;
  if (socket.link.end == nullptr) return now;
  Lane& lane = socket.link.end->lane;
  now.lane_unread = lane.rx.unread() != 0;
  now.lane_broken = lane.control.broken();
  now.lane_ended = lane.control.receiving() == Lane::State::kEnded;
  now.awaits_lane_end = socket.rx.route == Phase::kKernel && !socket.rx.shut && must_wait_for_lane_end(socket, lane);
  if (!sends) return now;
  now.coming_down = is_coming_down(socket);
  now.lane_room = socket.tx.route == Phase::kLane &&
                  (lane.tx.has_room() || lane.control.peer_closed() || lane.control.sending() != Lane::State::kUp);
  return now;
}

// The kernel tells of a reset: nothing more is sent on the lane. Data that has come before stays to be read.
void end_reset_lane(Socket& socket, Lane& lane, short kernel_says) {
  const short reset = POLLERR | POLLHUP;
  if ((kernel_says & reset) != reset || lane.control.broken()) return;
  lane.fail();
  background::look_at(*socket.link.end);
}

// Polls the lane, and takes the direction off a lane that has ended, as a receive would. All locked.
void advance(Socket& socket, Lane& lane, bool sends) {
  if (lane.wants_poll()) lane.poll();
  const bool ended = lane.control.receiving() == Lane::State::kEnded;
  socket.settle_receiving(lane);
  if (socket.rx.route == Phase::kLane && lane.rx.unread() == 0 && (ended || socket.fallback.done)) {
    socket.receiving_changed(RouteEvent::kLaneEnded);
    background::look_at(*socket.link.end);
  }
  if (!sends || socket.tx.route == Phase::kKernel) return;
  leave_ended_lane(socket);
  if (socket.tx.route == Phase::kLane && lane.ring.awaits_completion()) background::flush_later(*socket.link.end);
  // The background thread hands the data that has not arrived to the kernel.
  if (socket.tx.route == Phase::kLane && lane.control.broken()) background::look_at(*socket.link.end);
}

}  // namespace

short Socket::ask_kernel(short wanted) {
  if (!may_use_lane() && rx.inherited == nullptr) return wanted;
  const bool sends = (wanted & kOut) != 0;
  SnapshotLocks locks(rx.lock, tx.lock, sends);
  if (link.end != nullptr) locks.lock(link.end->lane);
  const Readiness now = snapshot(*this, sends);
  if (now.record_next) be_watched(*this);
  return now.to_ask(wanted);
}

bool Socket::kernel_knows_all() {
  // The locks of a socket without a lane would cost a tenth of an epoll_ctl().
  const bool laneless = link.stage.load(std::memory_order_acquire) != LaneStage::kOpen;
  if (kernel_alone() || (laneless && !reset && rx.inherited == nullptr)) return true;
  {
    const std::scoped_lock guard(rx.lock);
    if (reset || rx.inherited != nullptr) return false;
    // A lane decides when the end of the connection is told, even before it has begun.
    if (link.end != nullptr && rx.route != Phase::kKernelAgain) return false;
  }
  const std::scoped_lock guard(tx.lock);
  if (link.end == nullptr) return true;
  const std::scoped_lock lane_guard(link.end->lane.lock());
  return tx.route != Phase::kLane && !is_coming_down(*this);
}

bool Socket::receives_in_kernel() {
  const std::scoped_lock guard(rx.lock);
  if (!link.left_for_good.load() || reset || rx.inherited != nullptr) return false;
  if (link.end == nullptr || rx.route == Phase::kKernelAgain) return true;
  const std::scoped_lock lane_guard(link.end->lane.lock());
  return rx.route == Phase::kKernel && link.end->lane.control.over() && !link.end->lane.control.started();
}

short Socket::answer(short wanted, short kernel_says, int fd) {
  if (!may_use_lane() && rx.inherited == nullptr) return kernel_says;
  const bool sends = (wanted & kOut) != 0;
  SnapshotLocks locks(rx.lock, tx.lock, sends);
  if (link.end != nullptr) {
    locks.lock(link.end->lane);
    if (!reset) {
      end_reset_lane(*this, link.end->lane, kernel_says);
      advance(*this, link.end->lane, sends);
    }
  }
  Readiness now = snapshot(*this, sends);
  if (now.awaits_lane_end && (kernel_says & POLLRDHUP) != 0) now.kernel_unread = kernel_has_data(fd);
  const short told = now.to_tell(wanted, kernel_says);
  // The peer may be waiting for small data that is held back here: it is sent.
  const bool reads_in_vain = (wanted & kIn) != 0 && (told & kIn) == 0;
  if (reads_in_vain && link.end != nullptr && link.end->lane.tx.holds()) link.end->lane.tx.flush();
  return told;
}

int Socket::unread(int kernel_bytes) {
  const std::scoped_lock guard(rx.lock);
  return unread_locked(kernel_bytes);
}

int Socket::unread_locked(int kernel_bytes) {
  std::uint64_t bytes = rx.inherited_left();
  if (record_is_next(*this)) kernel_bytes = 0;
  if (link.end != nullptr) {
    Lane& lane = link.end->lane;
    const std::scoped_lock lane_guard(lane.lock());
    settle_receiving(lane);
    if (rx.route == Phase::kLane || rx.route == Phase::kKernelAgain) {
      bytes += lane.rx.unread();
      if (lane.control.receiving() != Lane::State::kEnded) kernel_bytes = 0;
    } else if (rx.route == Phase::kDrain &&
               static_cast<std::uint64_t>(kernel_bytes) >= rx.kernel_left) {
      bytes += lane.rx.unread();
    } else if (rx.route == Phase::kKernel && kernel_bytes == 0) {
      bytes += lane.rx.unread();
    }
  }
  return static_cast<int>(bytes + static_cast<std::uint64_t>(kernel_bytes));
}

int Socket::unsent(int kernel_bytes) {
  const std::scoped_lock guard(tx.lock);
  if (!tx.unacked.empty()) kernel_bytes += static_cast<int>(tx.unacked.left());
  if (link.end == nullptr || fallback.done) return kernel_bytes;
  const std::scoped_lock lane_guard(link.end->lane.lock());
  return kernel_bytes + static_cast<int>(link.end->lane.ring.unsent());
}

bool Socket::lane_has_data() {
  const std::scoped_lock guard(rx.lock);
  if (rx.inherited_left() != 0) return true;
  if (link.end == nullptr) return false;
  const std::scoped_lock lane_guard(link.end->lane.lock());
  return link.end->lane.rx.unread() != 0;
}

}  // namespace viaduct::sovia
