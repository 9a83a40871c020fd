#include "sovia/socket/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <mutex>

#include "sovia/lane/waiting.h"
#include "sovia/process/counters.h"
#include "sovia/process/libc.h"
#include "sovia/process/options.h"
#include "sovia/process/own_descriptors.h"
#include "sovia/socket/background_requests.h"
#include "sovia/socket/fallback.h"
#include "sovia/socket/fork_handoff.h"
#include "sovia/socket/lane_endpoint.h"
#include "sovia/socket/lane_life.h"

namespace viaduct::sovia {
namespace {

// The condition that a lane has ended: both directions, or sending alone.
class LaneOver final : public WaitCondition {
 public:
  LaneOver(Socket& socket, Lane& lane, bool both) : socket_(socket), lane_(lane), both_(both) {}
  bool ready() override {
    const std::scoped_lock guard(lane_.lock());
    lane_.poll();
    if (both_) lane_.rx.spill_arrivals();
    if (lane_.control.broken()) return true;
    return both_ ? lane_.control.over() : lane_.control.sending() == Lane::State::kEnded;
  }
  bool concerns(const Watched& source) const override { return &source == &socket_; }

 private:
  Socket& socket_;
  Lane& lane_;
  const bool both_;
};

class AllArrived final : public WaitCondition {
 public:
  AllArrived(Socket& socket, Lane& lane) : socket_(socket), lane_(lane) {}
  bool ready() override {
    const std::scoped_lock guard(lane_.lock());
    lane_.poll();
    return lane_.control.broken() || lane_.ring.unsent() == 0;
  }
  bool concerns(const Watched& source) const override { return &source == &socket_; }

