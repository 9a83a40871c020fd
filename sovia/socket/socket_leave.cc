#include "sovia/socket/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

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
#include "xdp/mutex.h"

namespace viaduct::sovia {
namespace {

// The conditions that a lane has ended both ways, and that the peer has all that was sent on it, or also FIN if it is to
// get that.
enum class Awaited : std::uint8_t { kOver, kArrival, kEnd };

class LaneCondition final : public WaitCondition {
 public:
  LaneCondition(Socket& socket, Lane& lane, Awaited awaited) : socket_(socket), lane_(lane), awaited_(awaited) {}
  bool ready() override {
    const LockGuard guard(lane_.lock());
    lane_.poll();
    if (lane_.control.broken()) return true;
    switch (awaited_) {
      case Awaited::kOver: return lane_.control.over() && lane_.control.has_delivered_fin_ack();
      case Awaited::kArrival: break;
      case Awaited::kEnd:
        if (lane_.control.sending() >= Lane::State::kEnding) return lane_.control.has_delivered_end();
    }
    return lane_.ring.unsent() == 0 && !lane_.ring.has_unposted();
  }
  bool concerns(const Watched& source) const override { return &source == &socket_; }

 private:
  Socket& socket_;
  Lane& lane_;
  const Awaited awaited_;
};

// Copies a descriptor that is about to be closed, for the library.
int keeper_of(int fd) {
  const int error = errno;
  const int keeper = own_descriptors::adopt(libc::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  errno = error;
  return keeper;
}

bool is_over(LaneEndpoint& end) {
  const LockGuard guard(end.lane.lock());
  return end.lane.control.over();
}

// The lane carries nothing more, and the background thread has yet to cut it.
bool has_failed(LaneEndpoint& end) {
  const LockGuard guard(end.lane.lock());
  return end.lane.control.broken() && !end.lane.control.is_cut();
}

// Waits for the condition. False: it is not met in time. Completions make no entries in the completion queue, so it looks
// often.
bool await(Socket& socket, Lane& lane, Awaited awaited, std::uint64_t end) {
  LaneCondition condition(socket, lane, awaited);
  constexpr std::uint64_t kLookNs = 200'000;
  for (std::uint64_t now; (now = now_ns()) < end;) {
    if (wait_for(condition, nullptr, 0, std::min(now + kLookNs, end), nullptr, true, Signals::kWait) == Woken::kReady) {
      return true;
    }
  }
  return condition.ready();
}

// Waits for a moment for all that was sent to arrive; then the kernel takes the rest. Gives a pin of the lane back. False: the
// kernel can't take it.
bool land_soon(Socket& socket, int fd, LaneEndpoint& end) {
  constexpr std::uint64_t kMomentNs = 1'000'000;
  await(socket, end.lane, Awaited::kArrival, now_ns() + kMomentNs);
  const TxGuard guard(socket);
  bool goes_on = true;
  if (socket.link.end == &end) {
    const LockGuard lane_guard(end.lane.lock());
    same_lane(end.lane, socket.link.end->lane);
    goes_on = land(socket, fd, true) || end.lane.control.broken();
  }
  unpin(end);
  return goes_on;
}

// Waits for a moment for the data sent last, which as a rule arrives meanwhile; then the connection can end at once.
void await_moment_before_close(Socket& socket) {
  LaneEndpoint* end;
  {
    const StreamsGuard both(socket);
    end = socket.link.end;
    if (end == nullptr || socket.fallback.done || socket.tx.route != TxRoute::kLane) return;
    const LockGuard lane_guard(end->lane.lock());
    end->lane.tx.flush();
    end->push_held();
    if (end->lane.ring.unsent() == 0) return;
    ++end->pins;
  }
  constexpr std::uint64_t kMomentNs = 50'000;
  await(socket, end->lane, Awaited::kArrival, now_ns() + std::min(kMomentNs, options().spin_us * 1000));
  const TxGuard guard(socket);
  unpin(*end);
}

bool is_connected(int fd) {
  sockaddr_storage name;
  socklen_t length = sizeof name;
  return libc::getpeername(fd, reinterpret_cast<sockaddr*>(&name), &length) == 0;
}

// Takes a request for a lane back, if there is one. `last`: no other may follow.
void take_request_back(Socket& socket, Reason why, bool last) {
  bool asked;
  {
    const StreamsGuard both(socket);
    if (last) socket.tx.lane_forbidden = true;
    asked = socket.link.stage == LaneStage::kAsked;
  }
  if (asked && background::cancel(socket)) lane_refused(socket, why);
}

linger linger_of(int fd) {
  linger value{};
  socklen_t length = sizeof value;
  libc::getsockopt(fd, SOL_SOCKET, SO_LINGER, &value, &length);
  return value;
}

// nullptr: there is no lane. Pins it.
LaneEndpoint* ask_both_to_leave(Socket& socket, int fd, Reason why) {
  const StreamsGuard both(socket);
  LaneEndpoint* const end = socket.link.end;
  if (end == nullptr) return nullptr;
  ++end->pins;
  const LockGuard lane_guard(end->lane.lock());
  same_lane(end->lane, socket.link.end->lane);
  if (end->lane.greeting.greeted()) {
    end->lane.ask_to_leave();
    leave_lane(socket, fd, true);
  } else {
    // Nothing has gone over the lane, and its other end is not verified to be the peer.
    end->lane.cut();
  }
  socket.link.shown.set(ShownSocket::Way::kKernel, why);
  return end;
}

}  // namespace

void Socket::leave_sending(int fd, Reason why) {
  LaneEndpoint* end;
  {
    const StreamsGuard both(*this);
    tx.lane_forbidden = true;
    link.shown.set(ShownSocket::Way::kKernel, why);
    end = link.end;
    if (end != nullptr) {
      const LockGuard lane_guard(link.end->lane.lock());
      if (tx.route == TxRoute::kLane) counters::fell(why);
      leave_lane(*this, fd, true);
      ++end->pins;
    }
  }
  if (end == nullptr) return await_kernel(*this, fd);
  await_landing(fd, *end);
  await_kernel(*this, fd);
}

// Gives a pin of the lane back.
void Socket::await_landing(int fd, LaneEndpoint& end) {
  if (!await(*this, end.lane, Awaited::kEnd, now_ns() + kLeaveNs) || has_failed(end)) end.give_up();
  fall_back(*this, fd);
  const TxGuard guard(*this);
  {
    const LockGuard lane_guard(end.lane.lock());
    if (link.end == &end) {
      same_lane(end.lane, link.end->lane);
      land(*this, fd);
    }
  }
  unpin(end);
}

bool Socket::await_coming_down(int fd) {
  LaneEndpoint* end;
  bool for_good;
  {
    const TxGuard guard(*this);
    end = link.end;
    if (end == nullptr) return false;
    const LockGuard lane_guard(end->lane.lock());
    same_lane(end->lane, link.end->lane);
    const bool breaks = end->lane.control.broken() && !end->lane.control.is_cut() && !fallback.done;
    if ((tx.route != TxRoute::kLanding || land(*this, fd)) && !breaks) return false;
    for_good = breaks || end->lane.control.sending() >= Lane::State::kEnding;
    // A peer that does not read has no room for what is on its way.
    if (!for_good && end->lane.ring.has_unposted()) return land(*this, fd, true);
    ++end->pins;
  }
  if (for_good) {
    await_landing(fd, *end);
    return true;
  }
  return land_soon(*this, fd, *end);
}

LaneEndpoint* Socket::begin_leaving(int fd, Reason why) {
  if (!may_use_lane()) return nullptr;
  take_request_back(*this, why, false);
  LaneEndpoint* const end = ask_both_to_leave(*this, fd, why);
  // A record may be owed since the last lane, and others who have the socket know nothing of it.
  if (end == nullptr) {
    await_kernel(*this, fd);
    return nullptr;
  }
  end->end_sign_of_life(fd);
  counters::fell(why);
  SOVIA_LOG("%d: leaves the lane: %s", fd, text_of(why));
  return end;
}

// A lane that the peer does not leave in time is given up. Its unacknowledged bytes go through the kernel, as soon as
// there is room.
void Socket::end_leaving(int fd, LaneEndpoint& end, std::uint64_t deadline) {
  await(*this, end.lane, Awaited::kOver, deadline);
  if (!is_over(end)) end.give_up();
  fall_back(*this, fd);
  {
    const StreamsGuard both(*this);
    const LockGuard lane_guard(end.lane.lock());
    if (link.end == &end) {
      same_lane(end.lane, link.end->lane);
      land(*this, fd);
      settle_receiving(end.lane);
      forget_record_if_sure(*this, end.lane);
    }
    unpin(end);
  }
  await_kernel(*this, fd);
}

void Socket::leave(int fd, Reason why) {
  LaneEndpoint* const end = begin_leaving(fd, why);
  if (end != nullptr) end_leaving(fd, *end, now_ns() + kLeaveNs);
  // A program that reads past the library would get the record, so it is taken first.
  await_record(*this, fd, why == Reason::kSplice ? kNever : now_ns() + kLeaveNs);
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
  progress();  // what has come before is unread, and no cause of a reset
  if (how == SHUT_RDWR) {
    // Data that comes while the call waits is refused.
    const RxGuard guard(*this);
    if (link.end != nullptr) {
      const LockGuard lane_guard(link.end->lane.lock());
      link.end->lane.rx.refuse_data();
    }
  }
  if (how == SHUT_WR || how == SHUT_RDWR) await_moment_before_close(*this);
  bool later = false, reads_on = false;
  int result = 0;
  int error = errno;
  {
    const StreamsGuard both(*this);
    if (how == SHUT_RD || how == SHUT_RDWR) {
      // Bytes behind a record that has come were there before the shutdown.
      if (rx.record().is_expected() && !reset) take_record(*this, fd);
      rx.shut = true;
      reads_on = rx.shut_later = rx.record().is_expected() && !reset && handoff.is_alone() && is_connected(fd);
      if (reads_on) be_watched(*this);
    }
    if (how == SHUT_WR || how == SHUT_RDWR) {
      tx.lane_forbidden = tx.shut = true;
      if (link.end != nullptr) {
        const LockGuard lane_guard(link.end->lane.lock());
        leave_lane(*this, fd, true);
        background::look_at(*link.end);
        later = !fallback.done && tx.route != TxRoute::kKernel;
      }
      // A lane that is whole has told the peer of the end: it needs no record.
      if (tx.owed.waits() && !fallback.done) tx.owed.drop();
      // The kernel's end is sent later: behind it, nothing could be resent for a lane that breaks.
      if (later || !send_owed(*this, fd)) {
        later = true;
        // Before the background thread may end the kernel's stream: behind the peer's end the socket would be closed then,
        // and no longer connected.
        if (!is_connected(fd)) {
          error = ENOTCONN;
          result = -1;
        } else if (how == SHUT_RDWR && !reads_on) {
          libc::shutdown(fd, SHUT_RD);
        }
        tx.shut_later = true;
        be_watched(*this);
      }
    }
    refuse_data_if_shut(*this);
    accept_no_more(*this, fd);
  }
  const bool shuts_now = !later && !(reads_on && how == SHUT_RD);
  if (shuts_now && (result = libc::shutdown(fd, reads_on ? SHUT_WR : how)) != 0) error = errno;
  changed(POLLIN | POLLOUT | kRouteChange);  // an edge, as with TCP
  errno = error;
  return result;
}

void Socket::release(int fd) {
  if (MessageLayer* const layer = modes.message_layer(); layer != nullptr) layer->before_release();
  link.left_for_good.store(true);
  detach(*this);
  reset_if_unread(*this, fd);
  take_request_back(*this, Reason::kEnd, true);
  LaneEndpoint* end;
  linger linger{};
  bool resets;
  await_moment_before_close(*this);
  if (link.stage == LaneStage::kOpen) progress();  // bytes that have come are unread ones, which TCP answers with a reset
  {
    const StreamsGuard both(*this);
    end = link.end;
    // Else it is the kernel's business alone, and the call would cost each connection without a lane.
    if (end != nullptr || rx.record().is_expected() || !tx.owed.empty()) linger = linger_of(fd);
    const bool aborts = linger.l_onoff != 0 && linger.l_linger == 0;
    // The kernel resets a connection that is to be aborted, and drops what a copy of the descriptor would wait for.
    const bool drops = aborts && handoff.is_alone();
    const bool flushed = send_owed(*this, fd) || drops;
    const bool stays = !end_record(*this, fd) && !drops;
    if (!stays) rx.replace_inherited(nullptr);
    tx.shut_later = tx.shut_later || (stays && handoff.is_alone());
    shut_if_due(*this, fd);
    if (!flushed || stays) background::watch_fall(*this, keeper_of(fd));
    if (end == nullptr) return;
    // TCP resets a connection that is closed before all was read.
    resets = reset || unread_locked(fd) != 0 || aborts;
    const LockGuard lane_guard(end->lane.lock());
    resets = resets || end->lane.rx.has_refused();
    // A copy of the descriptor keeps the connection open for bytes that may not arrive over the lane, and for a reset that
    // answers what the peer has sent before it knows of the end.
    const bool unsent = end->lane.ring.unsent() != 0 && !fallback.done;
    const bool may_refuse = end->lane.control.receiving() == Lane::State::kUp && !fallback.done;
    if ((unsent || may_refuse) && !resets) end->keeper.store(keeper_of(fd));
    end->lane.rx.refuse_data();
    end->lane.rx.close_reading();
    tx.shut = true;
    if (tx.route == TxRoute::kLane) sending_changed(TxRoute::kLanding);
    end->lane.finish(true);
    background::look_at(*end);
    // The program's close may not do it: the library has a copy of the descriptor if shutdown() has left the end for later.
    if (resets && !handoff.is_shared()) reset_connection(*this, fd);
    resets = resets && unsent;
    if (!resets && (linger.l_onoff == 0 || linger.l_linger <= 0 || !modes.blocks(fd, 0))) return;
    ++end->pins;
  }
  // A reset drops what is unsent. The peer, which may never make room for it, is to notice at once.
  if (resets) {
    end->give_up();
  } else {
    await(*this, end->lane, Awaited::kEnd, deadline_in_ms(linger.l_linger * 1000L));
  }
  const StreamsGuard both(*this);
  unpin(*end);
}

}  // namespace viaduct::sovia
