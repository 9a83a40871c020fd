#include "sovia/socket/socket_receive.h"

#include <errno.h>

#include <cstring>
#include <mutex>

#include "sovia/socket/background_requests.h"
#include "sovia/process/counters.h"
#include "sovia/socket/redirected_receive.h"
#include "sovia/process/libc.h"
#include "sovia/socket/lane_endpoint.h"
#include "sovia/socket/inherited_bytes.h"
#include "sovia/process/signals.h"
#include "sovia/socket/socket_pieces.h"
#include "sovia/process/threads.h"
#include "sovia/lane/engine.h"
#include "sovia/lane/waiting.h"

namespace viaduct::sovia {

bool SocketReceive::finds_nothing(int flags) {
  if (!known_empty()) return false;
  const bool waits = (flags & MSG_DONTWAIT) == 0 &&
                     !is_nonblocking();
  if (waits) return false;
  const signals::Inside inside;
  progress();
  if (!known_empty()) return false;
  engine::after_look_in_vain();
  return true;
}

ssize_t SocketReceive::receive(int fd, const iovec* pieces, std::size_t count, int flags) {
  if (count > kMostPieces) {
    errno = EINVAL;
    return -1;
  }
  if (stage_ == Stage::kNone && begin_undisturbed(flags)) {
    return receive_undisturbed(fd, pieces, count, flags);
  }
  const std::size_t wanted = total(pieces, count);
  const bool all = (flags & MSG_WAITALL) != 0;
  const bool peek = (flags & MSG_PEEK) != 0;
  std::size_t done = 0;
  Waiting waiting;
  RedirectedReceive direct;
  for (;;) {
    ssize_t bytes = 0;
    // As long as small reads find all that they want, what has come meanwhile can wait.
    const std::size_t left = lane_left_.load(std::memory_order_relaxed);
    const bool looked = left == 0 || left < wanted;
    if (looked) progress();
    const Attempt attempt =
        try_receive(fd, pieces, count, peek ? 0 : done, flags & ~MSG_WAITALL, bytes);
    if (attempt == Attempt::kAgain && !looked) {
      lane_left_.store(0, std::memory_order_relaxed);
      continue;
    }
    if (attempt == Attempt::kFailed) return done != 0 && !peek ? static_cast<ssize_t>(done) : -1;
    if (attempt == Attempt::kDone) {
      if (bytes == 0) return static_cast<ssize_t>(done);
      if (peek) {
        done = static_cast<std::size_t>(bytes);
        if (!all || done >= wanted) return bytes;
        // More may come behind it; what is there does not count as something new.
        if (!blocks(fd, flags) || has_ended(fd)) return bytes;
        if (!await_moment(fd, waiting)) return bytes;
        continue;
      }
      note_kernel_bytes(fd, bytes);
      done += static_cast<std::size_t>(bytes);
      if (!all || done >= wanted) return static_cast<ssize_t>(done);
      continue;
    }
    if (!blocks(fd, flags)) {
      if (done != 0) return static_cast<ssize_t>(done);
      errno = EAGAIN;
      return -1;
    }
    if (!peek && (flags & MSG_TRUNC) == 0) direct.begin(*this, pieces, count, done);
    const bool goes_on = await(fd, POLLIN, SO_RCVTIMEO, waiting, direct);
    if (const std::size_t here = direct.take_bytes(); here != 0) {
      done += here;
      if (!all || done >= wanted) return static_cast<ssize_t>(done);
    }
    if (!goes_on) return done != 0 ? static_cast<ssize_t>(done) : -1;
  }
}

// In a process of one thread no lane can appear meanwhile: the background thread, which makes lanes, would be a second
// one. Where a lane was refused, none is asked for while this goes on.
bool SocketReceive::begin_undisturbed(int flags) {
  // Of a call that waits for much, the rest may come over the lane.
  if ((flags & MSG_WAITALL) != 0) return false;
  const bool alone = has_one_thread();
  const std::scoped_lock guard(in_);
  if (!alone && !was_refused()) return false;
  if (stage_ != Stage::kNone || lane_ != nullptr || inherited_bytes_ != nullptr || reset_) return false;
  undisturbed_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

ssize_t SocketReceive::receive_undisturbed(int fd, const iovec* pieces, std::size_t count, int flags) {
  ssize_t bytes;
  {
    const signals::Outside outside;
    if (count == 1) {
      bytes = libc::recv(fd, pieces[0].iov_base, pieces[0].iov_len, flags);
    } else {
      msghdr message{};
      message.msg_iov = const_cast<iovec*>(pieces);
      message.msg_iovlen = count;
      bytes = libc::recvmsg(fd, &message, flags);
    }
  }
  const bool took = bytes > 0 && (flags & MSG_PEEK) == 0;
  {
    const std::scoped_lock guard(in_);
    if (took) kernel_read_ += static_cast<std::uint64_t>(bytes);
    undisturbed_.fetch_sub(1, std::memory_order_relaxed);
  }
  if (!took) return bytes;
  counters::add(Counter::kBytesReceivedKernel, static_cast<std::uint64_t>(bytes));
  note_kernel_bytes(fd, bytes);
  return bytes;
}

// Whether no more will come than is unread.
bool SocketReceive::has_ended(int fd) {
  {
    const std::scoped_lock guard(in_);
    if (lane_ != nullptr && receiving_ != Phase::kKernelAgain) {
      const std::scoped_lock lane_guard(lane_->lane.lock());
      return lane_->lane.control.broken() ||
             (receiving_ == Phase::kLane && lane_->lane.control.receiving() == Lane::State::kEnded);
    }
  }
  pollfd kernel_fd{fd, POLLRDHUP, 0};
  return libc::poll(&kernel_fd, 1, 0) > 0;
}

SocketReceive::Attempt SocketReceive::try_receive(int fd, const iovec* pieces, std::size_t count,
                                    std::size_t skip, int flags, ssize_t& bytes) {
  const bool peek = (flags & MSG_PEEK) != 0;
  CameDown came_down(*this);
  const std::scoped_lock guard(in_);
  fd = current(fd);
  if (inherited_bytes_ != nullptr) {
    const Attempt attempt = receive_inherited_bytes(pieces, count, skip, peek, bytes);
    if (attempt != Attempt::kAgain) return attempt;
    came_down.happened = !may_use_lane();
  }
  if (reset_ && (lane_ == nullptr || receiving_ == Phase::kKernelAgain)) return fail_reset(Attempt::kDone);
  if (lane_ == nullptr) {
    return receive_from_kernel(fd, pieces, count, skip, flags, bytes);
  }
  Lane& lane = lane_->lane;
  bool broken;
  {
    const std::scoped_lock lane_guard(lane.lock());
    settle_receiving(lane);
    if (receiving_ == Phase::kLane) {
      if (lane.rx.unread() != 0) {
        bytes = static_cast<ssize_t>((flags & MSG_TRUNC) != 0 && !peek
                                         ? lane.rx.discard(total(pieces, count) - skip)
                                         : lane.rx.read(pieces, count, skip, peek));
        lane_left_.store(lane.rx.unread(), std::memory_order_relaxed);
        last_packet_.store(lane.rx.last_packet(), std::memory_order_relaxed);
        if (lane.control.receiving() == Lane::State::kEnded && lane.rx.unread() == 0) background::look_at(*lane_);
        if (lane.tx.holds_for_timer()) lane.tx.flush();
        if (lane.wants_poll()) background::flush_later(*lane_);
        counters::add(Counter::kBytesReceivedLane, static_cast<std::uint64_t>(bytes));
        if (bytes == 0 && lane.rx.has_faulted()) {
          errno = EFAULT;
          return Attempt::kFailed;
        }
        return Attempt::kDone;
      }
      if (read_shut_) return Attempt::kDone;
      if (lane.control.receiving() == Lane::State::kEnded) {
        receiving_changed(RouteEvent::kLaneEnded);
        came_down.happened = true;
        background::look_at(*lane_);
      } else if (!lane.control.is_cut()) {
        if (lane.tx.holds()) lane.tx.flush();  // the program wants an answer
        if (total(pieces, count) == skip) return Attempt::kDone;
        quiet_.store(!lane.control.broken(), std::memory_order_relaxed);
        if (lane.control.broken()) background::look_at(*lane_);
        return Attempt::kAgain;
      }
    }
    if (receiving_ == Phase::kKernel && lane.tx.holds()) lane.tx.flush();
    broken = lane.control.is_cut();
  }
  if (broken && !fell_) {
    const std::scoped_lock guard_out(out_);
    fall_back_locked(fd);
    came_down.happened = true;
  }
  if (reset_ && receiving_ != Phase::kDrain) return fail_reset(Attempt::kDone);
  if (fell_ && receiving_ == Phase::kLane) {
    receiving_changed(RouteEvent::kLaneEnded);
    background::look_at(*lane_);
  }
  return receive_from_kernel(fd, pieces, count, skip, flags, bytes);
}

SocketReceive::Attempt SocketReceive::receive_from_kernel(int fd, const iovec* pieces, std::size_t count,
                                            std::size_t skip, int flags, ssize_t& bytes) {
  if (!meet_early_record(fd)) return reset_ ? fail_reset(Attempt::kDone) : Attempt::kAgain;
  if (record_is_next()) {
    if (!take_record(fd)) return Attempt::kAgain;
    if (reset_) return fail_reset(Attempt::kDone);
    rest_with_kernel();
  }
  const std::uint64_t limit = receiving_ == Phase::kDrain ? kernel_left_ : ~0ull;
  IovecTail rest(pieces, count, skip, limit);
  bytes = libc::recvmsg(fd, rest.message(), flags | MSG_DONTWAIT);
  if (bytes < 0) return errno == EAGAIN ? Attempt::kAgain : Attempt::kFailed;
  if (bytes == 0 && rest.bytes() != 0 && take_untold_reset()) return Attempt::kFailed;
  // The end of the kernel's stream is that of the connection only when that of the lane has come.
  if (bytes == 0 && lane_ != nullptr && receiving_ == Phase::kKernel && rest.bytes() != 0 &&
      !read_shut_) {
    const std::scoped_lock guard(lane_->lane.lock());
    if (must_wait_for_lane_end(lane_->lane)) {
      early_end_ = true;
      return Attempt::kAgain;
    }
  }
  if (bytes > 0 && (flags & MSG_PEEK) != 0 && receiving_ == Phase::kDrain &&
      static_cast<std::uint64_t>(bytes) == kernel_left_) {
    // The next bytes are on the lane.
    const std::scoped_lock guard(lane_->lane.lock());
    bytes += static_cast<ssize_t>(
        lane_->lane.rx.read(pieces, count, skip + static_cast<std::size_t>(bytes), true));
  }
  if (bytes > 0 && (flags & MSG_PEEK) == 0) {
    counters::add(Counter::kBytesReceivedKernel, static_cast<std::uint64_t>(bytes));
    kernel_read_ += static_cast<std::uint64_t>(bytes);
    if (receiving_ == Phase::kDrain) {
      kernel_left_ -= static_cast<std::uint64_t>(bytes);
      if (kernel_left_ == 0) {
        receiving_changed(RouteEvent::kDrained);
        if (fell_) background::look_at(*lane_);
      }
    }
  }
  return Attempt::kDone;
}

bool SocketReceive::put_back(const iovec* pieces, std::size_t count) {
  const std::scoped_lock both(in_, out_);
  const std::size_t bytes = total(pieces, count);
  const std::size_t rest = inherited_bytes_ != nullptr ? inherited_bytes_->left() : 0;
  InheritedBytes* const all = make_inherited_bytes(bytes + rest);
  if (all == nullptr) return false;
  std::byte* to = all->data();
  for (std::size_t i = 0; i < count; ++i) {
    if (pieces[i].iov_len != 0) std::memcpy(to, pieces[i].iov_base, pieces[i].iov_len);
    to += pieces[i].iov_len;
  }
  const iovec behind{to, rest};
  const std::size_t moved = rest != 0 ? read_inherited_bytes(*inherited_bytes_, &behind, 1, 0, false) : 0;
  all->set_bytes(bytes + moved);
  if (inherited_bytes_ != nullptr) inherited_bytes_->move_record(*all);
  if (inherited_bytes_ != nullptr) free_inherited_bytes(inherited_bytes_);
  inherited_bytes_ = all;
  stop_bypass();
  return true;
}

}  // namespace viaduct::sovia
