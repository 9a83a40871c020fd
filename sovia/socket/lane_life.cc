#include "sovia/socket/lane_life.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>

#include "sovia/lane/tcp_route.h"
#include "sovia/lane/waiting.h"
#include "sovia/process/clock.h"
#include "sovia/process/counters.h"
#include "sovia/process/libc.h"
#include "sovia/process/options.h"
#include "sovia/socket/background_requests.h"
#include "sovia/socket/fallback.h"
#include "sovia/socket/lane_endpoint.h"
#include "sovia/socket/quick_bypass.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {

void refuse_data_if_shut(Socket& socket) {
  if (!socket.rx.shut || !socket.tx.shut || socket.link.end == nullptr) return;
  const LockGuard guard(socket.link.end->lane.lock());
  socket.link.end->lane.rx.refuse_data();
}

void leave_ended_lane(Socket& socket, int fd) {
  Lane& lane = socket.link.end->lane;
  same_lane(socket.link.end->lane, lane);
  const bool leaves = lane.control.peer_closed() || lane.control.peer_leaves() || socket.reset.ended_by_kernel();
  if (leaves && lane.control.sending() <= Lane::State::kUp) leave_lane(socket, fd, true);
}

bool lane_opened(Socket& socket, LaneEndpoint& end) {
  const StreamsGuard both(socket);
  if (socket.link.stage != LaneStage::kAsked || socket.link.left_for_good.load() || socket.reset) return false;
  // The process may have forked after the decision to ask for a lane.
  if (socket.handoff.is_shared()) {
    socket.link.on(LaneEvent::kRefused);
    return false;
  }
  socket.link.on(LaneEvent::kOpened);
  socket.link.end = &end;
  socket.routes_changed();
  if (socket.tx.shut) {
    // The program shut the direction down while the lane was asked for. The peer waits for the end of the kernel's
    // stream and for the lane's FIN, so FIN is sent.
    const LockGuard lane_guard(end.lane.lock());
    end.lane.finish(false);
  }
  refuse_data_if_shut(socket);
  socket.link.shown.set(ShownSocket::Way::kLane, Reason::kNone);
  socket.link.number.fetch_add(1);
  if (socket.handoff.holders != nullptr) socket.handoff.holders->lanes.store(socket.link.number.load());
  return true;
}

// An end of the kernel's stream that has come already is the end of the connection: the peer could not know yet that it
// may begin with the lane. A later one is the end of the connection only when the lane's end has come too; readiness
// waits for both from now on.
void trust_lane(Socket& socket, LaneEndpoint& end, int fd) {
  const RxGuard guard(socket);
  if (!may_get_more(fd)) socket.rx.end_counts = true;
  const LockGuard lane_guard(end.lane.lock());
  end.lane.trust();
}

bool settle(Socket& socket, LaneEndpoint& end) {
  const StreamsGuard both(socket);
  if (socket.link.end != &end) return false;
  const std::uint32_t before = socket.routes();
  const LockGuard lane_guard(end.lane.lock());
  same_lane(end.lane, socket.link.end->lane);
  leave_ended_lane(socket, -1);
  land(socket, -1);
  socket.settle_receiving(end.lane);
  return socket.routes() != before;
}

// The caller holds a stream's lock, so the end is not freed between the two statements.
void unpin(LaneEndpoint& end) {
  if (--end.pins == 0 && end.skipped && end.skipped.exchange(false)) background::look_at(end);
}

bool is_on_lane(Socket& socket) {
  const StreamsGuard both(socket);
  return socket.rx.on_lane || socket.tx.route == TxRoute::kLane;
}

std::uint32_t lane_number(Socket& socket) {
  const RxGuard guard(socket);
  if (socket.handoff.holders != nullptr) socket.link.number.store(socket.handoff.holders->lanes.load());
  return socket.link.number.load();
}

namespace {

bool may_bypass(const Socket& socket) SOVIA_STREAM_LOCKED {
  return socket.link.end == nullptr && socket.has_nothing_left() && !socket.reset;
}

void start_bypass(Socket& socket, Reason why) SOVIA_BOTH_LOCKED(socket) {
  if (!may_bypass(socket)) return;
  socket.rx.read_known = false;
  if (why == Reason::kSlower) {
    socket.demand.bypass_this_round();
  } else {
    socket.demand.begin_bypass();
  }
}

}  // namespace

