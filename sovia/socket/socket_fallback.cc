#include "sovia/socket/socket_fallback.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <mutex>
#include <new>

#include "sovia/socket/background_requests.h"
#include "sovia/process/counters.h"
#include "sovia/process/libc.h"
#include "sovia/socket/lane_endpoint.h"
#include "sovia/process/options.h"
#include "sovia/socket/inherited_bytes.h"
#include "sovia/process/clock.h"

namespace viaduct::sovia {

namespace {

constexpr std::uint64_t kRecordAloneNs = 100'000'000;

// Whether so many bytes can be the beginning of the record of a peer with that token.
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

constinit std::atomic<unsigned> SocketFallback::g_kept{0};

void SocketFallback::fall_back(int fd) {
  {
    const std::scoped_lock both(in_, out_);
    if (lane_ == nullptr || fell_ || reset_) return;
    {
      const std::scoped_lock guard(lane_->lane.lock());
      if (!lane_->lane.control.is_cut()) return;
    }
    fall_back_locked(fd);
  }
  routes_changed();
  changed();
}

// In and out locked, the lane broken.
void SocketFallback::fall_back_locked(int fd) {
  fell_ = true;
  Lane& lane = lane_->lane;
  const std::scoped_lock guard(lane.lock());
  if (!lane.loss.wants_fall_back()) return;
  SOVIA_LOG("%d: the lane has broken, the connection goes on through the kernel", fd);
  settle_receiving(lane);
  // A peer that lives has not ended its stream yet, or has sent all.
  if (lane.loss.may_miss_start() && has_kernel_ended(fd)) keep_untold_reset();
  if (lane.loss.may_get_record()) {
    if (inherited_bytes_ == nullptr) inherited_bytes_ = make_record();
    if (inherited_bytes_ == nullptr) return reset(fd);
    inherited_bytes_->expect_record(lane.greeting.peer_token(), lane.rx.bytes_received(), lane.loss.expects_record(),
                                     !lane.control.peer_has_more());
    if (receiving_ == Phase::kLane && lane.rx.unread() == 0) receiving_changed(RouteEvent::kLaneEnded);
  }
  keep_unsent(fd, lane);
  early_end_ = false;
  background::look_at(*lane_);
  be_watched();
}

// A thread that waits for the record, or has sent its last, will not come by again: the background thread watches.
void SocketFallback::be_watched() {
  if (!watched_.exchange(true)) background::watch_fall(*this, -1);
}

// The kernel brings the bytes that are not known to have come.
void SocketFallback::keep_unsent(int fd, Lane& lane) {
  const LaneLoss::Fall falls = lane.loss.falls();
  if (falls == LaneLoss::Fall::kImpossible) return reset(fd);
  const std::size_t record = falls == LaneLoss::Fall::kRecord ? sizeof(Resume) : 0;
  const std::size_t bytes = record + lane.ring.unsent();
  if (sending_ == Phase::kLane || bytes != 0) sending_changed(RouteEvent::kLaneEnded);
  if (bytes == 0) return;
  // An answer to one that has gone would cost its last bytes the good end.
  if (lane.ring.unsent() == 0 && record_is_next() && inherited_bytes_->is_record_certain() && take_record(fd) &&
      !reset_ && (peer_ended_ || inherited_bytes_->peer_closes())) {
    return;
  }
  const bool nothing_known = record_is_next() && inherited_bytes_->is_record_certain();
  kept_until_ = lane.ring.unsent() == 0 && nothing_known ? now_ns() + kRecordAloneNs : 0;
  kept_ = static_cast<Kept*>(malloc(sizeof(Kept) + bytes));
  if (kept_ == nullptr) return reset(fd);
  g_kept.fetch_add(1);
  *kept_ = {bytes, 0, {}};
  if (record != 0) {
    Resume resume{};
    resume.closes = lane.control.closes();
    for (std::size_t i = 0; i < kTokenBytes; ++i) {
      resume.token[i] = lane.greeting.own_token()[kTokenBytes - 1 - i];
    }
    resume.offset = htobe64(lane.ring.bytes_completed());
    memcpy(kept_->data, &resume, sizeof resume);
  }
  if (!lane.ring.copy_unsent(kept_->data + record)) {
    drop_kept();
    return reset(fd);
  }
  flush_kept(fd, true);
}

void SocketFallback::drop_kept() {
  if (kept_ == nullptr) return;
  free(kept_);
  kept_ = nullptr;
  g_kept.fetch_sub(1);
}

// Out locked. False: the kernel takes no more at the moment. `patient`: or the record may wait.
bool SocketFallback::flush_kept(int fd, bool patient) {
  if (kept_ == nullptr) return true;
  if (patient && !peer_ended_ && now_ns() < kept_until_) return false;
  const int before = errno;
  if (peer_ended_ && kept_->bytes == sizeof(Resume)) kept_->at = kept_->bytes;
  while (kept_->at != kept_->bytes && !reset_) {
    const ssize_t put = libc::send(fd, kept_->data + kept_->at, kept_->bytes - kept_->at,
                                     MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) {
      errno = before;
      return false;
    }
    // The kernel tells of a reset only once.
    if (put < 0 && errno != EPIPE) keep_untold_reset();
    if (put < 0) break;
    kept_->at += static_cast<std::size_t>(put);
    counters::add(Counter::kBytesSentKernel, static_cast<std::uint64_t>(put));
  }
  drop_kept();
  shut_if_due(fd);
  errno = before;
  return true;
}

// Out locked; and the lane only if it has fallen.
void SocketFallback::shut_if_due(int fd) {
  if (!shut_later_ || kept_ != nullptr || fd < 0) return;
  if (lane_ != nullptr && !fell_ && !reset_) {
    const std::scoped_lock guard(lane_->lane.lock());
    if (lane_->lane.control.sending() != Lane::State::kEnded) return;
  }
  shut_later_ = false;
  libc::shutdown(fd, SHUT_WR);
}

// Whether the peer has yet to write its record while the kernel has data for it. A kernel socket that is
// closed answers what comes with a reset, and drops the data.
bool SocketFallback::record_would_reset(int fd) {
  if (inherited_bytes_ == nullptr || !inherited_bytes_->expects_record() || reset_) return false;
  if (holders_ != nullptr && !sole_holder(*holders_)) return false;
  int bytes = 0;
  return kept_ != nullptr || (libc::ioctl(fd, SIOCOUTQ, &bytes) == 0 && bytes > 0);
}

bool SocketFallback::record_is_next() const {
  if (inherited_bytes_ == nullptr || !inherited_bytes_->expects_record()) return false;
  return lane_ == nullptr || receiving_ == Phase::kKernelAgain || (fell_ && receiving_ == Phase::kLane);
}

// In locked.
bool SocketFallback::meet_early_record(int fd) {
  if (lane_ == nullptr || fell_ || receiving_ != Phase::kKernelAgain || inherited_bytes_ != nullptr) return true;
  Lane& lane = lane_->lane;
  const std::scoped_lock guard(lane.lock());
  if (!lane.loss.may_get_early_record()) return true;
  // Where there is nothing, a receive would take the connection's error from the program.
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
  inherited_bytes_ = make_record();
  if (inherited_bytes_ == nullptr) {
    reset(fd);
    return false;
  }
  inherited_bytes_->expect_record(lane.greeting.peer_token(), lane.rx.bytes_received(), false, !lane.control.peer_has_more());
  return true;
}

// In locked. False: it has not come yet.
bool SocketFallback::take_record(int fd) {
  const int before = errno;
  const InheritedBytes::Take take = inherited_bytes_->take_record(fd, kernel_read_);
  errno = before;
  if (take == InheritedBytes::Take::kAgain) return false;
  if (take == InheritedBytes::Take::kEnded) {
    peer_ended_.store(true);
  } else if (take == InheritedBytes::Take::kReset) {
    reset(fd);
  } else {
    SOVIA_LOG("%d: receiving goes on through the kernel", fd);
  }
  return true;
}

// In locked. Nothing is left of a lane.
void SocketFallback::rest_with_kernel() {
  if (inherited_bytes_ != nullptr && inherited_bytes_->left() == 0 && !inherited_bytes_->expects_record()) {
    free_inherited_bytes(inherited_bytes_);
    inherited_bytes_ = nullptr;
  }
  if (forbidden_ && stage_ == Stage::kNone && inherited_bytes_ == nullptr && kept_ == nullptr) {
    stay_with_kernel();
  }
}

bool SocketFallback::has_fallen(LaneEndpoint& end) {
  const std::scoped_lock guard(in_);
  return lane_ != &end || fell_ || reset_;
}

short SocketFallback::falling() {
  short wanted = 0;
  const std::scoped_lock both(in_, out_);
  if (reset_) {
    drop_kept();
    return 0;
  }
  const bool ends = closed() && inherited_bytes_ != nullptr && inherited_bytes_->expects_record();
  if (ends || (inherited_bytes_ != nullptr && inherited_bytes_->is_record_certain())) wanted |= POLLIN;
  // The program reads what comes before the record first.
  if (wanted != 0 && !record_is_next()) wanted = POLLPRI;
  if (shut_later_) wanted |= POLLPRI;
  if (kept_ != nullptr && now_ns() < kept_until_) {
    wanted |= POLLPRI;
  } else if (kept_ != nullptr) {
    wanted |= POLLOUT;
  }
  if (wanted == 0) watched_ = false;
  return wanted;
}

void SocketFallback::go_on_falling(int fd) {
  {
    const std::scoped_lock both(in_, out_);
    const bool has_record = inherited_bytes_ != nullptr && inherited_bytes_->is_record_certain();
    const bool received = !closed() && has_record && record_is_next() && take_record(fd);
    const bool sent = kept_ != nullptr && flush_kept(fd, true);
    shut_if_due(fd);
    if (closed() && inherited_bytes_ != nullptr) {
      // The program has closed the socket: it neither reads nor misses what comes behind the record.
      const bool stays = record_would_reset(fd) &&
                         inherited_bytes_->take_record(fd, kernel_read_) == InheritedBytes::Take::kAgain;
      if (!stays) free_inherited_bytes(inherited_bytes_);
      if (!stays) inherited_bytes_ = nullptr;
      return;
    }
    if (!sent && !received) return;
    rest_with_kernel();
  }
  routes_changed();
  changed();
}

// Until the kernel has taken all.
void SocketFallback::await_kernel(int fd) {
  for (;;) {
    {
      const std::scoped_lock both(in_, out_);
      if (reset_ || (fd < 0 ? kept_ == nullptr : flush_kept(fd))) {
        shut_if_due(fd);
        return rest_with_kernel();
      }
    }
    pollfd one{fd, POLLOUT, 0};
    constexpr int kLookMs = 100;  // whatever else may have sent it
    libc::poll(&one, 1, kLookMs);
  }
}

void SocketFallback::await_record(int fd, std::uint64_t deadline) {
  for (;;) {
    {
      const std::scoped_lock both(in_, out_);
      if (inherited_bytes_ == nullptr || !inherited_bytes_->is_record_certain() || !record_is_next() || reset_) return;
      if (take_record(fd)) return rest_with_kernel();
    }
    if (now_ns() >= deadline) return;
    pollfd one{fd, POLLIN, 0};
    constexpr int kLookMs = 10;
    libc::poll(&one, 1, kLookMs);
  }
}

SocketFallback::Attempt SocketFallback::receive_inherited_bytes(const iovec* pieces, std::size_t count, std::size_t skip,
                                        bool peek, ssize_t& bytes) {
  bytes = static_cast<ssize_t>(read_inherited_bytes(*inherited_bytes_, pieces, count, skip, peek));
  if (bytes != 0) return Attempt::kDone;
  if (inherited_bytes_->left() != 0) return Attempt::kDone;  // nothing was asked for
  if (inherited_bytes_->expects_record()) return Attempt::kAgain;
  free_inherited_bytes(inherited_bytes_);
  inherited_bytes_ = nullptr;
  if (forbidden_ && stage_ == Stage::kNone && kept_ == nullptr) {
    stay_with_kernel();
  }
  return Attempt::kAgain;
}

}  // namespace viaduct::sovia
