#include "sovia/socket/socket_lane.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <mutex>

#include "sovia/socket/background_requests.h"
#include "sovia/process/counters.h"
#include "sovia/process/libc.h"
#include "sovia/socket/lane_endpoint.h"
#include "sovia/process/options.h"
#include "sovia/socket/inherited_bytes.h"

namespace viaduct::sovia {
namespace {

constexpr std::uint32_t kCallsAgain = 64;  // before the second try for a lane, doubled each time
// A connection that lives for longer is worth a lane however little it moves: it need not wait for it.
constexpr std::uint64_t kShortNs = 10'000'000;
constexpr std::uint32_t kMostCallsAgain = 1u << 20;

}  // namespace

bool SocketLane::lane_opened(LaneEndpoint& end) {
  const std::scoped_lock both(in_, out_);
  if (stage_ != Stage::kAsked || for_good_.load() || reset_) return false;
  // A fork may have come between the decision to ask and the task.
  if (holders_ != nullptr && !sole_holder(*holders_)) {
    stage_ = Stage::kNone;
    return false;
  }
  stage_ = Stage::kOpen;
  lane_ = &end;
  receiving_changed(RouteEvent::kLaneChanged);
  sending_changed(RouteEvent::kLaneChanged);
  if (write_shut_) {
    // It happened while the lane was asked for; the peer waits for both ends of the stream.
    const std::scoped_lock lane_guard(end.lane.lock());
    end.lane.finish(false);
    sending_changed(RouteEvent::kLaneEnded);
  }
  shown_.set(ShownSocket::Way::kLane, Reason::kNone);
  lane_number_.fetch_add(1);
  if (holders_ != nullptr) holders_->lanes.store(lane_number_.load());
  return true;
}

// An end of the kernel's stream that is there already came before the peer could know that it may
// begin with the lane: it is the end. One that comes later is it only when the lane's has come;
// from now on readiness waits for that.
void SocketLane::trust_lane(LaneEndpoint& end, int fd) {
  const std::scoped_lock guard(in_);
  pollfd at{fd, POLLRDHUP, 0};
  if (libc::poll(&at, 1, 0) > 0 && (at.revents & (POLLRDHUP | POLLHUP)) != 0) end_counts_ = true;
  const std::scoped_lock lane_guard(end.lane.lock());
  end.lane.trust();
}

bool SocketLane::settle(LaneEndpoint& end) {
  const std::scoped_lock guard(in_);
  if (lane_ != &end || receiving_ != Phase::kKernel) return false;
  const std::scoped_lock lane_guard(end.lane.lock());
  settle_receiving(end.lane);
  return receiving_ != Phase::kKernel;
}

// In or out locked, so that it is not freed in between. The background thread passes over an end that is
// pinned: what has happened meanwhile it has to be told of afterwards.
void SocketLane::unpin(LaneEndpoint& end) {
  --end.pins;
  background::look_at(end);
}

std::uint32_t SocketLane::lane_number() {
  const std::scoped_lock guard(in_);
  if (holders_ != nullptr) lane_number_.store(holders_->lanes.load());
  return lane_number_.load();
}

// The next try comes after twice as many calls as the last.
void SocketLane::put_off_lane() {
  calls_.store(0);
  bytes_.store(0);
  bypass_until_.store(0);
  calls_needed_ = calls_needed_ == 0 ? kCallsAgain : std::min(2 * calls_needed_, kMostCallsAgain);
}

// Both locked.
void SocketLane::start_bypass() {
  if (lane_ != nullptr || inherited_bytes_ != nullptr || kept_ != nullptr || reset_) return;
  read_known_ = false;
  calls_.store(calls_needed_);
  bypass_calls_.store(static_cast<std::int32_t>(calls_needed_));
}

void SocketLane::lane_refused(Reason why) {
  counters::fell(why);
  {
    const std::scoped_lock both(in_, out_);
    if (stage_ == Stage::kOpen) return;  // it opened while it was being cancelled
    stage_ = Stage::kNone;
    shown_.set(ShownSocket::Way::kKernel, why);
    put_off_lane();
    const bool never = why == Reason::kLocal || why == Reason::kOffLink || why == Reason::kOff ||
                       why == Reason::kOtherNic || why == Reason::kStandardStream ||
                       why == Reason::kPassed;
    if ((never || forbidden_) && inherited_bytes_ == nullptr && kept_ == nullptr) {
      stay_with_kernel();
    } else {
      start_bypass();
    }
  }
  if (!may_use_lane()) changed();
}

bool SocketLane::lane_over(LaneEndpoint& end) {
  const std::scoped_lock both(in_, out_);
  if (lane_ != &end) return true;
  if (end.pins != 0) return false;  // the thread that holds the pin calls the background thread again
  {
    const std::scoped_lock lane_guard(end.lane.lock());
    if (!end.lane.control.over()) return false;
    // Bytes that have not come are to go through the kernel first.
    if (end.lane.loss.wants_fall_back() && !fell_ && !reset_ && !closed()) return false;
    if (end.lane.rx.unread() != 0) return false;
    if (!closed() && end.lane.loss.may_get_early_record()) return false;
    if (end.lane.control.started() && receiving_ != Phase::kKernelAgain) return false;
  }
  const Reason ended = shown_.reason() != Reason::kNone ? shown_.reason() : fell_ ? Reason::kLost : Reason::kEnd;
  shown_.set(ShownSocket::Way::kKernel, ended);
  early_end_ = fell_ = false;
  end.wire.close_memories();
  lane_ = nullptr;
  stage_ = Stage::kNone;
  receiving_changed(RouteEvent::kLaneChanged);
  sending_changed(RouteEvent::kLaneChanged);
  put_off_lane();
  if (forbidden_ && inherited_bytes_ == nullptr && kept_ == nullptr) {
    stay_with_kernel();
  }
  return true;
}

void SocketLane::finish_lane() {
  const std::scoped_lock both(in_, out_);
  if (lane_ == nullptr) return;
  const std::scoped_lock lane_guard(lane_->lane.lock());
  lane_->lane.rx.deafen();
  lane_->lane.finish(true);
}

void SocketLane::forbid(Reason why) {
  {
    const std::scoped_lock both(in_, out_);
    forbidden_ = true;
    shown_.set(stage_ == Stage::kOpen ? ShownSocket::Way::kLane : ShownSocket::Way::kKernel, why);
    if (stage_ == Stage::kNone && inherited_bytes_ == nullptr && kept_ == nullptr) {
      stay_with_kernel();
    }
  }
  counters::fell(why);
  if (!may_use_lane()) changed();
}

void SocketLane::listens() {
  lane_wanted_.store(false, std::memory_order_release);
  shown_.set(ShownSocket::Way::kListens, Reason::kNone);
  changed();
}

// A call has moved data through the kernel: is the connection worth a lane by now?
void SocketLane::note_kernel_bytes(int fd, ssize_t bytes) {
  if (bytes <= 0 || stage_ != Stage::kNone || !may_use_lane()) return;
  if (bypasses()) {
    count_bypass(bytes);
    return;
  }
  const std::uint32_t calls = calls_.fetch_add(1, std::memory_order_relaxed) + 1;
  const std::uint64_t all =
      bytes_.fetch_add(static_cast<std::uint64_t>(bytes), std::memory_order_relaxed) +
      static_cast<std::uint64_t>(bytes);
  if (begins_.load(std::memory_order_relaxed) && begins_.exchange(false)) {
    connection_made(fd, Role::kCaller);
    if (stage_ != Stage::kNone || bypasses()) return;
  }
  if (calls_needed_ == 0) {
    if (calls < options().upgrade_after && all < options().upgrade_bytes) return;
  } else if (calls < calls_needed_) {
    return;
  }
  ask_for_lane(fd);
}

void SocketLane::connection_made(int fd, Role role) {
  role_.store(role);
  if (!may_use_lane()) return;
  const std::uint32_t calls = background::calls_before_lane(fd, role);
  if (calls == 0) return ask_for_lane(fd);
  if (calls == PeerHistory::kAsUsual) return;
  const std::scoped_lock both(in_, out_);
  if (stage_ != Stage::kNone) return;
  calls_needed_ = calls;
  start_bypass();
  bypass_until_.store(now_ns() + kShortNs);
}

void SocketLane::look_at_bypass(ssize_t moved) {
  const auto more = static_cast<std::uint64_t>(moved);
  const std::uint64_t bytes = bytes_.fetch_add(more, std::memory_order_relaxed) + more;
  if (bytes < options().upgrade_bytes && now_ns() < bypass_until_.load()) return;
  bypass_until_.store(0);
  bypass_calls_.store(0);
}

void SocketLane::ask_for_lane(int fd) {
  {
    const std::scoped_lock both(in_, out_);
    // Such a receive, of another thread or interrupted by a handler, would not hear of a lane.
    if (undisturbed_.load() != 0) return;
    if (stage_ != Stage::kNone || forbidden_ || reset_ || inherited_bytes_ != nullptr || kept_ != nullptr) return;
    if (holders_ != nullptr && !sole_holder(*holders_)) {
      calls_.store(0);
      if (shown_.reason() != Reason::kShared) counters::fell(Reason::kShared);
      shown_.set(ShownSocket::Way::kKernel, Reason::kShared);
      return;
    }
    if (!read_known_ && !bytes_read(fd, kernel_read_)) {
      forbidden_ = true;
      return;
    }
    read_known_ = true;
    stage_ = Stage::kAsked;
    shown_.set(ShownSocket::Way::kAsked, Reason::kNone);
  }
  if (const Reason why = background::ask(*this, fd, role_.load()); why != Reason::kNone) lane_refused(why);
}

}  // namespace viaduct::sovia