void lane_refused(Socket& socket, Reason why) {
  counters::fell(why);
  {
    const StreamsGuard both(socket);
    if (!socket.link.on(LaneEvent::kRefused)) return;  // the lane opened while it was being cancelled
    socket.link.shown.set(ShownSocket::Way::kKernel, why);
    socket.demand.put_off();
    const bool never = why == Reason::kLocal || why == Reason::kOffLink || why == Reason::kOff ||
                       why == Reason::kSandbox || why == Reason::kIoUring ||
                       why == Reason::kOtherNic || why == Reason::kStandardStream ||
                       why == Reason::kPassed || why == Reason::kChosen;
    if ((never || socket.tx.lane_forbidden) && socket.has_nothing_left()) {
      socket.stay_with_kernel();
    } else {
      start_bypass(socket, why);
    }
  }
  if (!socket.may_use_lane()) socket.changed();
}

bool forget_record_if_sure(Socket& socket, Lane& lane) {
  lane.ring.reap();
  if (!lane.control.has_delivered_fin_ack()) return false;
  const bool is_sure = lane.control.receiving() == Lane::State::kEnded && !socket.rx.on_lane;
  if (is_sure && socket.rx.record().may_be_missing()) socket.rx.record().forget();
  return true;
}

bool lane_over(Socket& socket, LaneEndpoint& end) {
  const StreamsGuard both(socket);
  if (socket.link.end != &end) return true;
  if (end.is_pinned()) return false;
  bool slower;
  {
    const LockGuard lane_guard(end.lane.lock());
    if (!end.lane.control.over()) return false;
    // The thread that is about to release the socket has a descriptor yet, to answer data that was refused.
    if (socket.closed() && !end.lane.control.is_reading_closed()) return false;
    slower = end.lane.control.slower_for_ms().has_value();
    // Bytes that have not arrived must go through the kernel first.
    end.lane.ring.reap();
    if (end.lane.control.is_lost() && !socket.fallback.done && !socket.reset && !socket.closed()) return false;
    socket.settle_receiving(end.lane);
    if (end.lane.rx.unread() != 0) return false;
    const bool moves = socket.rx.on_lane || socket.tx.route != TxRoute::kKernel;
    if (moves && !socket.closed() && !socket.reset) return false;
    if (!forget_record_if_sure(socket, end.lane) && !socket.closed() && !end.lane.control.is_cut()) return false;
  }
  const Reason known = socket.link.shown.reason();
  Reason ended = slower ? Reason::kSlower : Reason::kEnd;
  if (socket.fallback.done) ended = Reason::kLost;
  socket.link.shown.set(ShownSocket::Way::kKernel, known != Reason::kNone ? known : ended);
  socket.rx.early_end = socket.fallback.done = false;
  if (RemoteMemory* const remote = end.vi.remote(); remote != nullptr) remote->close_memories();
  socket.link.end = nullptr;
  socket.link.on(LaneEvent::kOver);
  socket.rx.on_lane = socket.rx.leaves_lane = false;
  socket.sending_changed(TxRoute::kKernel);
  // A process that is alone with the connection after a fork has it as before.
  known == Reason::kFork ? socket.demand.forget_all() : socket.demand.put_off();
  if (ended == Reason::kSlower && !socket.closed()) start_bypass(socket, ended);
  stay_with_kernel_if_done(socket);
  return true;
}

void leave_slower_lane(Socket& socket, LaneEndpoint& end, std::uint32_t again_ms) {
  {
    const StreamsGuard both(socket);
    if (socket.link.end != &end || socket.closed()) return;
    const LockGuard lane_guard(end.lane.lock());
    same_lane(end.lane, socket.link.end->lane);
    if (end.lane.control.broken() || end.lane.control.leaves() || !end.lane.greeting.may_start()) return;
    leave_lane(socket, -1, true);
    end.lane.ask_to_leave(again_ms);
    socket.link.shown.set(ShownSocket::Way::kKernel, Reason::kSlower);
  }
  counters::fell(Reason::kSlower);
  socket.changed();
}

bool finish_lane(Socket& socket) {
  const StreamsGuard both(socket);
  if (socket.link.end == nullptr) return true;
  Lane& lane = socket.link.end->lane;
  const LockGuard lane_guard(lane.lock());
  if (lane.rx.unread() != 0 && !socket.closed() && !socket.handoff.is_shared()) return false;
  lane.rx.refuse_data();
  lane.rx.close_reading();
  lane.finish(true);
  return true;
}

void forbid(Socket& socket, Reason why) {
  {
    const StreamsGuard both(socket);
    socket.tx.lane_forbidden = true;
    const bool open = socket.link.stage == LaneStage::kOpen;
    socket.link.shown.set(open ? ShownSocket::Way::kLane : ShownSocket::Way::kKernel, why);
    stay_with_kernel_if_done(socket);
  }
  counters::fell(why);
  if (!socket.may_use_lane()) socket.changed();
}

bool goes_in_kernel(Socket& socket, int fd, std::size_t bytes) {
  if (socket.link.end == nullptr) return true;
  const LockGuard lane_guard(socket.link.end->lane.lock());
  if (options().route == kRouteAuto && socket.burst.is_long(bytes)) leave_lane(socket, fd, false);
  return land(socket, fd, true);
}

