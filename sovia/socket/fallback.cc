#include "sovia/socket/fallback.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <new>
#include <utility>

#include "sovia/lane/tcp_route.h"
#include "sovia/process/clock.h"
#include "sovia/process/counters.h"
#include "sovia/process/libc.h"
#include "sovia/process/options.h"
#include "sovia/socket/background_requests.h"
#include "sovia/socket/inherited_bytes.h"
#include "sovia/socket/lane_endpoint.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {

namespace {

// poll() would tell of the own end of reading, too.
bool has_kernel_ended(int fd) { return fd >= 0 && !may_get_more(fd); }

}  // namespace

bool has_kernel_failed(int fd) {
  pollfd at{fd, 0, 0};
  return libc::poll(&at, 1, 0) > 0 && (at.revents & POLLERR) != 0;
}

void reset_connection(Socket& socket, int fd, Reason why) {
  if (!socket.reset.happens()) return;
  counters::fell(why);
  counters::add(Counter::kLanesCut);
  SOVIA_LOG("%d: the lane is lost, the connection is reset", fd);
  sockaddr unspecified{};
  unspecified.sa_family = AF_UNSPEC;
  const int error = errno;
  libc::connect(fd, &unspecified, sizeof unspecified);
  libc::shutdown(fd, SHUT_RDWR);  // fails, but a receive returns 0 from now on and a send EPIPE, as behind a reset
  if (has_kernel_failed(fd)) socket.reset.is_with_kernel();
  errno = error;
}

Attempt tell_reset(Socket& socket, int fd, Attempt once_told, std::size_t part) {
  if (part != 0 || socket.reset.is_told()) return once_told;
  // The kernel would tell of it again.
  int of_kernel = 0;
  socklen_t length = sizeof of_kernel;
  libc::getsockopt(fd, SOL_SOCKET, SO_ERROR, &of_kernel, &length);
  return socket.reset.fail(once_told, of_kernel);
}

std::uint64_t unread_in_kernel(int fd) {
  int unread = 0;
  return libc::ioctl(fd, SIOCINQ, &unread) == 0 && unread > 0 ? static_cast<std::uint64_t>(unread) : 0;
}

namespace {

// Moves the kernel's next bytes to memory, as the reset drops what the kernel has. They are read before the reset is told.
void keep_unread(Socket& socket, int fd, std::size_t bytes) SOVIA_BOTH_LOCKED(socket) {
  if (socket.reset || socket.rx.on_lane || socket.rx.record().is_expected() || bytes == 0) return;
  const std::size_t rest = socket.rx.inherited_left();
  InheritedBytes* const kept = make_inherited_bytes(rest + bytes);
  if (kept == nullptr) return;
  const iovec first{kept->data(), rest};
  const std::size_t before = rest != 0 ? read_inherited_bytes(*socket.rx.inherited, &first, 1, 0, false) : 0;
  const ssize_t got = libc::recv(fd, kept->data() + before, bytes, MSG_DONTWAIT);
  const std::uint64_t read = got > 0 ? static_cast<std::uint64_t>(got) : 0;
  kept->set_bytes(before + read);
  socket.rx.replace_inherited(kept);
  counters::add(Counter::kBytesReceivedKernel, read);
  socket.rx.kernel_read += read;
}

// Resets the connection because this end can't send all that it has to. Received bytes stay.
void reset_sending(Socket& socket, int fd, Lane& lane) SOVIA_BOTH_LOCKED(socket) VIADUCT_REQUIRES(lane.lock()) {
  const int before = errno;
  std::uint64_t bytes = unread_in_kernel(fd);
  for (const auto first : {lane.rx.first(), lane.rx.refused_first()}) {
    if (first) bytes = std::min(bytes, *first - std::min(*first, socket.rx.kernel_read));
  }
  keep_unread(socket, fd, bytes);
  socket.settle_receiving(lane);
  errno = before;
  const bool has_all = lane.control.receiving() == Lane::State::kEnded || (!socket.rx.on_lane && !lane.control.misses());
  const bool ended = has_kernel_failed(fd) ? has_end_before_error(fd, socket.rx.kernel_read) : !may_get_more(fd);
  if (has_all && ended) socket.reset.comes_behind_end(socket.tx.shut);
  reset_connection(socket, fd);
}

// The kernel carries the direction from now on: first a record, and what is not known to have arrived. False:
// the connection has to be reset.
bool go_on_in_kernel(Socket& socket, int fd, Lane& lane) SOVIA_TX_LOCKED(socket) VIADUCT_REQUIRES(lane.lock()) {
  lane.lands = false;
  socket.sending_changed(TxRoute::kKernel);
  const bool has_all = lane.control.peer_closed() || lane.control.has_delivered_end();
  const std::size_t bytes = has_all ? 0 : lane.ring.unsent();
  // The peer looks for no record: it knows that all has come, or gets no more, or has closed.
  const bool last = lane.control.has_delivered_end() || (socket.tx.shut && !socket.fallback.done);
  const bool knows = last && !lane.tx.has_gone_down();
  const bool ends = knows || lane.control.peer_closed();
  const std::size_t record = lane.tx.has_delivered_first() && !ends ? sizeof(Resume) : 0;
  // A peer that has got FIN takes bytes without a record for new ones.
  if (record == 0 && bytes != 0 && lane.control.has_finished()) return false;
  if (record + bytes == 0) return true;
  std::byte* const copy = socket.tx.owed.begin(record + bytes, bytes == 0);
  if (copy == nullptr) return false;
  socket.tx.owed.waits_until = now_ns() + OwedBytes::kWaitNs;
  if (socket.fallback.done || socket.tx.shut) be_watched(socket);  // else data follows at once
  if (record != 0) {
    Resume resume{};
    std::reverse_copy(lane.greeting.own_token(), lane.greeting.own_token() + kTokenBytes, resume.token);
    resume.offset = htobe64(lane.tx.bytes_delivered());
    memcpy(copy, &resume, sizeof resume);
  }
  if (!lane.ring.copy_unsent(copy + record)) {
    socket.tx.owed.drop();
    return false;
  }
  // Of a lane that is whole nothing is left, and the next send takes the record with it.
  if (socket.fallback.done && (bytes != 0 || socket.tx.shut)) send_owed(socket, fd);
  return true;
}

// Data has come to a connection that the program has shut down both ways. For a peer that has all its end comes first.
void refuse(Socket& socket, int fd, Lane& lane) SOVIA_BOTH_LOCKED(socket) VIADUCT_REQUIRES(lane.lock()) {
  if (socket.tx.shut_later.exchange(false) && lane.ring.unsent() == 0) libc::shutdown(fd, SHUT_WR);
  reset_sending(socket, fd, lane);
}

}  // namespace

