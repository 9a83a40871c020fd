#include "kagent/stack/loss_recovery.h"

#include <algorithm>

#include "kagent/stack/backoff.h"
#include "kagent/stack/congestion.h"

namespace viaduct {

using state::Vi;
using state::kNone;
using state::kWindow;

namespace {

constexpr std::uint32_t kReorder = 3;             // frames

constexpr std::uint64_t kMinTimeout = 700'000;    // ns; processors are busy elsewhere that long

constexpr std::uint64_t kMaxTimeout = 250'000'000;
constexpr std::uint32_t kProbes = 4;              // timeouts that only probe

constexpr std::uint32_t kMaxTimeouts = 16;        // in a row, then the connection is lost

}  // namespace

template <class World>
void LossRecovery<World>::take_ack(ViIndex i, std::uint32_t ack, std::uint16_t window) {
  Vi& vi = vis_[i];
  const std::uint32_t newly = ack - vi.send_una;
  if (newly > vi.send_next - vi.send_una) {
    // Old news, or nonsense.
    if (vi.send_una - ack > kWindow) ++root_->counters.drop_bad_ack;
    return;
  }
  vi.peer_window = window;
  if (newly == 0) return;
  if (vi.sample_time != 0 && ack - 1 - vi.sample_psn < kWindow) {
    congestion::measure_rtt(vi, now_ - vi.sample_time, vi.resent.has(vi.sample_psn));
    vi.sample_time = 0;
  }
  // Unless the window was made use of, it says nothing that it was not too large.
  if (vi.send_next - vi.send_una >= vi.congestion_window / 2) congestion::widen_window(vi, newly);
  if (!vi.sacked.empty() || !vi.lost.empty() || !vi.resent.empty()) {
    for (std::uint32_t psn = vi.send_una; psn != ack; ++psn) {
      if (vi.resent.has(psn)) note_resend_delivered(i, psn);
      vi.sacked.remove(psn);
      vi.lost.remove(psn);
      vi.resent.remove(psn);
    }
  }
  vi.send_una = ack;
  vi.progress_time = now_;
  if (vi.timeouts != 0) [[unlikely]] {
    vi.timeouts = 0;
    restart_timer(i);
  }
  send_queue_.complete_acknowledged(i);
  if (vi.stalled) send_queue_.make_ready(i);
}

template <class World>
void LossRecovery<World>::take_sack(ViIndex i, std::uint32_t ack,
                                    std::span<const std::byte> bitmap) {
  Vi& vi = vis_[i];
  if (ack != vi.send_una) return;
  const std::uint32_t outstanding = vi.send_next - vi.send_una;
  std::uint32_t highest = 0;  // frames beyond ack, 0: none
  for (std::uint32_t byte = 0; byte < bitmap.size(); ++byte) {
    auto bits = std::to_integer<unsigned>(bitmap[byte]);
    for (; bits != 0; bits &= bits - 1) {
      const std::uint32_t ahead = byte * 8 + static_cast<unsigned>(__builtin_ctz(bits)) + 1;
      if (ahead >= outstanding) return;  // nothing we have sent
      highest = ahead;
      const std::uint32_t psn = ack + ahead;
      if (vi.sacked.has(psn)) continue;
      if (vi.resent.has(psn)) note_resend_delivered(i, psn);
      vi.sacked.add(psn);
      vi.lost.remove(psn);
      if (psn == vi.sample_psn && vi.sample_time != 0) {
        congestion::measure_rtt(vi, now_ - vi.sample_time, vi.resent.has(vi.sample_psn));
        vi.sample_time = 0;
      }
    }
  }
  if (highest == 0) return;
  // What has arrived behind the gap makes room, too.
  if (vi.stalled) send_queue_.make_ready(i);
  // What network and peer may still put in order. Nothing more will come behind the last frame.
  const bool last =
      highest + 1 == outstanding && vi.current_slot == kNone && !send_queue_.more_to_send(i);
  const std::uint32_t reorder = last ? std::min(kReorder, highest) : kReorder;
  std::uint32_t lost = 0;
  for (std::uint32_t ahead = 0; ahead < highest; ++ahead) {
    const std::uint32_t psn = ack + ahead;
    if (vi.sacked.has(psn) || vi.lost.has(psn)) continue;
    // What the network has delivered since this frame was last sent.
    std::uint32_t sent_at = psn + 1;
    bool overtaken = false;
    if (vi.resent.has(psn)) {
      const std::uint32_t mark = resent_mark(i, psn);
      sent_at = vi.send_next - static_cast<std::uint16_t>(vi.send_next - (mark >> 16));
      overtaken = static_cast<std::int16_t>(vi.resends_delivered - mark) >=
                  static_cast<std::int16_t>(kReorder);
    }
    if (!overtaken && static_cast<std::int32_t>(ack + highest - (sent_at + reorder - 1)) < 0) {
      continue;
    }
    vi.lost.add(psn);
    ++lost;
  }
  if (lost == 0) return;
  congestion::narrow_window(vi, lost);
  send_queue_.make_ready(i);
}

// A frame that was sent again has arrived, or so it seems: it may have been the first copy.
template <class World>
void LossRecovery<World>::note_resend_delivered(ViIndex i, std::uint32_t psn) {
  Vi& vi = vis_[i];
  const auto number = static_cast<std::uint16_t>(resent_mark(i, psn));
  if (static_cast<std::int16_t>(number - vi.resends_delivered) > 0) vi.resends_delivered = number;
}

// Before a round trip was measured, twice as careful.
template <class World>
std::uint64_t LossRecovery<World>::retransmission_time(const Vi& vi) const {
  if (vi.smoothed_rtt == 0) {
    return std::min(kMinTimeout << std::min(2 * vi.timeouts, 10u), kMaxTimeout);
  }
  const std::uint64_t base =
      std::max(std::max<std::uint64_t>(2ull * vi.smoothed_rtt,
                                       vi.smoothed_rtt + 3ull * vi.rtt_variation) +
                   2 * kAckDelay,
               kMinTimeout);
  return std::min(base << std::min(vi.timeouts, 10u), kMaxTimeout);
}

// When the peer should have answered. The first time this counts from the newest frame: those in
// front of it may have been answered late.
template <class World>
std::uint64_t LossRecovery<World>::timer_due(const Vi& vi) const {
  const std::uint64_t wait = retransmission_time(vi);
  if (vi.timeouts != 0) return vi.progress_time + wait;
  return std::max(vi.sent_time + wait, vi.progress_time + wait / 2);
}

template <class World>
void LossRecovery<World>::restart_timer(ViIndex i) {
  wheel_.arm(vi_timer(i), timer_due(vis_[i]));
}

// The timer is not moved with every frame and acknowledgement: when it fires, it looks whether it
// should have been later.
template <class World>
void LossRecovery<World>::retransmission_timeout(ViIndex i) {
  Vi& vi = vis_[i];
  if (vi.reliability == vip::kUnreliable) return send_credit_.credit_timeout(i);
  if (vi.send_una == vi.send_next) return;
  const std::uint64_t due = timer_due(vi);
  if (now_ < due) {
    wheel_.arm(vi_timer(i), due);
    return;
  }
  ++root_->counters.retransmission_timeouts;
  if (++vi.timeouts > kMaxTimeouts) {
    if (!peer_table_.may_be_stopped(peers_[vi.peer])) {
      verdict_.end(i, End::kLost, vip::kConnectionLost);
      return;
    }
    vi.timeouts = kMaxTimeouts;
  }
  // Which of the copies is acknowledged then? But better a doubtful round trip than none.
  if (vi.smoothed_rtt != 0) vi.sample_time = 0;
  // First probes: the oldest and the newest frame, whose acknowledgement tells what is missing. A
  // peer that was merely late (its processor was busy) is not flooded. If that does not help, all.
  vi.lost.add(vi.send_una);
  if (vi.timeouts <= kProbes) {
    if (!vi.sacked.has(vi.send_next - 1)) vi.lost.add(vi.send_next - 1);
  } else {
    for (std::uint32_t psn = vi.send_una; psn != vi.send_next; ++psn) {
      if (!vi.sacked.has(psn)) vi.lost.add(psn);
    }
    congestion::halve_window(vi);
  }
  vi.progress_time = now_;
  restart_timer(i);
  send_queue_.make_ready(i);
}

}  // namespace viaduct