void await_lane(Socket& socket, int fd) {
  class Decided final : public WaitCondition {
   public:
    explicit Decided(Socket& socket) : socket_(socket) {}
    // The lane is there, or none is to come.
    bool ready() override {
      const TxGuard guard(socket_);
      if (socket_.link.end == nullptr) return socket_.link.is_idle();
      const LockGuard lane_guard(socket_.link.end->lane.lock());
      return socket_.link.end->lane.greeting.may_start() || socket_.link.end->lane.control.broken();
    }
    bool concerns(const Watched& source) const override { return &source == &socket_; }

   private:
    Socket& socket_;
  } decided(socket);
  constexpr std::uint64_t kMostNs = 1'000'000'000;
  if (socket.demand.take_connecting()) connection_made(socket, fd, Role::kCaller);
  wait_for(decided, nullptr, 0, now_ns() + kMostNs, nullptr, false, Signals::kWait);
  const TxGuard guard(socket);
  if (socket.link.end == nullptr) tell_on_stderr("SOVIA_ROUTE=pure: a connection has no lane, and goes on by the kernel");
}

void listens(Socket& socket) {
  socket.link.wanted.store(false, std::memory_order_release);
  socket.link.shown.set(ShownSocket::Way::kListens, Reason::kNone);
  socket.changed();
}

namespace {

void ask_for_lane(Socket& socket, int fd) {
  {
    const StreamsGuard both(socket);
    // An undisturbed receive (socket_receive.cc) of another thread, or one that a signal handler has interrupted, would
    // not notice a lane.
    if (socket.rx.undisturbed.load() != 0 || quick_bypass::is_in_use(socket)) return;
    if (!socket.link.is_idle() || socket.tx.lane_forbidden || socket.reset) return;
    if (!socket.has_nothing_left()) return;
    if (socket.handoff.is_shared()) {
      socket.demand.forget_calls();
      if (socket.link.shown.reason() != Reason::kShared) counters::fell(Reason::kShared);
      socket.link.shown.set(ShownSocket::Way::kKernel, Reason::kShared);
      return;
    }
    if (!socket.rx.read_known && !bytes_read(fd, socket.rx.kernel_read)) {
      socket.tx.lane_forbidden = true;
      return;
    }
    socket.rx.read_known = true;
    socket.link.on(LaneEvent::kAsked);
    socket.link.shown.set(ShownSocket::Way::kAsked, Reason::kNone);
  }
  const Reason why = background::ask(socket, fd, socket.demand.role());
  if (why != Reason::kNone) lane_refused(socket, why);
}

}  // namespace

void count_for_lane(Socket& socket, int fd, Direction direction, ssize_t bytes) {
  if (socket.demand.bypasses()) return socket.demand.count_bypass(static_cast<std::uint64_t>(bytes));
  const bool long_too = options().route != kRouteAuto || socket.modes.carries_messages();
  const LaneDemand::Verdict verdict = socket.demand.count(direction, static_cast<std::uint64_t>(bytes), long_too);
  if (socket.demand.take_connecting()) {
    connection_made(socket, fd, Role::kCaller);
    if (!socket.link.is_idle() || socket.demand.bypasses()) return;
  }
  if (verdict == LaneDemand::Verdict::kLane) ask_for_lane(socket, fd);
  if (verdict != LaneDemand::Verdict::kBypass) return;
  const StreamsGuard both(socket);
  if (!socket.link.is_idle() || !may_bypass(socket)) return;
  socket.rx.read_known = false;
  socket.demand.bypass_burst();
}

void connection_made(Socket& socket, int fd, Role role) {
  socket.demand.set_role(role);
  if (!socket.may_use_lane()) return;
  const std::uint32_t calls = options().route == kRoutePure ? 0 : background::calls_before_lane(fd, role);
  if (calls == 0) return ask_for_lane(socket, fd);
  if (calls == PeerHistory::kAsUsual) return;
  const StreamsGuard both(socket);
  if (!socket.link.is_idle()) return;
  socket.demand.need(calls);
  start_bypass(socket, Reason::kShort);
  socket.demand.limit_bypass();
}

bool must_wait_for_lane_end(const Socket& socket, const Lane& lane) {
  if (socket.link.end == nullptr || !lane.greeting.trusted() || socket.rx.end_counts) return false;
  // The direction may have come to the lane since the caller last looked.
  const bool may_bring_more = !lane.control.is_cut() && lane.control.receiving() != Lane::State::kEnded;
  // Behind a reset the kernel's bytes that come before the lane's do not come.
  return socket.rx.on_lane || (!socket.reset.ended_by_kernel() && (lane.rx.unread() != 0 || may_bring_more));
}

}  // namespace viaduct::sovia
