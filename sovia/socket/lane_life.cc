#include "sovia/socket/lane_life.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <mutex>

#include "sovia/process/counters.h"
#include "sovia/process/libc.h"
#include "sovia/process/options.h"
#include "sovia/socket/background_requests.h"
#include "sovia/socket/fallback.h"
#include "sovia/socket/lane_endpoint.h"
#include "sovia/socket/quick_bypass.h"

namespace viaduct::sovia {

void refuse_data_if_shut(Socket& socket) {
  if (!socket.rx.shut || !socket.tx.shut || socket.link.end == nullptr) return;
  const std::scoped_lock guard(socket.link.end->lane.lock());
  socket.link.end->lane.rx.refuse_data();
}

bool leave_ended_lane(Socket& socket) {
  Lane& lane = socket.link.end->lane;
  if (socket.tx.route != Phase::kLane) return false;
  const bool up = lane.control.sending() == Lane::State::kUp;
  if (up && !lane.control.peer_closed() && !socket.reset.ended_by_kernel()) return false;
  lane.finish(false);
  socket.sending_changed(RouteEvent::kLaneEnded);
  return true;
}

bool lane_opened(Socket& socket, LaneEndpoint& end) {
  const std::scoped_lock both(socket.rx.lock, socket.tx.lock);
  if (socket.link.stage != LaneStage::kAsked || socket.link.left_for_good.load() || socket.reset) return false;
  // The process may have forked after the decision to ask for a lane.
  if (socket.handoff.is_shared()) {
    socket.link.on(LaneEvent::kRefused);
    return false;
  }
  socket.link.on(LaneEvent::kOpened);
  socket.link.end = &end;
  socket.receiving_changed(RouteEvent::kLaneChanged);
  socket.sending_changed(RouteEvent::kLaneChanged);
  if (socket.tx.shut) {
    // The program shut the direction down while the lane was asked for. The peer waits for the end of the kernel's
    // stream and for the lane's FIN, so FIN is sent.
    const std::scoped_lock lane_guard(end.lane.lock());
    end.lane.finish(false);
    socket.sending_changed(RouteEvent::kLaneEnded);
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
  const std::scoped_lock guard(socket.rx.lock);
  pollfd at{fd, POLLRDHUP, 0};
  if (libc::poll(&at, 1, 0) > 0 && (at.revents & (POLLRDHUP | POLLHUP)) != 0) socket.rx.end_counts = true;
  const std::scoped_lock lane_guard(end.lane.lock());
  end.lane.trust();
}

bool settle(Socket& socket, LaneEndpoint& end) {
  const std::scoped_lock both(socket.rx.lock, socket.tx.lock);
  if (socket.link.end != &end) return false;
  const std::scoped_lock lane_guard(end.lane.lock());
  const bool came_down = leave_ended_lane(socket);
  if (socket.rx.route != Phase::kKernel) return came_down;
  socket.settle_receiving(end.lane);
  return came_down || socket.rx.route != Phase::kKernel;
}

// The caller holds a stream's lock, so the end is not freed between the two statements.
void unpin(LaneEndpoint& end) {
  if (--end.pins == 0 && end.skipped && end.skipped.exchange(false)) background::look_at(end);
}

bool is_on_lane(Socket& socket) {
  const std::scoped_lock both(socket.rx.lock, socket.tx.lock);
  return socket.rx.route == Phase::kLane || socket.tx.route == Phase::kLane;
}

std::uint32_t lane_number(Socket& socket) {
  const std::scoped_lock guard(socket.rx.lock);
  if (socket.handoff.holders != nullptr) socket.link.number.store(socket.handoff.holders->lanes.load());
  return socket.link.number.load();
}

namespace {

// Both locked.
void start_bypass(Socket& socket, Reason why) {
  if (socket.link.end != nullptr || !socket.has_nothing_left() || socket.reset) return;
  socket.rx.read_known = false;
  if (why == Reason::kSlower || why == Reason::kTrial) {
    socket.demand.bypass_this_round();
  } else {
    socket.demand.begin_bypass();
  }
}

}  // namespace

void lane_refused(Socket& socket, Reason why) {
  if (why != Reason::kTrial) counters::fell(why);
  {
    const std::scoped_lock both(socket.rx.lock, socket.tx.lock);
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

bool lane_over(Socket& socket, LaneEndpoint& end) {
  const std::scoped_lock both(socket.rx.lock, socket.tx.lock);
  if (socket.link.end != &end) return true;
  if (end.is_pinned()) return false;
  bool slower;
  {
    const std::scoped_lock lane_guard(end.lane.lock());
    if (!end.lane.control.over()) return false;
    slower = end.lane.control.slower_for_ms().has_value();
    // Bytes that have not arrived must go through the kernel first.
    if (end.lane.loss.wants_fall_back() && !socket.fallback.done && !socket.reset && !socket.closed()) return false;
    if (end.lane.rx.unread() != 0) return false;
    if (!socket.closed() && end.lane.loss.may_get_early_record()) return false;
    if (end.lane.control.started() && socket.rx.route != Phase::kKernelAgain) return false;
  }
  const Reason known = socket.link.shown.reason();
  Reason ended = slower ? Reason::kSlower : Reason::kEnd;
  if (socket.fallback.done) ended = Reason::kLost;
  socket.link.shown.set(ShownSocket::Way::kKernel, known != Reason::kNone ? known : ended);
  socket.rx.early_end = socket.fallback.done = false;
  if (RemoteMemory* const remote = end.vi.remote(); remote != nullptr) remote->close_memories();
  socket.link.end = nullptr;
  socket.link.on(LaneEvent::kOver);
  socket.receiving_changed(RouteEvent::kLaneChanged);
  socket.sending_changed(RouteEvent::kLaneChanged);
  socket.demand.put_off();
  if (ended == Reason::kSlower && !socket.closed()) start_bypass(socket, ended);
  stay_with_kernel_if_done(socket);
  return true;
}

void leave_slower_lane(Socket& socket, LaneEndpoint& end, std::uint32_t again_ms) {
  {
    const std::scoped_lock both(socket.rx.lock, socket.tx.lock);
    if (socket.link.end != &end || socket.closed()) return;
    const std::scoped_lock lane_guard(end.lane.lock());
    const LaneControl& control = end.lane.control;
    if (control.broken() || control.leaves() || !end.lane.greeting.may_start()) return;
    end.lane.finish(false);
    end.lane.ask_to_leave(again_ms);
    socket.sending_changed(RouteEvent::kLaneEnded);
    socket.link.shown.set(ShownSocket::Way::kKernel, Reason::kSlower);
  }
  counters::fell(Reason::kSlower);
  socket.changed();
}

bool finish_lane(Socket& socket) {
  const std::scoped_lock both(socket.rx.lock, socket.tx.lock);
  if (socket.link.end == nullptr) return true;
  Lane& lane = socket.link.end->lane;
  const std::scoped_lock lane_guard(lane.lock());
  if (lane.rx.unread() != 0 && !socket.closed() && !socket.handoff.is_shared()) return false;
  lane.rx.refuse_data();
  lane.rx.close_reading();
  lane.finish(true);
  return true;
}

void forbid(Socket& socket, Reason why) {
  {
    const std::scoped_lock both(socket.rx.lock, socket.tx.lock);
    socket.tx.lane_forbidden = true;
    const bool open = socket.link.stage == LaneStage::kOpen;
    socket.link.shown.set(open ? ShownSocket::Way::kLane : ShownSocket::Way::kKernel, why);
    stay_with_kernel_if_done(socket);
  }
  counters::fell(why);
  if (!socket.may_use_lane()) socket.changed();
}

void listens(Socket& socket) {
  socket.link.wanted.store(false, std::memory_order_release);
  socket.link.shown.set(ShownSocket::Way::kListens, Reason::kNone);
  socket.changed();
}

namespace {

void ask_for_lane(Socket& socket, int fd) {
  {
    const std::scoped_lock both(socket.rx.lock, socket.tx.lock);
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
  const bool worth = socket.demand.count(direction, static_cast<std::uint64_t>(bytes));
  if (socket.demand.take_connecting()) {
    connection_made(socket, fd, Role::kCaller);
    if (!socket.link.is_idle() || socket.demand.bypasses()) return;
  }
  if (worth) ask_for_lane(socket, fd);
}

void connection_made(Socket& socket, int fd, Role role) {
  socket.demand.set_role(role);
  if (!socket.may_use_lane()) return;
  const std::uint32_t calls = background::calls_before_lane(fd, role);
  if (calls == 0) return ask_for_lane(socket, fd);
  if (calls == PeerHistory::kAsUsual) return;
  const std::scoped_lock both(socket.rx.lock, socket.tx.lock);
  if (!socket.link.is_idle()) return;
  socket.demand.need(calls);
  start_bypass(socket, Reason::kShort);
  socket.demand.limit_bypass();
}

bool is_coming_down(const Socket& socket) {
  const Lane& lane = socket.link.end->lane;
  return !socket.tx.shut && socket.tx.route == Phase::kKernelAgain && lane.control.sending() == Lane::State::kEnding &&
         !lane.control.broken() && !lane.control.peer_closed();
}

bool must_wait_for_lane_end(const Socket& socket, const Lane& lane) {
  // START, all data behind it and the end of the lane may have come since the caller last looked for START.
  if (!lane.greeting.trusted() || socket.rx.end_counts) return false;
  return lane.control.started() || (!lane.control.broken() && lane.control.receiving() != Lane::State::kEnded);
}

}  // namespace viaduct::sovia
