#include "kagent/stack/credit_grants.h"

#include <algorithm>

namespace viaduct {

using state::Vi;
using state::kNone;
using state::kWindow;

namespace {

constexpr std::uint32_t kMostStanding = 64;  // frames

constexpr std::uint32_t kLeastCredit = 4;    // frames, however many share the room

constexpr unsigned kEpochBits = 24;          // of ns: 17 ms, "lately" is this one and the last

}  // namespace

// How many frames may be under way to us. A burst that is being looked at still takes room in the port. A quarter is
// kept for frames that are sent without credit, also by other levels, or beyond a sender's share.
template <class Platform>
std::uint32_t CreditGrants<Platform>::credit_room() const {
  const std::uint32_t backlog = port_.backlog();
  return (backlog - std::min(backlog / 2, kBurst)) * 3 / 4;
}

// Shares out the room again when the number of VIs has changed. Tells the peers their new share only when it is at most
// three quarters of the one last told.
template <class Platform>
void CreditGrants<Platform>::share_standing_credit(int change) {
  root_->unreliable += static_cast<std::uint32_t>(change);
  const std::uint32_t part = credit_room() / (root_->unreliable + 1);
  root_->credit_standing = std::clamp(part, kLeastCredit, kMostStanding);
  root_->credit_told = std::max(root_->credit_told, root_->credit_standing);
  if (root_->credit_standing * 4 > root_->credit_told * 3) return;
  root_->credit_told = root_->credit_standing;
  for (ViIndex i = 0; i < vis_.fresh(); ++i) {
    const Vi& vi = vis_[i];
    if (vi.session == kNone || vi.state != vip::kConnected || vi.link.credit == 0) continue;
    tell_credit(i);
  }
}

// Has the credit told at the end of this round, unless a data frame tells it before.
template <class Platform>
void CreditGrants<Platform>::tell_credit(ViIndex i) {
  Vi& vi = vis_[i];
  vi.ack.unacknowledged = 1;
  if (vi.tx.listed & state::kOnAckList) return;
  vi.tx.listed |= state::kOnAckList;
  vi.ack.ack_deadline = root_->ack_due = now_;
  vi.ack.ack_next = root_->ack_head;
  root_->ack_head = i;
}

// The value for the window field of a frame to the peer.
template <class Platform>
std::uint16_t CreditGrants<Platform>::credit_for(const Vi& vi) const {
  const auto epoch = static_cast<std::uint32_t>(now_ >> kEpochBits);
  return epoch - vi.link.credit_epoch <= 1 ? vi.link.credit_given : standing_credit();
}

// Answers a peer that has asked for credit.
template <class Platform>
void CreditGrants<Platform>::give_credit(ViIndex i) {
  Vi& vi = vis_[i];
  const auto epoch = static_cast<std::uint32_t>(now_ >> kEpochBits);
  if (epoch != root_->credit_epoch) {
    root_->credit_askers_before = epoch - root_->credit_epoch == 1 ? root_->credit_askers : 0;
    root_->credit_askers = 0;
    root_->credit_epoch = epoch;
  }
  // A sender that has not asked lately gets no more than it has, until it is known how many senders begin together.
  std::uint32_t most = credit_for(vi);
  if (epoch - vi.link.credit_epoch > 1) {
    vi.link.credit_grown = vi.rx.receive_next;
  } else if (vi.rx.receive_next - vi.link.credit_grown >= most) {
    vi.link.credit_grown = vi.rx.receive_next;
    most *= 2;
  }
  if (vi.link.credit_epoch != epoch) {
    vi.link.credit_epoch = epoch;
    ++root_->credit_askers;
  }
  const std::uint32_t askers = std::max(root_->credit_askers, root_->credit_askers_before);
  vi.link.credit_given = static_cast<std::uint16_t>(
      std::clamp(std::min(most, credit_room() / askers), kLeastCredit, kWindow));
  tell_credit(i);
}

template <class Platform>
void CreditGrants<Platform>::begin_credit(Vi& vi, std::uint16_t standing, std::uint64_t now) {
  vi.link.credit = vi.tx.peer_window = standing;
  vi.tx.asked = vi.tx.send_next;
  vi.link.credit_given = 0;
  vi.link.credit_epoch = static_cast<std::uint32_t>(now >> kEpochBits) - 2;
}

}  // namespace viaduct
