#include "sovia/socket/fork_handoff.h"

#include <errno.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <new>

#include "sovia/lane/tcp_route.h"
#include "sovia/process/clock.h"
#include "sovia/process/counters.h"
#include "sovia/process/libc.h"
#include "sovia/socket/background_requests.h"
#include "sovia/socket/fallback.h"
#include "sovia/socket/inherited_bytes.h"
#include "sovia/socket/lane_endpoint.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {
namespace {

// Receives `bytes` from the kernel, which has them or gets them soon as long as the connection lives, and the peer has not
// lied. Returns how many came. After shutdown(SHUT_RD) the kernel tells of an end before bytes that are on their way.
std::size_t receive_all(int fd, std::byte* to, std::size_t bytes) {
  std::size_t done = 0;
  std::uint64_t until = now_ns() + Socket::kRecordNs;  // for the next bytes
  while (done < bytes) {
    const bool more = may_get_more(fd);
    const ssize_t got = libc::recv(fd, to + done, bytes - done, MSG_DONTWAIT);
    if (got > 0) {
      done += static_cast<std::size_t>(got);
      until = now_ns() + Socket::kRecordNs;
      continue;
    }
    if (now_ns() >= until) break;
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

// The bytes that come next before the record or the end of the lane: the kernel's, then the lane's. `in_kernel`: of the
// former.
std::size_t next_bytes(Socket& socket, std::size_t& in_kernel) SOVIA_RX_LOCKED(socket) {
  Lane& lane = socket.link.end->lane;
  const LockGuard lane_guard(lane.lock());
  socket.settle_receiving(lane);
  in_kernel = 0;
  if (const auto first = lane.rx.first()) in_kernel = *first - socket.rx.kernel_read;
  return in_kernel + (socket.rx.on_lane || in_kernel != 0 ? lane.rx.unread_here(true) : 0);
}

// Takes a record that comes next and behind which the lane has brought more: the kernel has it, or gets it soon. False: it has
// not.
bool takes_record(Socket& socket, int fd) SOVIA_RX_LOCKED(socket) {
  for (const std::uint64_t until = now_ns() + Socket::kRecordNs; now_ns() < until;) {
    {
      Lane& lane = socket.link.end->lane;
      const LockGuard lane_guard(lane.lock());
      socket.settle_receiving(lane);
      if (!socket.rx.record().is_expected() || socket.rx.on_lane || lane.rx.unread() == 0) return true;
    }
    if (take_record(socket, fd)) continue;
    libc::poll(nullptr, 0, 1);  // a part of the record may be readable
  }
  return false;
}

// Moves unread bytes that this process alone can read to shared memory: the rest of inherited bytes, then what the lane
// has brought, and the kernel's bytes before.
void gather_unread(Socket& socket, int fd, Gather what = Gather::kAll) SOVIA_BOTH_LOCKED(socket) {
  const bool waits = what == Gather::kAll;
  if (socket.link.end != nullptr) {
    Lane& lane = socket.link.end->lane;
    for (;;) {
      if (waits && !takes_record(socket, fd)) reset_connection(socket, fd);
      std::size_t in_kernel;
      const std::size_t bytes = next_bytes(socket, in_kernel);
      const std::size_t there = waits ? in_kernel : std::min<std::size_t>(in_kernel, unread_in_kernel(fd));
      if (!waits && (socket.rx.record().is_expected() || (in_kernel != 0 && there == 0))) break;
      // A reset drops the kernel's bytes. The lane's can still be read, if none of the kernel's come before them.
      if (bytes == 0 || (socket.reset && !socket.rx.on_lane)) break;
      const std::size_t rest = socket.rx.inherited_left();
      InheritedBytes* const gathered = make_inherited_bytes(rest + (there == in_kernel ? bytes : there));
      if (gathered == nullptr) {
        reset_connection(socket, fd);
        break;
      }
      const iovec first{gathered->data(), rest};
      std::size_t at = rest != 0 ? read_inherited_bytes(*socket.rx.inherited, &first, 1, 0, false) : 0;
      const std::size_t got = receive_all(fd, gathered->data() + at, there);
      at += got;
      socket.rx.kernel_read += got;
      if (got == in_kernel) {
        const LockGuard lane_guard(lane.lock());
        socket.settle_receiving(lane);
        const iovec all{gathered->data() + at, bytes - got};
        at += lane.rx.read(&all, 1, 0, false);
      } else if (got != there) {
        reset_connection(socket, fd);
      }
      gathered->set_bytes(at);
      counters::add(Counter::kInheritedBytes, at);
      socket.rx.replace_inherited(gathered);
      if (got != in_kernel) break;
    }
    const LockGuard lane_guard(lane.lock());
    // After a reset the lane's rest is dropped: a process that went on without the lost bytes would take what follows for
    // them.
    if (socket.reset) lane.rx.drop_all();
    socket.settle_receiving(lane);
    background::look_at(*socket.link.end);
  }
  // Others have to know of the record.
  if (socket.rx.record().is_expected() && socket.rx.inherited == nullptr) {
    InheritedBytes* const none = make_inherited_bytes(0);
    if (none == nullptr) return reset_connection(socket, fd);
    socket.rx.replace_inherited(none);
  }
}

}  // namespace

void share(Socket& socket, int fd) {
  const StreamsGuard both(socket);
  gather_unread(socket, fd);
  // The bytes and the record get a file: each process can pass that on without taking it from the others.
  if (socket.rx.record().is_expected()) file_of(socket.rx.inherited);
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

bool is_shared(Socket& socket) {
  const RxGuard guard(socket);
  return socket.handoff.is_shared();
}

bool was_shared(Socket& socket) {
  const RxGuard guard(socket);
  return socket.handoff.holders != nullptr;
}

void fork_failed(Socket& socket) {
  const StreamsGuard both(socket);
  if (socket.handoff.holders != nullptr) socket.handoff.holders->count.fetch_sub(1);
}

void gather(Socket& socket, int fd, Gather what) {
  const StreamsGuard both(socket);
  gather_unread(socket, fd, what);
}

int export_unread(Socket& socket, int fd) {
  socket.modes.trust_nothing();
  socket.modes.mode_changed();
  const StreamsGuard both(socket);
  gather_unread(socket, fd);
  if (socket.rx.inherited == nullptr) return -1;
  if (socket.rx.inherited->left() == 0 && !socket.rx.record().is_expected()) return -1;
  const int file = file_of(socket.rx.inherited);
  if (file < 0) reset_connection(socket, fd);
  struct stat about;
  if (file >= 0 && fstat(fd, &about) == 0) socket.rx.inherited->set_socket(about.st_ino);
  return file;
}

void inherit(Socket& socket, InheritedBytes* inherited_bytes, Reason why) {
  socket.modes.trust_nothing();
  const StreamsGuard both(socket);
  socket.rx.set_inherited(inherited_bytes);
  socket.handoff.may_be_elsewhere = true;
  socket.tx.lane_forbidden = true;
  socket.link.left_for_good.store(true);
  socket.link.shown.set(ShownSocket::Way::kKernel, why);
  socket.rx.read_known = false;
}

void inherit_loss(Socket& socket, int fd) {
  const StreamsGuard both(socket);
  socket.tx.lane_forbidden = true;
  reset_connection(socket, fd);
}

void detach(Socket& socket) {
  const StreamsGuard both(socket);
  if (socket.handoff.detached || socket.handoff.holders == nullptr) return;
  socket.handoff.detached = true;
  socket.handoff.holders->count.fetch_sub(1);
}

void reattach(Socket& socket) {
  const StreamsGuard both(socket);
  if (!socket.handoff.detached) return;
  socket.handoff.detached = false;
  socket.handoff.holders->count.fetch_add(1);
}

void reset_if_unread(Socket& socket, int fd) {
  const StreamsGuard both(socket);
  if (socket.rx.inherited_left() != 0 && socket.handoff.is_alone()) reset_connection(socket, fd);
}

// There are no other threads.
void after_fork_in_child(Socket& socket) VIADUCT_NO_THREAD_SAFETY_ANALYSIS {
  renew(socket.rx.lock);
  renew(socket.tx.lock);
  // The LaneEndpoint is freed by the parent's background thread. In the child it is memory that is never used again.
  if (socket.link.end != nullptr && (socket.rx.on_lane || socket.tx.route != TxRoute::kKernel)) {
    // leave() has not been called, or has failed: the parent's lane may have data that this child can't get.
    socket.reset.happens_here_alone();
  }
  socket.link.end = nullptr;
  socket.fallback.done = false;
  socket.fallback.watched = false;
  socket.tx.owed.drop();
  socket.rx.on_lane = socket.rx.leaves_lane = false;
  socket.sending_changed(TxRoute::kKernel);
  socket.link.on(LaneEvent::kForked);
  socket.link.shown.set(ShownSocket::Way::kKernel, Reason::kFork);
  // A lane needs a NIC of the child's own, whose opening takes as long as a hundred calls by the kernel.
  socket.demand.forget_all();
  socket.demand.need(LaneDemand::kCallsOfChild);
  if (MessageLayer* const layer = socket.modes.message_layer(); layer != nullptr) layer->after_fork_in_child();
}

}  // namespace viaduct::sovia