namespace {

void expect_record(Socket& socket, Lane& lane, std::uint64_t received, bool finished, bool complete)
    VIADUCT_REQUIRES(socket.rx.lock, lane.lock()) {
  socket.rx.record().expect(lane.greeting.peer_token(), received, finished, complete);
  socket.routes_changed();
}

}  // namespace

void Socket::settle_receiving(Lane& lane) {
  for (;;) {
    if (rx.on_lane) {
      const bool ended = lane.control.receiving() == Lane::State::kEnded;
      if (!rx.leaves_lane && !lane.rx.has_turns() && (ended || lane.control.is_cut())) {
        expect_record(*this, lane, lane.rx.bytes_here(), ended, ended || !lane.control.misses());
        rx.leaves_lane = true;
        if (!ended) be_watched(*this);
      }
      if (lane.rx.unread_here() != 0) return;
      if (const auto received = lane.rx.take_down()) {
        expect_record(*this, lane, *received, false, true);
      } else if (!rx.leaves_lane) {
        return;
      }
      rx.on_lane = rx.leaves_lane = false;
      routes_changed();
      continue;
    }
    const auto first = lane.rx.first();
    if (!first || rx.record().is_expected() || *first > rx.kernel_read) return;
    if (*first < rx.kernel_read) {
      // It has come too late: the peer has lost the lane, and sends its bytes by the kernel, without a record.
      lane.rx.drop_all();
      lane.cut();
      background::look_at(*link.end);
      return;
    }
    lane.rx.go_up();
    rx.on_lane = true;
    routes_changed();
  }
}

