// Credit: how many frames a sender on Unreliable Delivery may have under way.
//
// Nothing is sent again on this level, so a frame that finds the receiver's port full is lost, and a
// message of many frames with it. Therefore each side tells how many frames it has room for behind
// the PSN that it awaits: in the ACK and window fields of its data, and, when the sender asks by
// kFlagAckNow, in an ACK. The counts are cumulative, so a lost one is made good by the next.
//
//   - Every connection may begin with, and return after a silence to, the standing credit that its
//     peer named in CONNECT_REQUEST or CONNECT_ACCEPT: the port's room shared out to all VIs on
//     Unreliable Delivery. A peer that named none knows nothing of credit; it is sent to without.
//   - A sender that has used half of its credit asks for more, and gets its part of the room, which
//     those share who have asked lately; at first no more than it had, and at most the double
//     when that is used up, so that several that begin together do not get it twice.
//   - A sender without credit waits. When none has come for kCreditWait, it sends one frame, which
//     asks again, then one after each longer wait. So lost frames and a peer that is busy elsewhere
//     cost time, but never hang a VI.
#include <algorithm>

#include "kagent/stack/stack.h"

namespace viaduct {

using state::kNone;
using state::kWindow;
using state::Vi;

namespace {

constexpr std::uint32_t kMostStanding = 64;  // frames
constexpr std::uint32_t kLeastCredit = 4;    // frames, however many share the room
constexpr std::uint64_t kCreditWait = 1'000'000;   // ns
constexpr std::uint32_t kWaitDoublings = 3;        // up to 8 ms between two frames
constexpr std::uint64_t kCreditIdle = 50'000'000;  // ns
constexpr unsigned kEpochBits = 24;          // of ns: 17 ms, "lately" is this one and the last

}  // namespace

// ---------------------------------------------------------------------------- the receiving side

// How many frames may be under way to us. A burst that is being looked at is still in the port; a
// quarter is for what is sent without credit, by other levels too, or with more than its share.
std::uint32_t Stack::credit_room() const {
  const std::uint32_t backlog = port_.backlog();
  return (backlog - std::min(backlog / 2, kBurst)) * 3 / 4;
}

// The number of VIs that share the room has changed. They hear of it when together they may have a
// third more than there is.
void Stack::share_standing_credit(int change) {
  root_->unreliable += static_cast<std::uint32_t>(change);
  const std::uint32_t part = credit_room() / (root_->unreliable + 1);
  root_->credit_standing = std::clamp(part, kLeastCredit, kMostStanding);
  root_->credit_told = std::max(root_->credit_told, root_->credit_standing);
  if (root_->credit_standing * 4 > root_->credit_told * 3) return;
  root_->credit_told = root_->credit_standing;
  for (ViIndex i = 0; i < vis_.fresh(); ++i) {
    const Vi& vi = vis_[i];
    if (vi.session == kNone || vi.state != vip::kConnected || vi.credit == 0) continue;
    tell_credit(i);
  }
}

// At the end of this round, unless data does so before.
void Stack::tell_credit(ViIndex i) {
  Vi& vi = vis_[i];
  vi.unacknowledged = 1;
  if (vi.listed & state::kOnAckList) return;
  vi.listed |= state::kOnAckList;
  vi.ack_deadline = now_;
  vi.ack_next = root_->ack_head;
  root_->ack_head = i;
}

// What the window field of a frame to the peer says.
std::uint16_t Stack::credit_for(const Vi& vi) const {
  const auto epoch = static_cast<std::uint32_t>(now_ >> kEpochBits);
  return epoch - vi.credit_epoch <= 1 ? vi.credit_given : standing_credit();
}

// The peer has asked.
void Stack::give_credit(ViIndex i) {
  Vi& vi = vis_[i];
  const auto epoch = static_cast<std::uint32_t>(now_ >> kEpochBits);
  if (epoch != root_->credit_epoch) {
    root_->credit_askers_before = epoch - root_->credit_epoch == 1 ? root_->credit_askers : 0;
    root_->credit_askers = 0;
    root_->credit_epoch = epoch;
  }
  // Who has not asked lately gets no more than it has, until it is known how many begin with it.
  std::uint32_t most = credit_for(vi);
  if (epoch - vi.credit_epoch > 1) {
    vi.credit_grown = vi.receive_next;
  } else if (vi.receive_next - vi.credit_grown >= most) {
    vi.credit_grown = vi.receive_next;
    most *= 2;
  }
  if (vi.credit_epoch != epoch) {
    vi.credit_epoch = epoch;
    ++root_->credit_askers;
  }
  const std::uint32_t askers = std::max(root_->credit_askers, root_->credit_askers_before);
  vi.credit_given = static_cast<std::uint16_t>(
      std::clamp(std::min(most, credit_room() / askers), kLeastCredit, kWindow));
  tell_credit(i);
}

// ---------------------------------------------------------------------------- the sending side

void Stack::begin_credit(Vi& vi, std::uint16_t standing, std::uint64_t now) {
  vi.credit = vi.peer_window = standing;
  vi.credit_asked = vi.send_next;
  vi.credit_given = 0;
  vi.credit_epoch = static_cast<std::uint32_t>(now >> kEpochBits) - 2;
}

// `frames` more are about to be sent, of `room`: whether the last of them asks for credit.
bool Stack::asks_for_credit(Vi& vi, std::uint32_t room, std::uint32_t frames) {
  const std::uint32_t left = room - frames;
  const std::uint32_t next = vi.send_next + frames;
  if (vi.credit == 0 || 2 * left > vi.peer_window) return false;
  if (left != 0 && 4 * (next - vi.credit_asked) < vi.peer_window) return false;
  vi.credit_asked = next;
  return true;
}

// The peer has seen all frames before `ack`, or knows them to be lost, and has room for `window` more.
void Stack::take_credit(ViIndex i, std::uint32_t ack, std::uint16_t window) {
  Vi& vi = vis_[i];
  // Old news, or nonsense.
  if (ack - vi.send_una > vi.send_next - vi.send_una) return;
  vi.send_una = ack;
  vi.peer_window = window;
  vi.timeouts = 0;
  if (!vi.stalled) return;
  wheel_.disarm(vi_timer(i));
  make_ready(i);
}

// After a silence nothing is under way any more.
void Stack::renew_credit(Vi& vi) {
  if (vi.credit == 0 || now_ - vi.sent_time <= kCreditIdle) return;
  vi.send_una = vi.credit_asked = vi.send_next;
  vi.peer_window = std::min(vi.peer_window, vi.credit);
}

void Stack::await_credit(ViIndex i) {
  ++root_->counters.credit_stalls;
  const std::uint64_t wait = kCreditWait << std::min(vis_[i].timeouts, kWaitDoublings);
  if (!wheel_.armed(vi_timer(i))) wheel_.arm(vi_timer(i), now_ + wait);
}

void Stack::credit_timeout(ViIndex i) {
  Vi& vi = vis_[i];
  if (!vi.stalled || send_room(vi) != 0) return;
  ++root_->counters.credit_timeouts;
  ++vi.timeouts;
  // The oldest is past, or lost.
  if (vi.send_una != vi.send_next) ++vi.send_una;
  vi.peer_window = std::max<std::uint16_t>(vi.peer_window, 1);
  make_ready(i);
}

}  // namespace viaduct