 private:
  Socket& socket_;
  Lane& lane_;
};

// Copies a descriptor that is about to be closed, for the library.
int keeper_of(int fd) {
  const int error = errno;
  const int keeper = own_descriptors::adopt(libc::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  errno = error;
  return keeper;
}

bool is_over(LaneEndpoint& end) {
  const std::scoped_lock guard(end.lane.lock());
  return end.lane.control.over();
}

// Waits until all data sent has arrived. False: it has not in time. Completions make no entries in the completion
// queue, so it looks often.
bool await_arrival(Socket& socket, Lane& lane, std::uint64_t ns) {
  AllArrived arrived(socket, lane);
  constexpr std::uint64_t kLookNs = 200'000;
  const std::uint64_t end = now_ns() + ns;
  for (std::uint64_t now; (now = now_ns()) < end;) {
    if (wait_for(arrived, nullptr, 0, std::min(now + kLookNs, end), nullptr, true, Signals::kWait) ==
        Woken::kReady) {
      return true;
    }
  }
  return arrived.ready();
}

// Waits for a moment for the data sent last, which as a rule arrives meanwhile; then the connection can end at once.
void await_moment_before_close(Socket& socket) {
  LaneEndpoint* end;
  {
    const std::scoped_lock both(socket.rx.lock, socket.tx.lock);
    end = socket.link.end;
    if (end == nullptr || socket.fallback.done || socket.tx.route != Phase::kLane) return;
    const std::scoped_lock lane_guard(end->lane.lock());
    end->lane.tx.flush();
    end->push_held();
    if (end->lane.ring.unsent() == 0) return;
    ++end->pins;
  }
  constexpr std::uint64_t kMomentNs = 50'000;
  await_arrival(socket, end->lane, std::min(kMomentNs, options().spin_us * 1000));
  const std::scoped_lock guard(socket.tx.lock);
  unpin(*end);
}

bool is_connected(int fd) {
  sockaddr_storage name;
  socklen_t length = sizeof name;
  return libc::getpeername(fd, reinterpret_cast<sockaddr*>(&name), &length) == 0;
}

}  // namespace

void Socket::leave_sending(int fd, Reason why) {
  LaneEndpoint* end;
  {
    const std::scoped_lock both(rx.lock, tx.lock);
    tx.lane_forbidden = true;
    link.shown.set(ShownSocket::Way::kKernel, why);
    end = link.end;
    if (end != nullptr) {
      const std::scoped_lock lane_guard(end->lane.lock());
      if (tx.route == Phase::kLane) counters::fell(why);
      end->lane.finish(false);
      sending_changed(RouteEvent::kLaneEnded);
      if (end->lane.control.sending() == Lane::State::kEnded) return;
      ++end->pins;
    }
  }
  if (end == nullptr) return await_kernel(*this, fd);
  await_end_of_sending(fd, *end);
}

// Bytes that the kernel sends next must not overtake those on the lane. Gives a pin of the lane back.
void Socket::await_end_of_sending(int fd, LaneEndpoint& end) {
  LaneOver over(*this, end.lane, false);
  wait_for(over, nullptr, 0, now_ns() + kLeaveNs, nullptr, true, Signals::kWait);
  bool ended;
  {
    const std::scoped_lock guard(end.lane.lock());
    ended = end.lane.control.sending() == Lane::State::kEnded || end.lane.control.is_cut();
  }
  if (!ended) end.give_up();
  fall_back(*this, fd);
  await_kernel(*this, fd);
  const std::scoped_lock guard(tx.lock);
  unpin(end);
}

bool Socket::await_coming_down(int fd) {
  LaneEndpoint* end;
  {
    const std::scoped_lock guard(tx.lock);
    end = link.end;
    if (end == nullptr) return false;
    const std::scoped_lock lane_guard(end->lane.lock());
    const bool breaks = end->lane.control.broken() && !end->lane.control.is_cut() && !fallback.done;
    if (!is_coming_down(*this) && !breaks) return false;
    ++end->pins;
  }
  await_end_of_sending(fd, *end);
  return true;
}

LaneEndpoint* Socket::begin_leaving(int fd, Reason why) {
  if (!may_use_lane()) return nullptr;
  bool asked;
  {
    const std::scoped_lock both(rx.lock, tx.lock);
    asked = link.stage == LaneStage::kAsked;
  }
  if (asked && background::cancel(*this)) lane_refused(*this, why);
  LaneEndpoint* end;
  {
    const std::scoped_lock both(rx.lock, tx.lock);
    end = link.end;
    if (end == nullptr) return nullptr;
    ++end->pins;
    const std::scoped_lock lane_guard(end->lane.lock());
    if (end->lane.greeting.greeted()) {
      end->lane.finish(false);
      end->lane.ask_to_leave();
    } else {
      // Nothing has gone over the lane, and its other end is not verified to be the peer.
      end->lane.cut();
    }
    sending_changed(RouteEvent::kLaneEnded);
    link.shown.set(ShownSocket::Way::kKernel, why);
  }
  end->end_sign_of_life(fd);
  counters::fell(why);
  SOVIA_LOG("%d: leaves the lane: %s", fd, text_of(why));
  return end;
}

// A lane that the peer does not leave in time is given up. Its unacknowledged bytes go through the kernel, as soon as
// there is room.
void Socket::end_leaving(int fd, LaneEndpoint& end, std::uint64_t deadline) {
  LaneOver over(*this, end.lane, true);
  wait_for(over, nullptr, 0, deadline, nullptr, true, Signals::kWait);
  if (!is_over(end)) end.give_up();
  fall_back(*this, fd);
  await_kernel(*this, fd);
  const std::scoped_lock both(rx.lock, tx.lock);
  {
    const std::scoped_lock lane_guard(end.lane.lock());
    if (rx.route == Phase::kKernel && end.lane.control.started()) settle_receiving(end.lane);
  }
  unpin(end);
}

void Socket::leave(int fd, Reason why) {
  LaneEndpoint* const end = begin_leaving(fd, why);
  if (end != nullptr) end_leaving(fd, *end, now_ns() + kLeaveNs);
  // A program that reads past the library would get the record, so it is taken first.
  if (why == Reason::kSplice) await_record(*this, fd, kNever);
}

void Socket::leave_for_good(int fd, Reason why) {
  link.left_for_good.store(true);
  leave(fd, why);
  forbid(*this, why);
}

int Socket::shutdown(int fd, int how) {
  if (MessageLayer* const layer = modes.message_layer(); layer != nullptr) {
    how = layer->before_shutdown(how);
    if (how == MessageLayer::kNothing) return 0;
  }
  return shut_stream(fd, how);
}

int Socket::shut_stream(int fd, int how) {
  if (how != SHUT_WR) progress();  // what has come before is unread, and no cause of a reset
  if (how == SHUT_RDWR) {
    // Data that comes while the call waits is refused.
    const std::scoped_lock guard(rx.lock);
    if (link.end != nullptr) {
      const std::scoped_lock lane_guard(link.end->lane.lock());
      link.end->lane.rx.refuse_data();
    }
  }
  if (how == SHUT_WR || how == SHUT_RDWR) await_moment_before_close(*this);
  bool later = false;
  int result = 0;
  int error = errno;
  {
    const std::scoped_lock both(rx.lock, tx.lock);
    if (how == SHUT_RD || how == SHUT_RDWR) rx.shut = true;
    if (how == SHUT_WR || how == SHUT_RDWR) {
      tx.lane_forbidden = tx.shut = true;
      if (link.end != nullptr) {
        const std::scoped_lock lane_guard(link.end->lane.lock());
        link.end->lane.finish(false);
        sending_changed(RouteEvent::kLaneEnded);
        background::look_at(*link.end);
        later = !fallback.done && link.end->lane.ring.unsent() != 0;
      }
      // The kernel's end is sent later: behind it, nothing could be resent for a lane that breaks.
      if (later || !tx.unacked.empty()) {
        later = true;
        // Before the background thread may end the kernel's stream: behind the peer's end the socket would be closed then,
        // and no longer connected.
        if (!is_connected(fd)) {
          error = ENOTCONN;
          result = -1;
        } else if (how == SHUT_RDWR) {
          libc::shutdown(fd, SHUT_RD);
        }
        tx.shut_later = true;
        be_watched(*this);
      }
    }
    refuse_data_if_shut(*this);
  }
  if (!later && (result = libc::shutdown(fd, how)) != 0) error = errno;
  changed(POLLIN | POLLOUT | kRouteChange);  // an edge, as with TCP
  errno = error;
  return result;
}

void Socket::release(int fd) {
  if (MessageLayer* const layer = modes.message_layer(); layer != nullptr) layer->before_release();
  link.left_for_good.store(true);
  detach(*this);
  bool asked;
  {
    const std::scoped_lock both(rx.lock, tx.lock);
    tx.lane_forbidden = true;
    asked = link.stage == LaneStage::kAsked;
  }
  if (asked && background::cancel(*this)) lane_refused(*this, Reason::kEnd);
  LaneEndpoint* end;
  linger linger{};
  bool resets;
  await_moment_before_close(*this);
  if (link.stage == LaneStage::kOpen) progress();  // bytes that have come are unread ones, which TCP answers with a reset
  {
    const std::scoped_lock both(rx.lock, tx.lock);
    const bool stays = record_would_reset(*this, fd);
    if (!stays) rx.replace_inherited(nullptr);
    tx.shut_later = tx.shut_later || stays;
    const bool flushed = send_unacked(*this, fd);
    shut_if_due(*this, fd);
    if (!flushed || stays) background::watch_fall(*this, keeper_of(fd));
    end = link.end;
    if (end == nullptr) return;
    socklen_t length = sizeof linger;
    libc::getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &length);
    const std::scoped_lock lane_guard(end->lane.lock());
    settle_receiving(end->lane);
    // TCP resets a connection that is closed before all was read.
    if (end->lane.rx.unread() != 0 && rx.route != Phase::kKernel) {
      const struct linger now = {1, 0};
      libc::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    // A copy of the descriptor keeps the connection open for bytes that may not arrive over the lane.
    resets = end->lane.rx.unread() != 0 || (linger.l_onoff != 0 && linger.l_linger == 0);
    const bool unsent = end->lane.ring.unsent() != 0 && !fallback.done;
    if (unsent && !resets) end->keeper.store(keeper_of(fd));
    end->lane.rx.refuse_data();
    end->lane.rx.close_reading();
    end->lane.finish(true);
    sending_changed(RouteEvent::kLaneEnded);
    receiving_changed(RouteEvent::kLaneEnded);
    background::look_at(*end);
    resets = resets && unsent;
    if (!resets && (linger.l_onoff == 0 || linger.l_linger <= 0 || !modes.blocks(fd, 0))) return;
    ++end->pins;
  }
  // A reset drops what is unsent. The peer, which may never make room for it, is to notice at once.
  if (resets) {
    end->give_up();
  } else {
    LaneOver over(*this, end->lane, false);
    wait_for(over, nullptr, 0, deadline_in_ms(linger.l_linger * 1000L), nullptr, true,
             Signals::kWait);
  }
  const std::scoped_lock both(rx.lock, tx.lock);
  unpin(*end);
}

}  // namespace viaduct::sovia