void fall_back(Socket& socket, int fd) {
  {
    const StreamsGuard both(socket);
    if (socket.link.end == nullptr || socket.fallback.done || socket.reset) return;
    {
      const LockGuard guard(socket.link.end->lane.lock());
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
  const LockGuard guard(lane.lock());
  if (lane.rx.has_refused()) return refuse(socket, fd, lane);
  if (lane.control.is_lost()) SOVIA_LOG("%d: the lane has broken, the connection goes on through the kernel", fd);
  socket.settle_receiving(lane);
  // Data may be missing. A peer that lives would not have ended the kernel's stream yet, so this end is told as a
  // reset.
  const bool may_have_begun = lane.greeting.trusted() && !lane.greeting.wants_trust();
  const bool may_miss_first = lane.control.receiving() == Lane::State::kIdle && lane.control.misses();
  if (may_have_begun && may_miss_first && has_kernel_ended(fd)) socket.keep_untold_reset(ECONNRESET);
  if (socket.tx.route != TxRoute::kKernel && !go_on_in_kernel(socket, fd, lane)) reset_sending(socket, fd, lane);
  socket.rx.early_end = false;
  background::look_at(*socket.link.end);
  be_watched(socket);
}

void leave_lane(Socket& socket, int fd, bool for_good) {
  Lane& lane = socket.link.end->lane;
  same_lane(socket.link.end->lane, lane);
  bool lands = socket.tx.route == TxRoute::kLane;
  if (lands && !for_good) {
    // A peer that does not yet know of the direction's time on the lane would take what comes twice for new.
    lane.ring.reap();
    lands = lane.tx.has_delivered_first() && lane.tx.go_down();
  }
  if (lands) socket.sending_changed(TxRoute::kLanding);
  if (for_good) lane.finish(false);
  lane.lands = socket.tx.route == TxRoute::kLanding;
  land(socket, fd);
}

bool may_land_now(Lane& lane) {
  constexpr std::size_t kFewBytes = 64 * 1024;
  if (lane.ring.unsent() > kFewBytes) return false;
  return lane.control.sending() == Lane::State::kIdle && !lane.control.broken();
}

bool land(Socket& socket, int fd, bool now) {
  if (socket.tx.route != TxRoute::kLanding) return socket.tx.route == TxRoute::kKernel;
  Lane& lane = socket.link.end->lane;
  same_lane(socket.link.end->lane, lane);
  // Behind the end no bytes follow, which could overtake it.
  const bool finishes = lane.control.sending() >= Lane::State::kEnding && !socket.tx.shut;
  const bool has_landed = finishes ? lane.control.has_delivered_end() || lane.control.peer_closed()
                                   : lane.ring.unsent() == 0 && !lane.ring.has_unposted();
  if (!has_landed && !(now && may_land_now(lane))) {
    if (!lane.control.broken()) background::flush_later(*socket.link.end);  // else fall_back() follows
    return false;
  }
  if (!go_on_in_kernel(socket, fd, lane)) reset_connection(socket, fd);
  return true;
}

// The background thread has to watch, because a thread that waits for the record, or has made its last send, does not
// run this code again.
void be_watched(Socket& socket) {
  if (!socket.fallback.watched.exchange(true)) background::watch_fall(socket, -1);
}

bool send_owed(Socket& socket, int fd, bool more) {
  OwedBytes& owed = socket.tx.owed;
  if (owed.empty()) return true;
  const int before = errno;
  owed.urge();
  // The error stays with the kernel, for whichever process is to tell of it.
  const bool failed = has_kernel_failed(fd);
  while (owed.left() != 0 && !socket.reset && !failed) {
    const ssize_t put = libc::send(fd, owed.data(), owed.left(), MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) {
      errno = before;
      be_watched(socket);
      return false;
    }
    // The kernel returns a reset only once. It was here, so a later call of the program returns it.
    if (put < 0 && errno != EPIPE) socket.keep_untold_reset(errno);
    if (put < 0) break;
    owed.take(static_cast<std::size_t>(put));
    counters::add(Counter::kBytesSentKernel, static_cast<std::uint64_t>(put));
  }
  owed.drop();
  shut_if_due(socket, fd);
  errno = before;
  return true;
}

void after_send_of_owed(Socket& socket, ssize_t& bytes) {
  OwedBytes& owed = socket.tx.owed;
  owed.urge();
  const std::size_t taken = bytes < 0 ? 0 : std::min<std::size_t>(static_cast<std::size_t>(bytes), owed.left());
  owed.take(taken);
  counters::add(Counter::kBytesSentKernel, taken);
  if (bytes >= 0) bytes -= static_cast<ssize_t>(taken);
  if (owed.left() == 0) return owed.drop();
  const int before = errno;
  be_watched(socket);
  errno = before;
}

void shut_if_due(Socket& socket, int fd) {
  if (!socket.tx.shut_later || !socket.tx.owed.empty() || fd < 0) return;
  if (socket.link.end != nullptr && !socket.fallback.done && !socket.reset) {
    const LockGuard guard(socket.link.end->lane.lock());
    if (!socket.link.end->lane.control.has_delivered_end()) return;
  }
  socket.tx.shut_later = false;
  libc::shutdown(fd, SHUT_WR);
}

bool has_foreign_bytes(Socket& socket, int fd) {
  if (socket.link.end == nullptr || !socket.rx.is_on_lane() || socket.fallback.done || socket.reset) return false;
  Lane& lane = socket.link.end->lane;
  const LockGuard guard(lane.lock());
  if (lane.control.broken() || lane.control.receiving() != Lane::State::kUp) return false;
  Resume resume;
  int unread = 0;
  if (libc::ioctl(fd, SIOCINQ, &unread) != 0 || unread <= 0) return false;
  const ssize_t got = libc::recv(fd, &resume, sizeof resume, MSG_PEEK | MSG_DONTWAIT);
  return got > 0 && !ResumeRecord::can_begin(lane.greeting.peer_token(), resume, static_cast<std::size_t>(got));
}

void reset_for_foreign_bytes(Socket& socket, int fd) {
  const StreamsGuard both(socket);
  if (!has_foreign_bytes(socket, fd)) return;
  socket.link.shown.set(ShownSocket::Way::kKernel, Reason::kUnseen);
  SOVIA_LOG("%d: the peer sends by a call that its library does not see", fd);
  reset_connection(socket, fd, Reason::kUnseen);
}

namespace {

void shut_reading_if_due(Socket& socket, int fd) SOVIA_RX_LOCKED(socket) {
  if (!socket.rx.shut_later || (socket.rx.record().is_expected() && !socket.reset)) return;
  socket.rx.shut_later = false;
  // Bytes behind the record came behind the shutdown: TCP refuses them if both directions are shut.
  if (socket.tx.shut && !socket.reset && unread_in_kernel(fd) != 0) return reset_connection(socket, fd);
  libc::shutdown(fd, SHUT_RD);
}

}  // namespace

bool take_record(Socket& socket, int fd) {
  const int before = std::exchange(errno, 0);
  const ResumeRecord::Take take = socket.rx.record().take(fd, socket.rx.kernel_read);
  const bool again = take == ResumeRecord::Take::kAgain;
  if (again && reads_no_more(fd)) socket.rx.shut = true;  // another process may have done it
  const int error = std::exchange(errno, before);
  if (again) return false;
  shut_reading_if_due(socket, fd);
  if (take == ResumeRecord::Take::kReset || take == ResumeRecord::Take::kForged) {
    socket.reset.is_caused_by(error);
    reset_connection(socket, fd, take == ResumeRecord::Take::kForged ? Reason::kRecord : Reason::kLost);
  }
  socket.routes_changed();
  return true;
}

void stay_with_kernel_if_done(Socket& socket) {
  const bool asks = !socket.link.is_idle();
  // The kernel would still take what a program sends behind its shutdown().
  const bool shuts = (socket.tx.shut_later || socket.rx.shut_later) && !socket.reset;
  if (socket.tx.lane_forbidden && !asks && !shuts && socket.has_nothing_left()) socket.stay_with_kernel();
}

void drop_if_read(Socket& socket) {
  if (socket.rx.inherited != nullptr && socket.rx.inherited->left() == 0 && !socket.rx.record().is_expected()) {
    socket.rx.replace_inherited(nullptr);
  }
  stay_with_kernel_if_done(socket);
}

bool has_fallen(Socket& socket, LaneEndpoint& end) {
  const RxGuard guard(socket);
  return socket.link.end != &end || socket.fallback.done || socket.reset;
}

namespace {

// Whether the peer has yet to write its record while the kernel has data for the peer. A kernel socket that is closed would
// answer the record with a reset, and drop the data.
bool record_would_reset(Socket& socket, int fd) SOVIA_BOTH_LOCKED(socket) {
  const ResumeRecord& record = socket.rx.record();
  if (!record.is_expected() || record.may_be_missing() || socket.reset || socket.handoff.is_shared()) return false;
  int bytes = 0;
  return !socket.tx.owed.empty() || (libc::ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0);
}

}  // namespace

void accept_no_more(Socket& socket, int fd) {
  if (!socket.rx.shut || !socket.tx.shut_later || socket.rx.record().is_expected()) return;
  if (!socket.rx.kernel_end) socket.rx.kernel_end = socket.rx.kernel_read + unread_in_kernel(fd);
}

namespace {

// True: the kernel has taken bytes since accept_no_more(), and the connection is reset because of them.
bool refuse_late_bytes(Socket& socket, int fd) SOVIA_BOTH_LOCKED(socket) {
  if (!socket.rx.kernel_end || socket.tx.shut_later || socket.reset) return false;
  const std::uint64_t end = *std::exchange(socket.rx.kernel_end, {});
  if (socket.rx.kernel_read + unread_in_kernel(fd) <= end) return false;
  keep_unread(socket, fd, end - std::min(end, socket.rx.kernel_read));
  reset_connection(socket, fd);
  return true;
}

}  // namespace

short falling(Socket& socket) {
  const StreamsGuard both(socket);
  if (socket.reset) socket.tx.owed.drop();
  int wanted = 0;
  if (!socket.reset && socket.rx.record().is_expected()) wanted |= POLLIN;
  if ((socket.tx.shut_later || socket.rx.shut_later || socket.rx.kernel_end) && !socket.reset) wanted |= POLLPRI;
  if (!socket.tx.owed.empty()) wanted |= socket.tx.owed.waits() ? POLLPRI : POLLOUT;
  if (wanted == 0) socket.fallback.watched = false;
  return static_cast<short>(wanted);
}

void go_on_falling(Socket& socket, int fd) {
  {
    const StreamsGuard both(socket);
    OwedBytes& owed = socket.tx.owed;
    if (!owed.empty() && owed.waits() && now_ns() >= owed.waits_until) {
      // The peer's kernel, whose program may be gone, would answer a record with a reset. The end is a good one without it.
      if (!has_kernel_ended(fd)) {
        owed.urge();
      } else if (socket.tx.shut) {
        owed.drop();
      }
    }
    const bool sent = !owed.empty() && !owed.waits() && send_owed(socket, fd);
    const bool expects = socket.rx.record().is_expected() && !socket.reset;
    const bool received = expects && (socket.closed() ? end_record(socket, fd) : take_record(socket, fd));
    const bool shuts = socket.tx.shut_later || socket.rx.shut_later;
    shut_reading_if_due(socket, fd);
    shut_if_due(socket, fd);
    const bool has_shut = shuts && !socket.tx.shut_later && !socket.rx.shut_later;
    const bool refused = refuse_late_bytes(socket, fd);
    if (!sent && !received && !has_shut && !refused) return;
    drop_if_read(socket);
  }
  socket.routes_changed();
  socket.changed();
}

bool end_record(Socket& socket, int fd) {
  if (!socket.rx.record().is_expected() || socket.reset || take_record(socket, fd)) return true;
  if (record_would_reset(socket, fd)) return false;
  // Other processes that have it still expect it.
  socket.rx.replace_inherited(nullptr);
  socket.rx.own_record.forget();
  return true;
}

void await_kernel(Socket& socket, int fd) {
  for (;;) {
    {
      const StreamsGuard both(socket);
      if (socket.reset || (fd < 0 ? socket.tx.owed.empty() : send_owed(socket, fd))) {
        shut_if_due(socket, fd);
        return drop_if_read(socket);
      }
    }
    pollfd one{fd, POLLOUT, 0};
    constexpr int kLookMs = 100;  // another thread may have sent the bytes
    libc::poll(&one, 1, kLookMs);
  }
}

void await_record(Socket& socket, int fd, std::uint64_t deadline) {
  constexpr std::uint64_t kMissingNs = 5'000'000;  // for a record that comes only if the peer's lane has broken
  for (;;) {
    short wanted;
    {
      const StreamsGuard both(socket);
      if (!socket.rx.record().is_expected() || socket.reset) return;
      if (take_record(socket, fd)) return drop_if_read(socket);
      if (socket.rx.record().may_be_missing()) deadline = std::min(deadline, now_ns() + kMissingNs);
      wanted = socket.rx.shut ? 0 : POLLIN;  // poll() would end at once
    }
    if (now_ns() >= deadline) return;
    pollfd one{fd, wanted, 0};
    constexpr int kLookMs = 5;
    libc::poll(&one, 1, kLookMs);
  }
}

Attempt receive_inherited_bytes(Socket& socket, const iovec* pieces, std::size_t count, std::size_t skip, bool peek,
                                ssize_t& bytes) {
  bytes = static_cast<ssize_t>(read_inherited_bytes(*socket.rx.inherited, pieces, count, skip, peek));
  if (bytes != 0) return Attempt::kDone;
  if (socket.rx.inherited->left() != 0) return Attempt::kDone;  // nothing was asked for
  if (socket.rx.record().is_expected()) return Attempt::kAgain;
  socket.rx.replace_inherited(nullptr);
  stay_with_kernel_if_done(socket);
  return Attempt::kAgain;
}

}  // namespace viaduct::sovia
