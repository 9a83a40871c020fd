#include "sovia/socket/socket.h"

#include <poll.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <mutex>

#include "sovia/process/libc.h"
#include "sovia/socket/background_requests.h"
#include "sovia/socket/fallback.h"
#include "sovia/socket/lane_endpoint.h"
#include "sovia/socket/lane_life.h"
#include "sovia/socket/readiness.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {
namespace {

constexpr short kIn = POLLIN | POLLRDNORM;
constexpr short kOut = POLLOUT | POLLWRNORM;

// The locks of a snapshot: the receiving stream's, for POLLOUT the sending stream's too, and the lane's. Clang takes all
// for locked; what looks at the sending stream asks whether `sends`.
class VIADUCT_SCOPED_CAPABILITY SnapshotLocks {
 public:
  SnapshotLocks(Socket& socket, bool sends)
      VIADUCT_ACQUIRE(socket.rx.lock, socket.tx.lock, socket.link.end->lane.lock())
      VIADUCT_ACQUIRE_SHARED(either_stream)
      : rx_(socket.rx.lock), tx_(sends ? &socket.tx.lock : nullptr) {
    rx_.lock();
    if (tx_ != nullptr) tx_->lock();
    if (socket.link.end == nullptr) return;
    lane_ = &socket.link.end->lane.lock();
    lane_->lock();
  }
  ~SnapshotLocks() VIADUCT_RELEASE() {
    if (lane_ != nullptr) lane_->unlock();
    if (tx_ != nullptr) tx_->unlock();
    rx_.unlock();
  }
  SnapshotLocks(const SnapshotLocks&) = delete;
  SnapshotLocks& operator=(const SnapshotLocks&) = delete;

