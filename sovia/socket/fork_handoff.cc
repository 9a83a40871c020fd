#include "sovia/socket/fork_handoff.h"

#include <errno.h>
#include <poll.h>
#include <sys/stat.h>

#include <mutex>
#include <new>

#include "sovia/lane/tcp_route.h"
#include "sovia/process/counters.h"
#include "sovia/process/libc.h"
#include "sovia/socket/background_requests.h"
#include "sovia/socket/fallback.h"
#include "sovia/socket/inherited_bytes.h"
#include "sovia/socket/lane_endpoint.h"

namespace viaduct::sovia {
namespace {

// Receives `bytes` from the kernel, which has them or gets them soon as long as the connection lives. Returns how many
// came. After shutdown(SHUT_RD) the kernel tells of an end before bytes that are on their way.
std::size_t receive_all(int fd, std::byte* to, std::size_t bytes) {
  std::size_t done = 0;
  while (done < bytes) {
    const bool more = may_get_more(fd);
    const ssize_t got = libc::recv(fd, to + done, bytes - done, MSG_DONTWAIT);
    if (got > 0) {
      done += static_cast<std::size_t>(got);
      continue;
    }
    if (got == 0 && more) {
      libc::poll(nullptr, 0, 1);
      continue;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) break;
    pollfd one{fd, POLLIN, 0};
    libc::poll(&one, 1, 10);
  }
  return done;
}

template <class T>
void renew(T& object) {
  new (&object) T;
}

// Moves unread bytes that this process alone can read to shared memory: the rest of inherited bytes, then the kernel's
// bytes that come before the lane's, then the lane's. Both locked.
void gather_unread(Socket& socket, int fd) {
  if (socket.link.end == nullptr) return;
  // A reset drops the kernel's bytes. The lane's can still be read, if none of the kernel's come before them.
  if (socket.reset && socket.rx.route != Phase::kLane) return;
  Lane& lane = socket.link.end->lane;
  std::size_t bytes;
  {
    const std::scoped_lock lane_guard(lane.lock());
    socket.settle_receiving(lane);
    bytes = lane.rx.unread();
  }
  RxStream& rx = socket.rx;
  // A process without a lane takes the kernel's next bytes for the record, so the kernel's bytes before it move too.
  const bool drains = socket.fallback.done && rx.route == Phase::kDrain && rx.inherited != nullptr;
  if (bytes == 0 && !drains) return;
  const std::size_t rest = rx.inherited_left();
  const std::size_t before = rx.route == Phase::kDrain ? rx.kernel_left : 0;
  InheritedBytes* const inherited_bytes = make_inherited_bytes(rest + before + bytes);
  std::size_t at = 0;
  if (inherited_bytes != nullptr) {
    const iovec first{inherited_bytes->data(), rest};
    if (rest != 0) at = read_inherited_bytes(*rx.inherited, &first, 1, 0, false);
    const std::size_t got = receive_all(fd, inherited_bytes->data() + at, before);
    at += got;
    rx.kernel_read += got;
    if (got == before) {
      const std::scoped_lock lane_guard(lane.lock());
      const iovec all{inherited_bytes->data() + at, bytes};
      const std::size_t read = lane.rx.read(&all, 1, 0, false);
      if (read != bytes) reset_connection(socket, fd);
      at += read;
      rx.kernel_left = 0;
    } else {
      reset_connection(socket, fd);
    }
    inherited_bytes->set_bytes(at);
    counters::add(Counter::kInheritedBytes, at);
    if (rx.inherited != nullptr) rx.inherited->move_record(*inherited_bytes);
    rx.replace_inherited(inherited_bytes);
  } else {
    reset_connection(socket, fd);
  }
  // The lane's rest is dropped after a reset: a process that went on without the lost bytes would take what follows for
  // them.
  if (socket.reset) {
    const std::scoped_lock lane_guard(lane.lock());
    lane.rx.discard(lane.rx.unread());
  }
  socket.receiving_changed(RouteEvent::kLaneEnded);
  background::look_at(*socket.link.end);
}

}  // namespace

void share(Socket& socket, int fd) {
  const std::scoped_lock both(socket.rx.lock, socket.tx.lock);
  gather_unread(socket, fd);
  // The bytes and the record get a file: each process can pass that on without taking it from the others.
  if (socket.rx.inherited != nullptr && socket.rx.inherited->expects_record()) file_of(socket.rx.inherited);
  if (socket.link.end != nullptr) background::look_at(*socket.link.end);
  socket.rx.read_known = false;  // other processes may read from now on
  if (socket.handoff.holders == nullptr) {
    socket.handoff.holders = make_holders();
    if (socket.handoff.holders != nullptr) {
      socket.handoff.holders->lanes.store(socket.link.number.load());
      socket.reset.share_told(socket.handoff.holders->reset_told);
    }
  }
  if (socket.handoff.holders != nullptr) {
    socket.handoff.holders->count.fetch_add(1);
    socket.modes.trust_nothing();
  }
  socket.modes.mode_changed();
}

void fork_failed(Socket& socket) {
  const std::scoped_lock both(socket.rx.lock, socket.tx.lock);
  if (socket.handoff.holders != nullptr) socket.handoff.holders->count.fetch_sub(1);
}

void gather(Socket& socket, int fd) {
  const std::scoped_lock both(socket.rx.lock, socket.tx.lock);
  gather_unread(socket, fd);
  if (socket.link.end == nullptr) return;
  {
    Lane& lane = socket.link.end->lane;
    const std::scoped_lock lane_guard(lane.lock());
    socket.settle_receiving(lane);
    // Takes the direction off the lane, as a receive would when it finds that the lane has ended.
    const bool empty = lane.rx.unread() == 0 && lane.control.receiving() == Lane::State::kEnded;
    if (empty && lane.control.started()) socket.receiving_changed(RouteEvent::kLaneEnded);
  }
  background::look_at(*socket.link.end);
}

int export_unread(Socket& socket, int fd) {
  socket.modes.trust_nothing();
  socket.modes.mode_changed();
  const std::scoped_lock both(socket.rx.lock, socket.tx.lock);
  gather_unread(socket, fd);
  if (socket.rx.inherited == nullptr) return -1;
  if (socket.rx.inherited->left() == 0 && !socket.rx.inherited->expects_record()) return -1;
  const int file = file_of(socket.rx.inherited);
  if (file < 0) reset_connection(socket, fd);
  struct stat about;
  if (file >= 0 && fstat(fd, &about) == 0) socket.rx.inherited->set_socket(about.st_ino);
  return file;
}

void inherit(Socket& socket, InheritedBytes* inherited_bytes, Reason why) {
  socket.modes.trust_nothing();
  const std::scoped_lock both(socket.rx.lock, socket.tx.lock);
  socket.rx.inherited = inherited_bytes;
  socket.tx.lane_forbidden = true;
  socket.link.left_for_good.store(true);
  socket.link.shown.set(ShownSocket::Way::kKernel, why);
  socket.rx.read_known = false;
}

void inherit_loss(Socket& socket, int fd) {
  const std::scoped_lock both(socket.rx.lock, socket.tx.lock);
  socket.tx.lane_forbidden = true;
  reset_connection(socket, fd);
}

void detach(Socket& socket) {
  const std::scoped_lock both(socket.rx.lock, socket.tx.lock);
  if (socket.handoff.detached || socket.handoff.holders == nullptr) return;
  socket.handoff.detached = true;
  socket.handoff.holders->count.fetch_sub(1);
}

void reattach(Socket& socket) {
  const std::scoped_lock both(socket.rx.lock, socket.tx.lock);
  if (!socket.handoff.detached) return;
  socket.handoff.detached = false;
  socket.handoff.holders->count.fetch_add(1);
}

void after_fork_in_child(Socket& socket) {
  renew(socket.rx.lock);
  renew(socket.tx.lock);
  // The LaneEndpoint is freed by the parent's background thread. In the child it is memory that is never used again.
  if (socket.link.end != nullptr && socket.rx.route == Phase::kKernel && socket.tx.route == Phase::kKernel) {
    // leave() has not been called, or has failed: the parent's lane may have data that this child can't get.
    socket.reset.happens_here_alone();
  }
  socket.link.end = nullptr;
  socket.fallback.done = false;
  socket.fallback.watched = false;
  socket.tx.unacked.drop();
  socket.receiving_changed(RouteEvent::kLaneChanged);
  socket.sending_changed(RouteEvent::kLaneChanged);
  socket.link.on(LaneEvent::kForked);
  socket.link.shown.set(ShownSocket::Way::kKernel, Reason::kFork);
  // A lane needs a NIC of the child's own, whose opening takes as long as some thousand calls by the kernel.
  socket.demand.forget_all();
  socket.demand.need(LaneDemand::kCallsOfChild);
  if (MessageLayer* const layer = socket.modes.message_layer(); layer != nullptr) layer->after_fork_in_child();
}

}  // namespace viaduct::sovia
