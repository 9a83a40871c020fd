// How a socket leaves its lane: for the kernel, or for good.
#include "sovia/socket.h"

#include <errno.h>
#include <sys/socket.h>

#include <mutex>

#include "sovia/background.h"
#include "sovia/counters.h"
#include "sovia/engine.h"
#include "sovia/kernel.h"
#include "sovia/lane_end.h"
#include "sovia/options.h"
#include "sovia/residue.h"
#include "sovia/waiting.h"

namespace viaduct::sovia {
namespace {

constexpr long kLeaveSendingMs = 1000;     // for the peer to take in what is on the lane
constexpr std::uint64_t kLeaveMs = 2000;  // for the peer to leave the lane

// What leave() waits for.
class LaneOver final : public Interest {
 public:
  LaneOver(Socket& socket, Lane& lane, bool both) : socket_(socket), lane_(lane), both_(both) {}
  bool ready() override {
    const std::scoped_lock guard(lane_.lock());
    lane_.turn();
    if (both_) lane_.set_aside();
    if (lane_.broken()) return true;
    return both_ ? lane_.over() : lane_.sending() == Lane::State::kEnded;
  }
  bool concerns(const Socket& socket) const override { return &socket == &socket_; }

 private:
  Socket& socket_;
  Lane& lane_;
  const bool both_;
};

}  // namespace

void Socket::forbid(Reason why) {
  {
    const std::scoped_lock both(in_, out_);
    forbidden_ = true;
    reason_.store(why);
    if (stage_ == Stage::kNone && residue_ == nullptr) {
      lane_wanted_.store(false, std::memory_order_release);
    }
  }
  counters::fell(why);
  if (!concerned()) engine::changed(*this);
}

void Socket::listens() {
  lane_wanted_.store(false, std::memory_order_release);
  engine::changed(*this);
}

void Socket::leave_sending(int, Reason why) {
  LaneEnd* end;
  {
    const std::scoped_lock both(in_, out_);
    forbidden_ = true;
    end = lane_;
    if (end == nullptr) return;
    const std::scoped_lock lane_guard(end->lane.lock());
    if (sending_ == Phase::kLane) counters::fell(why);
    end->lane.finish(false);
    set_sending(Phase::kAfter);
    if (end->lane.sending() == Lane::State::kEnded) return;
    ++end->pins;
  }
  // What the kernel sends next is not to overtake what is on the lane.
  LaneOver over(*this, end->lane, false);
  wait_for(over, nullptr, 0, deadline_in_ms(kLeaveSendingMs), nullptr, true,
             Signals::kWait);
  --end->pins;
}

bool Socket::leave(int fd, Reason why) {
  if (!concerned()) return true;
  bool asked;
  {
    const std::scoped_lock both(in_, out_);
    asked = stage_ == Stage::kAsked;
  }
  if (asked && background::cancel(*this)) lane_refused(why);
  LaneEnd* end;
  {
    const std::scoped_lock both(in_, out_);
    end = lane_;
    if (end == nullptr) return true;
    ++end->pins;
    const std::scoped_lock lane_guard(end->lane.lock());
    if (end->lane.greeted()) {
      end->lane.finish(false);
      end->lane.ask_to_leave();
    } else {
      // Nothing has gone over it, and it need not be the peer who is there.
      end->lane.cut();
    }
    set_sending(Phase::kAfter);
  }
  counters::fell(why);
  SOVIA_LOG("%d: leaves the lane: %s", fd, text_of(why));
  LaneOver over(*this, end->lane, true);
  const bool in_time =
      wait_for(over, nullptr, 0, now_ns() + kLeaveMs * 1'000'000, nullptr, true,
             Signals::kWait) == Woken::kReady;
  bool good;
  {
    const std::scoped_lock both(in_, out_);
    const std::scoped_lock lane_guard(end->lane.lock());
    if (receiving_ == Phase::kKernel && end->lane.started()) settle_receiving(end->lane);
    good = in_time && !end->lane.lost();
    if (!good) reset(fd);
    background::look_at(*end);
    --end->pins;
  }
  return good;
}

bool Socket::leave_for_good(int fd, Reason why) {
  for_good_.store(true);
  const bool left = leave(fd, why);
  forbid(why);
  return left;
}

int Socket::shutdown(int fd, int how) {
  {
    const std::scoped_lock both(in_, out_);
    if (how == SHUT_RD || how == SHUT_RDWR) read_shut_ = true;
    if (how == SHUT_WR || how == SHUT_RDWR) {
      forbidden_ = write_shut_ = true;
      if (lane_ != nullptr) {
        const std::scoped_lock lane_guard(lane_->lane.lock());
        lane_->lane.finish(false);
        set_sending(Phase::kAfter);
        background::look_at(*lane_);
      }
    }
  }
  const int result = kernel::shutdown(fd, how);
  const int error = errno;
  engine::changed(*this);
  errno = error;
  return result;
}

// Both ends lose the connection: bytes of it may be lost. In and out locked.
void Socket::reset(int fd) {
  if (reset_.exchange(true)) return;
  counters::fell(Reason::kLost);
  counters::add(Counter::kLanesCut);
  SOVIA_LOG("%d: the lane is lost, the connection is reset", fd);
  sockaddr unspecified{};
  unspecified.sa_family = AF_UNSPEC;
  const int error = errno;
  kernel::connect(fd, &unspecified, sizeof unspecified);
  errno = error;
}

void Socket::release(int fd) {
  for_good_.store(true);
  depart();
  bool asked;
  {
    const std::scoped_lock both(in_, out_);
    forbidden_ = true;
    asked = stage_ == Stage::kAsked;
  }
  if (asked && background::cancel(*this)) lane_refused(Reason::kEnd);
  LaneEnd* end;
  linger linger{};
  {
    const std::scoped_lock both(in_, out_);
    if (residue_ != nullptr) free_residue(residue_);
    residue_ = nullptr;
    end = lane_;
    if (end == nullptr) return;
    socklen_t length = sizeof linger;
    kernel::getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &length);
    const std::scoped_lock lane_guard(end->lane.lock());
    settle_receiving(end->lane);
    // TCP resets a connection that is closed before all was read.
    if (end->lane.unread() != 0 && receiving_ != Phase::kKernel) {
      const struct linger now = {1, 0};
      kernel::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    end->lane.deafen();
    end->lane.finish(true);
    set_sending(Phase::kAfter);
    set_receiving(Phase::kAfter);
    background::look_at(*end);
    if (linger.l_onoff == 0 || linger.l_linger <= 0 || !blocks(fd, 0)) return;
    ++end->pins;
  }
  {
    LaneOver over(*this, end->lane, false);
    wait_for(over, nullptr, 0, deadline_in_ms(linger.l_linger * 1000L), nullptr, true,
             Signals::kWait);
  }
  const std::scoped_lock both(in_, out_);
  background::look_at(*end);
  --end->pins;
}

}  // namespace viaduct::sovia