 private:
  Lock& rx_;
  Lock* const tx_;
  Lock* lane_ = nullptr;
};

#define SOVIA_ALL_LOCKED(socket) SOVIA_RX_LOCKED(socket) VIADUCT_REQUIRES((socket).tx.lock) SOVIA_LANE_LOCKED(socket)

bool kernel_has_data(int fd) {
  int bytes = 0;
  return fd >= 0 && libc::ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

// Those of these events that the kernel has to tell behind the record.
short without_record(int fd, short kernel_says) {
  pollfd now{fd, kernel_says, 0};
  return libc::poll(&now, 1, 0) < 0 ? kernel_says : now.revents;
}

// Whether a reset is known that no call has told of. Another process may have told of one that the kernel had.
bool has_untold_reset(const Socket& socket, int fd) {
  if (!socket.reset) return socket.reset.is_untold();
  const bool others_told = socket.reset.was_with_kernel() && fd >= 0 && !has_kernel_failed(fd);
  return !socket.reset.is_told() && !others_told;
}

Readiness snapshot(Socket& socket, bool sends, int fd) SOVIA_ALL_LOCKED(socket) {
  Readiness now;
  now.reset = socket.reset;
  now.untold = has_untold_reset(socket, fd);
  now.write_shut = socket.tx.shut;
  now.has_lane = socket.link.end != nullptr;
  now.had_lanes = socket.link.number.load() != 0;
  now.on_lane = socket.rx.on_lane;
  now.read_shut = socket.rx.shut;
  now.early_end = socket.rx.early_end;
  now.has_inherited = socket.rx.inherited_left() != 0;
  now.record_next = socket.rx.record().is_expected();
  if (sends) now.sending = socket.tx.route;
  if (socket.link.end == nullptr) return now;
  Lane& lane = socket.link.end->lane;
  same_lane(socket.link.end->lane, lane);
  now.lane_unread = socket.rx.on_lane && lane.rx.unread_here() != 0;
  now.lane_broken = lane.control.broken();
  now.lane_ended = lane.control.receiving() == Lane::State::kEnded;
  now.awaits_lane_end = must_wait_for_lane_end(socket, lane);
  if (!sends) return now;
  now.lane_room = socket.tx.route == TxRoute::kLane && (lane.tx.has_room() || lane.control.peer_closed());
  now.lands_now = socket.tx.route == TxRoute::kLanding && may_land_now(lane);
  now.lands_soon = lane.control.sending() >= Lane::State::kEnding && !lane.ring.has_unposted();
  return now;
}

// The kernel tells of a reset: nothing more is sent on the lane. Data that has come before stays to be read.
void end_reset_lane(LaneEndpoint& end, short kernel_says) VIADUCT_REQUIRES(end.lane.lock()) {
  const short reset = POLLERR | POLLHUP;
  if ((kernel_says & reset) != reset || end.lane.control.broken()) return;
  end.lane.fail();
  background::look_at(end);
}

// Polls the lane, and lets the directions follow it, as a send or a receive would.
void advance(Socket& socket, bool sends) SOVIA_ALL_LOCKED(socket) {
  Lane& lane = socket.link.end->lane;
  same_lane(socket.link.end->lane, lane);
  if (lane.wants_poll()) lane.poll();
  socket.settle_receiving(lane);
  if (lane.control.over()) background::look_at(*socket.link.end);
  if (!sends || socket.tx.route == TxRoute::kKernel) return;
  leave_ended_lane(socket, -1);
  // The background thread tells the sets.
  if (land(socket, -1)) background::look_at(*socket.link.end);
  if (socket.tx.route == TxRoute::kLane && lane.ring.awaits_completion()) background::flush_later(*socket.link.end);
  // The background thread hands the data that has not arrived to the kernel.
  if (lane.control.broken()) background::look_at(*socket.link.end);
}

}  // namespace

short Socket::ask_kernel(short wanted) {
  if (kernel_alone()) return wanted;
  const bool sends = (wanted & kOut) != 0;
  const SnapshotLocks locks(*this, sends);
  if (link.end != nullptr && !reset) advance(*this, sends);
  return snapshot(*this, sends, -1).to_ask(wanted);
}

bool Socket::kernel_knows_all() {
  // The locks of a socket without a lane would cost a tenth of an epoll_ctl().
  const bool laneless = link.stage.load(std::memory_order_acquire) != LaneStage::kOpen;
  if (kernel_alone()) return true;
  if (laneless && !reset && rx.has_nothing_first()) return true;
  const StreamsGuard both(*this);
  if (reset || rx.inherited != nullptr || rx.record().is_expected() || rx.on_lane) return false;
  if (link.end == nullptr) return true;
  const LockGuard lane_guard(link.end->lane.lock());
  // A lane decides when the end of the connection is told, even before it has begun.
  return tx.route == TxRoute::kKernel && !must_wait_for_lane_end(*this, link.end->lane) && link.end->lane.greeting.trusted();
}

bool Socket::receives_in_kernel() {
  const RxGuard guard(*this);
  if (!link.left_for_good.load() || reset || rx.inherited != nullptr || rx.record().is_expected() || rx.on_lane) return false;
  if (link.end == nullptr) return true;
  const LockGuard lane_guard(link.end->lane.lock());
  return link.end->lane.control.over() && link.end->lane.rx.unread() == 0;
}

short Socket::answer(short wanted, short kernel_says, int fd) {
  if (kernel_alone()) return kernel_says;
  const bool sends = (wanted & kOut) != 0;
  const SnapshotLocks locks(*this, sends);
  if (link.end != nullptr && !reset) {
    end_reset_lane(*link.end, kernel_says);
    advance(*this, sends);
  }
  const bool takes = rx.record().is_expected() && (kernel_says & (kIn | POLLRDHUP | POLLHUP)) != 0 && fd >= 0 && !reset;
  if (takes && take_record(*this, fd)) kernel_says = without_record(fd, kernel_says);
  Readiness now = snapshot(*this, sends, fd);
  if (now.awaits_lane_end && (kernel_says & POLLRDHUP) != 0) now.kernel_unread = kernel_has_data(fd);
  const short told = now.to_tell(wanted, kernel_says);
  // The peer may be waiting for small data that is held back here: it is sent.
  const bool reads_in_vain = (wanted & kIn) != 0 && (told & kIn) == 0;
  if (reads_in_vain && link.end != nullptr && link.end->lane.tx.holds()) link.end->lane.tx.flush();
  return told;
}

int Socket::unread(int fd) {
  const RxGuard guard(*this);
  return unread_locked(fd);
}

int Socket::unread_locked(int fd) {
  std::uint64_t bytes = rx.inherited_left();
  if (link.end != nullptr) {
    const LockGuard lane_guard(link.end->lane.lock());
    settle_receiving(link.end->lane);
  }
  if (rx.record().is_expected() && !reset) take_record(*this, fd);
  int in_kernel = 0;
  if (!rx.record().is_expected()) libc::ioctl(fd, FIONREAD, &in_kernel);
  auto kernel_bytes = static_cast<std::uint64_t>(std::max(in_kernel, 0));
  if (link.end != nullptr) {
    Lane& lane = link.end->lane;
    const LockGuard lane_guard(lane.lock());
    const auto first = lane.rx.first();
    const std::uint64_t before = first ? *first - rx.kernel_read : rx.on_lane && !rx.leaves_lane ? 0 : kernel_bytes;
    if (kernel_bytes >= before) {
      // Behind each turn to the kernel its bytes begin with a record, and maybe with some that the lane has brought.
      std::uint64_t not_new = 0;
      const std::uint8_t* const token = lane.greeting.peer_token();
      lane.rx.each_down([&, read = rx.kernel_read](std::optional<std::uint64_t> up, std::uint64_t brought) {
        not_new += sizeof(Resume) + ResumeRecord::brought_twice(fd, up ? *up - read : 0, token, brought);
      });
      // Bytes of the kernel's may else be a record, of a turn that the lane has yet to tell.
      const bool goes_on = not_new != 0 || lane.control.receiving() == Lane::State::kEnded;
      const std::uint64_t behind = goes_on ? kernel_bytes - before : 0;
      kernel_bytes = before + lane.rx.unread() + behind - std::min(behind, not_new);
    }
  }
  return static_cast<int>(bytes + kernel_bytes);
}

int Socket::unsent(int kernel_bytes) {
  const TxGuard guard(*this);
  if (!tx.owed.empty()) kernel_bytes += static_cast<int>(tx.owed.left());
  if (link.end == nullptr || fallback.done) return kernel_bytes;
  const LockGuard lane_guard(link.end->lane.lock());
  return kernel_bytes + static_cast<int>(link.end->lane.ring.unsent());
}

bool Socket::lane_has_data() {
  const RxGuard guard(*this);
  if (rx.inherited_left() != 0) return true;
  if (link.end == nullptr) return false;
  const LockGuard lane_guard(link.end->lane.lock());
  return link.end->lane.rx.unread() != 0;
}

}  // namespace viaduct::sovia
