#include "kagent/stack/loss_recovery.h"

#include <algorithm>

#include "kagent/stack/backoff.h"
#include "kagent/stack/congestion.h"
#include "kagent/stack/delay.h"

namespace viaduct {

using state::Vi;
using state::kNone;
using state::kWindow;

namespace {

constexpr std::uint32_t kReorder = 3;             // frames

constexpr std::uint64_t kMinTimeout = 700'000;    // ns; processors are busy elsewhere that long

constexpr std::uint64_t kUnaskedTimeout = 5 * kMs;  // the same where the peer was not asked: see kUnaskedEnd in acknowledger.cc

constexpr std::uint64_t kMaxTimeout = 250'000'000;
constexpr std::uint32_t kProbes = 4;              // timeouts that only probe

constexpr std::uint32_t kQuestions = 3;           // of these, how many send no data

constexpr std::uint32_t kTailProbes = 3;          // tail probes, whose wait is not doubled

constexpr std::uint32_t kMaxTimeouts = 16;        // in a row, then the connection is lost

// A frame that went by express before a train may be late without being lost: the arrival of the train's
// frames says nothing of it. If it is lost, the timer will tell.
bool may_be_overtaken(const Vi& vi, std::uint32_t psn) {
  return vi.tx.train_frames != 0 && vi.tx.timeouts == 0 &&
         static_cast<std::int32_t>(psn - train_begin(vi)) < 0 && !vi.tx.resent.has(psn);
}

}  // namespace

template <class Platform>
void LossRecovery<Platform>::take_ack(ViIndex i, std::uint32_t ack, std::uint16_t window) {
  Vi& vi = vis_[i];
  const std::uint32_t newly = ack - vi.tx.send_una;
  if (newly > vi.tx.send_next - vi.tx.send_una) {
    // The acknowledgement is old, or nonsense.
    if (vi.tx.send_una - ack > kWindow) ++root_->counters.drop_bad_ack;
    return;
  }
  vi.tx.peer_window = window;
  if (newly == 0) return;
  // Widens the window only if half of it was in use: else the acknowledgement does not show that the network carries
  // so many frames.
  const bool limited = vi.tx.send_next - vi.tx.send_una >= vi.tx.congestion_window / 2;
  if (vi.tx.sample_time != 0 && ack - 1 - vi.tx.sample_psn < kWindow) measure_round_trip(i, limited);
  if (limited && (vi.tx.keeps_queue_short == 0 || delay(i).grows != 0)) congestion::widen_window(vi, newly);
  bool came_late = false;  // by train
  if (!vi.tx.sacked.empty() || !vi.tx.lost.empty() || !vi.tx.resent.empty() || vi.tx.doubts_train != 0) {
    for (std::uint32_t psn = vi.tx.send_una; psn != ack; ++psn) {
      if (vi.tx.resent.has(psn)) {
        note_resend_delivered(i, psn);
      } else if (went_by_train(vi, psn)) {
        came_late = vi.tx.timeouts != 0;
        vi.tx.doubts_train = 0;
      }
      vi.tx.sacked.remove(psn);
      vi.tx.lost.remove(psn);
      vi.tx.resent.remove(psn);
    }
  }
  vi.tx.send_una = ack;
  vi.tx.progress_time = now_;
  if (vi.tx.timeouts != 0) [[unlikely]] {
    vi.tx.timeouts = 0;
    restart_timer(i);
    if (came_late) trains_.take_up(i);
  }
  send_queue_.complete_acknowledged(i);
  if (vi.tx.stalled) send_queue_.make_ready(i);
}

template <class Platform>
void LossRecovery<Platform>::take_sack(ViIndex i, std::uint32_t ack,
                                       std::span<const std::byte> bitmap) {
  Vi& vi = vis_[i];
  if (ack != vi.tx.send_una) return;
  const std::uint32_t outstanding = vi.tx.send_next - vi.tx.send_una;
  std::uint32_t highest = 0;  // the newest frame that has arrived, counted from ack; 0: none
  for (std::uint32_t byte = 0; byte < bitmap.size(); ++byte) {
    auto bits = std::to_integer<unsigned>(bitmap[byte]);
    for (; bits != 0; bits &= bits - 1) {
      const std::uint32_t ahead = byte * 8 + static_cast<unsigned>(__builtin_ctz(bits)) + 1;
      if (ahead >= outstanding) return;  // nothing we have sent
      highest = ahead;
      const std::uint32_t psn = ack + ahead;
      if (vi.tx.sacked.has(psn)) continue;
      if (vi.tx.resent.has(psn)) note_resend_delivered(i, psn);
      vi.tx.sacked.add(psn);
      vi.tx.lost.remove(psn);
      if (psn == vi.tx.sample_psn && vi.tx.sample_time != 0) {
        measure_round_trip(i, outstanding >= vi.tx.congestion_window / 2);
      }
    }
  }
  if (highest == 0) return;
  // Frames that have arrived behind the gap make room, too.
  if (vi.tx.stalled) send_queue_.make_ready(i);
  // The newest kReorder frames may only be out of order, and are no sign of a loss. But behind the last frame nothing
  // more will come, so fewer suffice there.
  const bool last =
      highest + 1 == outstanding && vi.tx.current_slot == kNone && !send_queue_.more_to_send(i);
  const std::uint32_t reorder = last ? std::min(kReorder, highest) : kReorder;
  std::uint32_t lost = 0;
  for (std::uint32_t ahead = 0; ahead < highest; ++ahead) {
    const std::uint32_t psn = ack + ahead;
    if (vi.tx.sacked.has(psn) || vi.tx.lost.has(psn)) continue;
    if (may_be_overtaken(vi, psn)) [[unlikely]] continue;
    // Judge by the frames that the network has delivered since this one was last sent.
    std::uint32_t sent_at = psn + 1;
    bool overtaken = false;
    if (vi.tx.resent.has(psn)) {
      const std::uint32_t mark = resent_mark(i, psn);
      sent_at = vi.tx.send_next - static_cast<std::uint16_t>(vi.tx.send_next - (mark >> 16));
      overtaken = static_cast<std::int16_t>(vi.tx.resends_delivered - mark) >=
                  static_cast<std::int16_t>(kReorder);
    }
    if (!overtaken && static_cast<std::int32_t>(ack + highest - (sent_at + reorder - 1)) < 0) {
      continue;
    }
    vi.tx.lost.add(psn);
    ++lost;
  }
  if (lost == 0) return;
  congestion::narrow_window(vi, lost);
  history_.loss(state::Happened::kLoss, i, lost);
  send_queue_.make_ready(i);
}

template <class Platform>
void LossRecovery<Platform>::measure_round_trip(ViIndex i, bool limited) {
  Vi& vi = vis_[i];
  const bool probed = vi.tx.tail_probes != 0;
  const bool doubtful = vi.tx.resent.has(vi.tx.sample_psn);
  congestion::measure_rtt(vi, now_ - vi.tx.sample_time, doubtful);
  if (vi.tx.path == state::Path::kNetwork && vi.tx.sample_asked != 0 && !doubtful) {
    delay::note_round_trip(vi, delay(i), now_ - vi.tx.sample_time, limited, now_);
  }
  vi.tx.sample_time = 0;
  if (probed && vi.tx.tail_probes == 0) restart_timer(i);
}

// Notes that a frame that was sent again has arrived, or so it seems: the first copy may have arrived.
template <class Platform>
void LossRecovery<Platform>::note_resend_delivered(ViIndex i, std::uint32_t psn) {
  Vi& vi = vis_[i];
  const auto number = static_cast<std::uint16_t>(resent_mark(i, psn));
  if (static_cast<std::int16_t>(number - vi.tx.resends_delivered) > 0) {
    vi.tx.resends_delivered = number;
  }
}

template <class Platform>
bool LossRecovery<Platform>::may_probe_tail(const Vi& vi) const {
  return vi.tx.losses != state::Losses::kNone && vi.tx.smoothed_rtt != 0 &&
         vi.tx.tail_probes < kTailProbes;
}

// Before a round trip was measured, each timeout makes the wait four times as long, not twice.
template <class Platform>
std::uint64_t LossRecovery<Platform>::retransmission_time(const Vi& vi) const {
  const std::uint64_t least = vi.tx.patient != 0 ? kUnaskedTimeout : kMinTimeout;
  if (vi.tx.smoothed_rtt == 0) {
    return std::min(least << std::min(2u * vi.tx.timeouts, 10u), kMaxTimeout);
  }
  if (may_probe_tail(vi)) return 2ull * vi.tx.smoothed_rtt + 2 * kAckDelay;
  // Where nothing was lost yet the first timeout may come early: it only asks, which costs little, and a lost frame
  // is sent again a round trip later.
  const std::uint64_t variations = vi.tx.losses == state::Losses::kNone && vi.tx.timeouts == 0 ? 2 : 3;
  const std::uint64_t base =
      std::max(std::max<std::uint64_t>(2ull * vi.tx.smoothed_rtt,
                                       vi.tx.smoothed_rtt + variations * vi.tx.rtt_variation) +
                   2 * kAckDelay,
               least);
  return std::min(base << std::min<std::uint32_t>(vi.tx.timeouts, 10), kMaxTimeout);
}

// When the peer should have answered. The first wait counts from the newest frame, as frames in front of it may have
// been answered late.
template <class Platform>
std::uint64_t LossRecovery<Platform>::timer_due(const Vi& vi) const {
  const std::uint64_t wait = retransmission_time(vi);
  if (vi.tx.timeouts != 0 || vi.tx.tail_probes != 0) return vi.tx.progress_time + wait;
  return std::max(vi.tx.sent_time + wait, vi.tx.progress_time + wait / 2);
}

template <class Platform>
void LossRecovery<Platform>::restart_timer(ViIndex i) {
  wheel_.arm(vi_timer(i), timer_due(vis_[i]));
}

// Sends the oldest and the newest frame again: their acknowledgement tells what is missing, and a peer that was
// merely late (its processor was busy) is not flooded.
template <class Platform>
void LossRecovery<Platform>::send_ends_again(Vi& vi) {
  vi.tx.lost.add(vi.tx.send_una);
  if (!vi.tx.sacked.has(vi.tx.send_next - 1)) vi.tx.lost.add(vi.tx.send_next - 1);
}

// Whether a timeout sends a probe first. Not while a train is under way: a probe goes another way and would overtake
// it.
template <class Platform>
bool LossRecovery<Platform>::asks_first(const Vi& vi) const {
  return vi.tx.losses == state::Losses::kNone && vi.tx.timeouts != 0 && vi.tx.timeouts <= kQuestions &&
         !has_gone_by_train(vi);
}

template <class Platform>
void LossRecovery<Platform>::ask(const Vi& vi) {
  ++root_->counters.probes_sent;
  frames_out_.send_short(wire::Type::kProbe, vi.link.peer_address, vi.link.peer_vi, vi.link.peer_key,
                         vi.tx.send_next, vi.rx.receive_next, 0, 0, vi.tx.path == state::Path::kLocal);
}

// Nothing has been acknowledged since the timer ran out, so the oldest frame was sent before the probe. This may be
// the answer to an older probe: then a frame that has arrived is sent again, which does no harm.
template <class Platform>
void LossRecovery<Platform>::take_answer(ViIndex i, std::uint32_t ack) {
  Vi& vi = vis_[i];
  if (vi.reliability == vip::kUnreliable || !asks_first(vi)) return;
  if (ack != vi.tx.send_una) return take_ack(i, ack, vi.tx.peer_window);
  if (vi.tx.smoothed_rtt != 0) vi.tx.sample_time = 0;
  send_ends_again(vi);
  vi.tx.progress_time = now_;
  restart_timer(i);
  send_queue_.make_ready(i);
}

// One timeout shows only that a processor is busy, as with many connections. A second one ends the use of trains, if no
// frame has come by train in between. While trains are set aside all connections send single frames, more than a
// program's port has receives for, and what is lost then keeps trains aside.
template <class Platform>
void LossRecovery<Platform>::doubt_train(ViIndex i) {
  Vi& vi = vis_[i];
  if (vi.tx.doubts_train != 0) trains_.set_aside(i);
  vi.tx.doubts_train = vi.tx.doubts_train == 0;
}

// The timer is not moved with every frame and acknowledgement: when it fires, it looks whether it
// should have been later.
template <class Platform>
void LossRecovery<Platform>::retransmission_timeout(ViIndex i) {
  Vi& vi = vis_[i];
  if (vi.reliability == vip::kUnreliable) {
    if (vi.tx.timeouts == trains_.kSilence && has_gone_by_train(vi)) trains_.set_aside(i);
    return send_credit_.credit_timeout(i);
  }
  if (vi.tx.send_una == vi.tx.send_next) return;
  const std::uint64_t due = timer_due(vi);
  if (now_ < due) {
    wheel_.arm(vi_timer(i), due);
    return;
  }
  ++root_->counters.retransmission_timeouts;
  if (may_probe_tail(vi)) {
    ++vi.tx.tail_probes;
  } else {
    if (has_gone_by_train(vi)) doubt_train(i);
    if (++vi.tx.timeouts > kMaxTimeouts) {
      // So many timeouts do not end the connection: the host or its link may only be busy. It ends after
      // peer_timeout_ns, as with a silent host. The time in which the peer was silent does not count, as the peer may
      // have just begun to read what has been sent to it.
      const state::Peer& peer = peers_[vi.link.peer];
      const bool due = now_ - std::max(vi.tx.sent_time, peer.silent_at) >= limits_.peer_timeout_ns;
      if (due && !peer_table_.may_be_stopped(peer)) {
        pending_disconnect_.end(i, End::kLost, vip::kConnectionLost);
        return;
      }
      vi.tx.timeouts = kMaxTimeouts;
    }
    // The first timeout is usual where processors are busy, and only asks: it is no event.
    if (vi.tx.timeouts > 1) history_.loss(state::Happened::kTimeout, i, vi.tx.timeouts);
  }
  if (asks_first(vi)) {
    ask(vi);
    vi.tx.progress_time = now_;
    return restart_timer(i);
  }
  // It will not be known which copy is acknowledged, so no round trip is measured, unless none has been yet: a
  // doubtful one is better than none.
  if (vi.tx.smoothed_rtt != 0) vi.tx.sample_time = 0;
  if (vi.tx.timeouts <= kProbes) {
    send_ends_again(vi);
  } else {
    vi.tx.lost.add(vi.tx.send_una);
    for (std::uint32_t psn = vi.tx.send_una; psn != vi.tx.send_next; ++psn) {
      if (!vi.tx.sacked.has(psn)) vi.tx.lost.add(psn);
    }
    congestion::halve_window(vi);
  }
  vi.tx.progress_time = now_;
  restart_timer(i);
  send_queue_.make_ready(i);
}

}  // namespace viaduct
