// A socket's references, and its lane's beginning and end.
#include "sovia/socket/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <mutex>

#include "sovia/background/background.h"
#include "sovia/process/counters.h"
#include "sovia/lane/engine.h"
#include "sovia/process/libc.h"
#include "sovia/socket/lane_endpoint.h"
#include "sovia/process/options.h"
#include "sovia/socket/inherited_bytes.h"
#include "sovia/socket/socket_pool.h"

namespace viaduct::sovia {
namespace {

constexpr std::uint32_t kCallsAgain = 64;  // before the second try for a lane, doubled each time
constexpr std::uint32_t kMostCallsAgain = 1u << 20;

}  // namespace

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

// ---------------------------------------------------------------------------- routes

void Socket::set_receiving(Phase phase) {
  receiving_ = phase;
  routes_changed();
}

void Socket::set_sending(Phase phase) {
  sending_ = phase;
  routes_changed();
}

int Socket::look_up_combining(int fd) {
  const auto is_on = [fd](int name) {
    int value = 0;
    socklen_t length = sizeof value;
    return kernel::getsockopt(fd, IPPROTO_TCP, name, &value, &length) == 0 && value != 0;
  };
  int combines = options().combine != 0 && !is_on(TCP_NODELAY) ? kSmall : kAtOnce;
  if (is_on(TCP_CORK)) combines = kCorked;
  combines_.store(combines, std::memory_order_relaxed);
  return combines;
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

// An end of the kernel's stream that is there already came before the peer could know that it may
// begin with the lane: it is the end. One that comes later is it only when the lane's has come, and
// whoever waits for readiness has to hear that from the socket by now.
void Socket::trust_lane(LaneEnd& end, int fd) {
  const std::scoped_lock guard(in_);
  pollfd at{fd, POLLRDHUP, 0};
  if (kernel::poll(&at, 1, 0) > 0 && (at.revents & (POLLRDHUP | POLLHUP)) != 0) end_counts_ = true;
  const std::scoped_lock lane_guard(end.lane.lock());
  end.lane.trust();
}

std::uint32_t Socket::lane_number() {
  const std::scoped_lock guard(in_);
  if (holders_ != nullptr) lane_number_.store(holders_->lanes.load());
  return lane_number_.load();
}

// The next try comes after twice as many calls as the last.
void Socket::put_off_lane() {
  calls_.store(0);
  bytes_.store(0);
  calls_needed_ = calls_needed_ == 0 ? kCallsAgain : std::min(2 * calls_needed_, kMostCallsAgain);
}

void Socket::lane_refused(Reason why) {
  counters::fell(why);
  {
    const std::scoped_lock both(in_, out_);
    if (stage_ == Stage::kOpen) return;  // it opened while it was being cancelled
    stage_ = Stage::kNone;
    reason_.store(why);
    put_off_lane();
    const bool never = why == Reason::kLocal || why == Reason::kOffLink || why == Reason::kOff ||
                       why == Reason::kOtherNic || why == Reason::kStandardStream ||
                       why == Reason::kPassed;
    if ((never || forbidden_) && residue_ == nullptr && kept_ == nullptr) {
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
    // What has not come is to go through the kernel first.
    if (end.lane.wants_fall_back() && !fell_ && !reset_ && !closed()) return false;
    if (end.lane.unread() != 0) return false;
    if (end.lane.started() && receiving_ != Phase::kAfter) return false;
  }
  early_end_ = fell_ = false;
  lane_ = nullptr;
  stage_ = Stage::kNone;
  set_receiving(Phase::kKernel);
  set_sending(Phase::kKernel);
  put_off_lane();
  if (forbidden_ && residue_ == nullptr && kept_ == nullptr) {
    lane_wanted_.store(false, std::memory_order_release);
  }
  return true;
}

void Socket::finish_lane() {
  const std::scoped_lock both(in_, out_);
  if (lane_ == nullptr) return;
  const std::scoped_lock lane_guard(lane_->lane.lock());
  lane_->lane.deafen();
  lane_->lane.finish(true);
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
    socket->note_unread(lane.unread());
    news = (changes & Lane::kWritable) != 0 && lane.take_lack();
  }
  if ((changes & Lane::kState) != 0) {
    // A direction that was coming down has come down: a thread may wait for just that.
    socket->routes_changed();
    background::look_at(*this);
  }
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
