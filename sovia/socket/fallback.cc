#include "sovia/socket/fallback.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include "sovia/process/clock.h"
#include "sovia/process/counters.h"
#include "sovia/process/libc.h"
#include "sovia/process/options.h"
#include "sovia/socket/background_requests.h"
#include "sovia/socket/inherited_bytes.h"
#include "sovia/socket/lane_endpoint.h"

namespace viaduct::sovia {

namespace {

constexpr std::uint64_t kRecordAloneNs = 100'000'000;

// Whether the first `bytes` of `resume` can be the beginning of a record of the peer with `token`.
bool is_record_of(const std::uint8_t* token, const Resume& resume, std::size_t bytes) {
  for (std::size_t i = 0; i < std::min(bytes, kTokenBytes); ++i) {
    if (resume.token[i] != token[kTokenBytes - 1 - i]) return false;
  }
  return true;
}

bool has_kernel_ended(int fd) {
  pollfd at{fd, POLLRDHUP, 0};
  return fd >= 0 && libc::poll(&at, 1, 0) > 0 && (at.revents & (POLLRDHUP | POLLHUP)) != 0;
}

}  // namespace

bool has_kernel_failed(int fd) {
  pollfd at{fd, 0, 0};
  return libc::poll(&at, 1, 0) > 0 && (at.revents & POLLERR) != 0;
}

void reset_connection(Socket& socket, int fd) {
  if (!socket.reset.happens()) return;
  counters::fell(Reason::kLost);
  counters::add(Counter::kLanesCut);
  SOVIA_LOG("%d: the lane is lost, the connection is reset", fd);
  sockaddr unspecified{};
  unspecified.sa_family = AF_UNSPEC;
  const int error = errno;
  libc::connect(fd, &unspecified, sizeof unspecified);
  libc::shutdown(fd, SHUT_RDWR);  // fails, but a receive returns 0 from now on and a send EPIPE, as behind a reset
  errno = error;
}

Attempt tell_reset(Socket& socket, int fd, Attempt once_told) {
  const Attempt attempt = socket.reset.fail(once_told);
  if (attempt != Attempt::kFailed) return attempt;
  // The kernel would tell of it again.
  int of_kernel = 0;
  socklen_t length = sizeof of_kernel;
  libc::getsockopt(fd, SOL_SOCKET, SO_ERROR, &of_kernel, &length);
  errno = socket.reset.error();
  return attempt;
}

namespace {

// Moves the kernel's bytes that come before the lane's to memory, as the reset drops what the kernel has. They are read
// before the reset is told. Both locked.
void keep_unread(Socket& socket, int fd) {
  RxStream& rx = socket.rx;
  if (socket.reset || (rx.route != Phase::kKernel && rx.route != Phase::kDrain)) return;
  int unread = 0;
  if (libc::ioctl(fd, SIOCINQ, &unread) != 0 || unread <= 0) return;
  std::size_t bytes = static_cast<std::size_t>(unread);
  if (rx.route == Phase::kDrain) bytes = std::min(bytes, static_cast<std::size_t>(rx.kernel_left));
  const std::size_t rest = rx.inherited_left();
  InheritedBytes* const kept = make_inherited_bytes(rest + bytes);
  if (kept == nullptr) return;
  const iovec first{kept->data(), rest};
  const std::size_t before = rest != 0 ? read_inherited_bytes(*rx.inherited, &first, 1, 0, false) : 0;
  const ssize_t got = libc::recv(fd, kept->data() + before, bytes, MSG_DONTWAIT);
  const std::uint64_t read = got > 0 ? static_cast<std::uint64_t>(got) : 0;
  kept->set_bytes(before + read);
  rx.replace_inherited(kept);
  counters::add(Counter::kBytesReceivedKernel, read);
  rx.kernel_read += read;
  if (rx.route != Phase::kDrain) return;
  rx.kernel_left -= read;
  if (rx.kernel_left == 0) socket.receiving_changed(RouteEvent::kDrained);
}

// Resets the connection because this end can't send all that it has to. Received bytes stay.
void reset_sending(Socket& socket, int fd) {
  const int before = errno;
  keep_unread(socket, fd);
  errno = before;
  reset_connection(socket, fd);
}

// Keeps a copy of the bytes that are not known to have arrived, behind a record, for the kernel to send.
void keep_unsent(Socket& socket, int fd, Lane& lane) {
  const LaneLoss::Fall falls = lane.loss.falls();
  if (falls == LaneLoss::Fall::kImpossible) return reset_sending(socket, fd);
  const std::size_t record = falls == LaneLoss::Fall::kRecord ? sizeof(Resume) : 0;
  const std::size_t bytes = record + lane.ring.unsent();
  if (socket.tx.route == Phase::kLane || bytes != 0) socket.sending_changed(RouteEvent::kLaneEnded);
  if (bytes == 0) return;
  // A peer that has gone gets no record: its host would answer one with a reset, and its last bytes would not end in
  // order.
  const auto record_comes = [&] { return record_is_next(socket) && socket.rx.inherited->is_record_certain(); };
  if (lane.ring.unsent() == 0 && record_comes() && take_record(socket, fd) && !socket.reset &&
      (socket.fallback.peer_ended || socket.rx.inherited->peer_closes())) {
    return;
  }
  const bool nothing_known = record_comes();
  socket.tx.unacked.held_until = lane.ring.unsent() == 0 && nothing_known ? now_ns() + kRecordAloneNs : 0;
  std::byte* const copy = socket.tx.unacked.begin(bytes);
  if (copy == nullptr) return reset_sending(socket, fd);
  if (record != 0) {
    Resume resume{};
    resume.closes = lane.control.closes();
    for (std::size_t i = 0; i < kTokenBytes; ++i) {
      resume.token[i] = lane.greeting.own_token()[kTokenBytes - 1 - i];
    }
    resume.offset = htobe64(lane.ring.bytes_completed());
    memcpy(copy, &resume, sizeof resume);
  }
  if (!lane.ring.copy_unsent(copy + record)) {
    socket.tx.unacked.drop();
    return reset_sending(socket, fd);
  }
  send_unacked(socket, fd, true);
}

// Data has come to a connection that the program has shut down both ways. For the peer its end comes first.
void refuse(Socket& socket, int fd) {
  if (socket.tx.shut_later.exchange(false)) libc::shutdown(fd, SHUT_WR);
  reset_sending(socket, fd);
}

}  // namespace

void fall_back(Socket& socket, int fd) {
  {
    const std::scoped_lock both(socket.rx.lock, socket.tx.lock);
    if (socket.link.end == nullptr || socket.fallback.done || socket.reset) return;
    {
      const std::scoped_lock guard(socket.link.end->lane.lock());
      if (!socket.link.end->lane.control.is_cut()) return;
    }
    fall_back_locked(socket, fd);
  }
  socket.routes_changed();
  socket.changed();
}

void fall_back_locked(Socket& socket, int fd) {
  socket.fallback.done = true;
  Lane& lane = socket.link.end->lane;
  const std::scoped_lock guard(lane.lock());
  if (lane.rx.has_refused()) return refuse(socket, fd);
  if (!lane.loss.wants_fall_back()) return;
  SOVIA_LOG("%d: the lane has broken, the connection goes on through the kernel", fd);
  socket.settle_receiving(lane);
  // Data may be missing. A peer that lives would not have ended the kernel's stream yet, so this end is told as a
  // reset.
  if (lane.loss.may_miss_start() && has_kernel_ended(fd)) socket.keep_untold_reset(ECONNRESET);
  if (lane.loss.may_get_record()) {
    if (socket.rx.inherited == nullptr) socket.rx.inherited = make_record();
    if (socket.rx.inherited == nullptr) return reset_connection(socket, fd);
    socket.rx.inherited->expect_record(lane.greeting.peer_token(), lane.rx.bytes_received(),
                                       lane.loss.expects_record(), !lane.control.peer_has_more());
    if (socket.rx.route == Phase::kLane && lane.rx.unread() == 0) socket.receiving_changed(RouteEvent::kLaneEnded);
  }
  keep_unsent(socket, fd, lane);
  socket.rx.early_end = false;
  background::look_at(*socket.link.end);
  be_watched(socket);
}

// The background thread has to watch, because a thread that waits for the record, or has made its last send, does not
// run this code again.
void be_watched(Socket& socket) {
  if (!socket.fallback.watched.exchange(true)) background::watch_fall(socket, -1);
}

bool send_unacked(Socket& socket, int fd, bool patient) {
  if (socket.tx.unacked.empty()) return true;
  if (patient && !socket.fallback.peer_ended && now_ns() < socket.tx.unacked.held_until) return false;
  const int before = errno;
  UnackedCopy& unacked = socket.tx.unacked;
  if (socket.fallback.peer_ended && unacked.size() == sizeof(Resume)) unacked.take(unacked.left());
  const bool failed = has_kernel_failed(fd);
  while (unacked.left() != 0 && !socket.reset) {
    const ssize_t put = libc::send(fd, unacked.data(), unacked.left(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) {
      errno = before;
      return false;
    }
    // The kernel returns a reset only once. It was here, so a later call of the program returns it.
    if (put < 0 && (errno != EPIPE || failed)) socket.keep_untold_reset(errno);
    if (put < 0) break;
    unacked.take(static_cast<std::size_t>(put));
    counters::add(Counter::kBytesSentKernel, static_cast<std::uint64_t>(put));
  }
  socket.tx.unacked.drop();
  shut_if_due(socket, fd);
  errno = before;
  return true;
}

void shut_if_due(Socket& socket, int fd) {
  if (!socket.tx.shut_later || !socket.tx.unacked.empty() || fd < 0) return;
  if (socket.link.end != nullptr && !socket.fallback.done && !socket.reset) {
    const std::scoped_lock guard(socket.link.end->lane.lock());
    if (socket.link.end->lane.control.sending() != Lane::State::kEnded) return;
  }
  socket.tx.shut_later = false;
  libc::shutdown(fd, SHUT_WR);
}

bool record_would_reset(Socket& socket, int fd) {
  if (socket.rx.inherited == nullptr || !socket.rx.inherited->expects_record() || socket.reset) return false;
  if (socket.handoff.is_shared()) return false;
  int bytes = 0;
  return !socket.tx.unacked.empty() || (libc::ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0);
}

bool record_is_next(const Socket& socket) {
  if (socket.rx.inherited == nullptr || !socket.rx.inherited->expects_record()) return false;
  return socket.link.end == nullptr || socket.rx.route == Phase::kKernelAgain ||
         (socket.fallback.done && socket.rx.route == Phase::kLane);
}

bool meet_early_record(Socket& socket, int fd) {
  if (socket.link.end == nullptr || socket.fallback.done) return true;
  if (socket.rx.route != Phase::kKernelAgain || socket.rx.inherited != nullptr) return true;
  Lane& lane = socket.link.end->lane;
  const std::scoped_lock guard(lane.lock());
  if (!lane.loss.may_get_early_record()) return true;
  // SIOCINQ comes first: a receive that finds no data would consume the socket's error, which the program is to get.
  const int before = errno;
  int unread = 0;
  Resume resume;
  ssize_t got = 0;
  if (libc::ioctl(fd, SIOCINQ, &unread) == 0 && unread > 0) {
    got = libc::recv(fd, &resume, sizeof resume, MSG_PEEK | MSG_DONTWAIT);
  }
  errno = before;
  if (got <= 0 || !is_record_of(lane.greeting.peer_token(), resume, static_cast<std::size_t>(got))) return true;
  if (static_cast<std::size_t>(got) < sizeof resume) return false;
  socket.rx.inherited = make_record();
  if (socket.rx.inherited == nullptr) {
    reset_connection(socket, fd);
    return false;
  }
  socket.rx.inherited->expect_record(lane.greeting.peer_token(), lane.rx.bytes_received(), false,
                                     !lane.control.peer_has_more());
  return true;
}

bool has_foreign_bytes(Socket& socket, int fd) {
  if (socket.link.end == nullptr || !socket.rx.is_on_lane() || socket.fallback.done || socket.reset) return false;
  Lane& lane = socket.link.end->lane;
  const std::scoped_lock guard(lane.lock());
  if (lane.control.broken() || lane.control.receiving() != Lane::State::kUp) return false;
  Resume resume;
  int unread = 0;
  if (libc::ioctl(fd, SIOCINQ, &unread) != 0 || unread <= 0) return false;
  const ssize_t got = libc::recv(fd, &resume, sizeof resume, MSG_PEEK | MSG_DONTWAIT);
  return got > 0 && !is_record_of(lane.greeting.peer_token(), resume, static_cast<std::size_t>(got));
}

void reset_for_foreign_bytes(Socket& socket, int fd) {
  const std::scoped_lock both(socket.rx.lock, socket.tx.lock);
  if (!has_foreign_bytes(socket, fd)) return;
  counters::fell(Reason::kUnseen);
  socket.link.shown.set(ShownSocket::Way::kKernel, Reason::kUnseen);
  SOVIA_LOG("%d: the peer sends by a call that its library does not see", fd);
  reset_connection(socket, fd);
}

bool take_record(Socket& socket, int fd) {
  const int before = std::exchange(errno, 0);
  const InheritedBytes::Take take = socket.rx.inherited->take_record(fd, socket.rx.kernel_read);
  const int error = std::exchange(errno, before);
  if (take == InheritedBytes::Take::kAgain) return false;
  if (take == InheritedBytes::Take::kEnded) {
    socket.fallback.peer_ended.store(true);
  } else if (take == InheritedBytes::Take::kReset) {
    socket.reset.is_caused_by(error);
    reset_connection(socket, fd);
  } else {
    SOVIA_LOG("%d: receiving goes on through the kernel", fd);
  }
  return true;
}

void stay_with_kernel_if_done(Socket& socket) {
  const bool asks = !socket.link.is_idle();
  if (socket.tx.lane_forbidden && !asks && socket.has_nothing_left()) socket.stay_with_kernel();
}

void drop_empty_record(Socket& socket) {
  if (socket.rx.inherited != nullptr && socket.rx.inherited->left() == 0 && !socket.rx.inherited->expects_record()) {
    socket.rx.replace_inherited(nullptr);
  }
  stay_with_kernel_if_done(socket);
}

bool has_fallen(Socket& socket, LaneEndpoint& end) {
  const std::scoped_lock guard(socket.rx.lock);
  return socket.link.end != &end || socket.fallback.done || socket.reset;
}

short falling(Socket& socket) {
  short wanted = 0;
  const std::scoped_lock both(socket.rx.lock, socket.tx.lock);
  if (socket.reset) {
    socket.tx.unacked.drop();
    return 0;
  }
  const InheritedBytes* const inherited = socket.rx.inherited;
  const bool ends = socket.closed() && inherited != nullptr && inherited->expects_record();
  if (ends || (inherited != nullptr && inherited->is_record_certain())) wanted |= POLLIN;
  // While the program has yet to read what comes before the record, the thread only looks again later.
  if (wanted != 0 && !record_is_next(socket)) wanted = POLLPRI;
  if (socket.tx.shut_later) wanted |= POLLPRI;
  if (!socket.tx.unacked.empty() && now_ns() < socket.tx.unacked.held_until) {
    wanted |= POLLPRI;
  } else if (!socket.tx.unacked.empty()) {
    wanted |= POLLOUT;
  }
  if (wanted == 0) socket.fallback.watched = false;
  return wanted;
}

void go_on_falling(Socket& socket, int fd) {
  {
    const std::scoped_lock both(socket.rx.lock, socket.tx.lock);
    const bool has_record = socket.rx.inherited != nullptr && socket.rx.inherited->is_record_certain();
    const bool received = !socket.closed() && has_record && record_is_next(socket) && take_record(socket, fd);
    const bool sent = !socket.tx.unacked.empty() && send_unacked(socket, fd, true);
    shut_if_due(socket, fd);
    if (socket.closed() && socket.rx.inherited != nullptr) {
      // The program has closed the socket: it neither reads nor misses what comes behind the record.
      const bool stays = record_would_reset(socket, fd) &&
                         socket.rx.inherited->take_record(fd, socket.rx.kernel_read) == InheritedBytes::Take::kAgain;
      if (!stays) socket.rx.replace_inherited(nullptr);
      return;
    }
    if (!sent && !received) return;
    drop_empty_record(socket);
  }
  socket.routes_changed();
  socket.changed();
}

void await_kernel(Socket& socket, int fd) {
  for (;;) {
    {
      const std::scoped_lock both(socket.rx.lock, socket.tx.lock);
      if (socket.reset || (fd < 0 ? socket.tx.unacked.empty() : send_unacked(socket, fd))) {
        shut_if_due(socket, fd);
        return drop_empty_record(socket);
      }
    }
    pollfd one{fd, POLLOUT, 0};
    constexpr int kLookMs = 100;  // another thread may have sent the bytes
    libc::poll(&one, 1, kLookMs);
  }
}

void await_record(Socket& socket, int fd, std::uint64_t deadline) {
  for (;;) {
    short wanted;
    {
      const std::scoped_lock both(socket.rx.lock, socket.tx.lock);
      const bool awaited = socket.rx.inherited != nullptr && socket.rx.inherited->is_record_certain();
      if (!awaited || !record_is_next(socket) || socket.reset) return;
      if (take_record(socket, fd)) return drop_empty_record(socket);
      wanted = socket.rx.shut ? 0 : POLLIN;  // poll() would end at once
    }
    if (now_ns() >= deadline) return;
    pollfd one{fd, wanted, 0};
    constexpr int kLookMs = 10;
    libc::poll(&one, 1, kLookMs);
  }
}

Attempt receive_inherited_bytes(Socket& socket, const iovec* pieces, std::size_t count, std::size_t skip, bool peek,
                                ssize_t& bytes) {
  bytes = static_cast<ssize_t>(read_inherited_bytes(*socket.rx.inherited, pieces, count, skip, peek));
  if (bytes != 0) return Attempt::kDone;
  if (socket.rx.inherited->left() != 0) return Attempt::kDone;  // nothing was asked for
  if (socket.rx.inherited->expects_record()) return Attempt::kAgain;
  socket.rx.replace_inherited(nullptr);
  stay_with_kernel_if_done(socket);
  return Attempt::kAgain;
}

}  // namespace viaduct::sovia
