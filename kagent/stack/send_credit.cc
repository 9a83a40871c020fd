#include "kagent/stack/send_credit.h"

#include <algorithm>

namespace viaduct {

using state::Vi;

namespace {

constexpr std::uint64_t kCreditWait = 1'000'000;   // ns

constexpr std::uint32_t kWaitDoublings = 3;        // up to 8 ms between two frames

constexpr std::uint64_t kCreditIdle = 50'000'000;  // ns

}  // namespace

// `frames` more are about to be sent, of `room`: whether the last of them asks for credit.
template <class World>
bool SendCredit<World>::asks_for_credit(Vi& vi, std::uint32_t room, std::uint32_t frames) {
  const std::uint32_t left = room - frames;
  const std::uint32_t next = vi.send_next + frames;
  if (vi.credit == 0 || 2 * left > vi.peer_window) return false;
  if (left != 0 && 4 * (next - vi.credit_asked) < vi.peer_window) return false;
  vi.credit_asked = next;
  return true;
}

// The peer has seen all frames before `ack`, or knows them to be lost, and has room for `window` more.
template <class World>
void SendCredit<World>::take_credit(ViIndex i, std::uint32_t ack, std::uint16_t window) {
  Vi& vi = vis_[i];
  // Old news, or nonsense.
  if (ack - vi.send_una > vi.send_next - vi.send_una) return;
  vi.send_una = ack;
  vi.peer_window = window;
  vi.timeouts = 0;
  if (!vi.stalled) return;
  wheel_.disarm(vi_timer(i));
  send_queue_.make_ready(i);
}

// After a silence nothing is under way any more.
template <class World>
void SendCredit<World>::renew_credit(Vi& vi) {
  if (vi.credit == 0 || now_ - vi.sent_time <= kCreditIdle) return;
  vi.send_una = vi.credit_asked = vi.send_next;
  vi.peer_window = std::min(vi.peer_window, vi.credit);
}

template <class World>
void SendCredit<World>::await_credit(ViIndex i) {
  ++root_->counters.credit_stalls;
  const std::uint64_t wait = kCreditWait << std::min(vis_[i].timeouts, kWaitDoublings);
  if (!wheel_.armed(vi_timer(i))) wheel_.arm(vi_timer(i), now_ + wait);
}

template <class World>
void SendCredit<World>::credit_timeout(ViIndex i) {
  Vi& vi = vis_[i];
  if (!vi.stalled || send_queue_.send_room(vi) != 0) return;
  ++root_->counters.credit_timeouts;
  ++vi.timeouts;
  // The oldest is past, or lost.
  if (vi.send_una != vi.send_next) ++vi.send_una;
  vi.peer_window = std::max<std::uint16_t>(vi.peer_window, 1);
  send_queue_.make_ready(i);
}

}  // namespace viaduct
