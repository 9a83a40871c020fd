// Acknowledgement and retransmission.
//
// Acknowledgements are cumulative and ride on data that goes back. A frame of their own is sent
// - at once, when there is a gap to report or the peer asks (kFlagAckNow) and no data is likely to
//   go back soon; in a stream of such requests one answers those of kHaste together,
// - after kAckEvery frames, or
// - after kAckDelay.
// Whether data is likely to go back is learnt from what happened after earlier requests.
//
// Lost frames are found by the selective bitmap (a frame is lost when one that was sent
// kReorder or more frames later has arrived) and by the retransmission timer.
#include <algorithm>

#include "kagent/stack.h"

namespace viaduct {

using state::kNone;
using state::kWindow;
using state::Vi;

namespace {

constexpr std::uint32_t kAckEvery = 32;       // frames, with room enough to wait so long
constexpr std::uint64_t kAckDelay = 50'000;       // ns
constexpr std::uint8_t kSureOfReply = 2;
constexpr std::uint64_t kStream = 10'000;         // ns between acknowledgements asked for ...
constexpr std::uint64_t kHaste = 4'000;           // ... and then, how long one waits for company
constexpr std::uint32_t kReorder = 3;             // frames
constexpr std::uint64_t kMinTimeout = 1'000'000;  // ns
constexpr std::uint64_t kMaxTimeout = 250'000'000;
constexpr std::uint64_t kFirstTimeout = 5'000'000;  // before a round trip was measured
constexpr std::uint32_t kProbes = 3;              // timeouts that only probe
constexpr std::uint32_t kMaxTimeouts = 16;        // in a row, then the connection is lost
constexpr std::uint32_t kMinCongestionWindow = 8;

}  // namespace

std::uint16_t Stack::receive_window() const {
  const std::uint32_t room = held_limit_ > root_->held ? held_limit_ - root_->held : 0;
  return static_cast<std::uint16_t>(std::min(room, kWindow));
}

// ---------------------------------------------------------------------------- sending them

// A frame was taken; `now`: the peer waits, or there is a gap.
void Stack::note_ack_due(ViIndex i, bool now) {
  Vi& vi = vis_[i];
  ++vi.unacknowledged;
  if (now) {
    if (vi.ack_time != 0) {
      if (!vi.replied) {
        vi.reply_score = 0;
      } else if (vi.reply_score < kSureOfReply) {
        ++vi.reply_score;
      }
    }
    vi.ack_now = 1;
    vi.ack_time = now_;
    vi.replied = 0;
  }
  if ((vi.listed & state::kOnAckList) == 0) {
    vi.listed |= state::kOnAckList;
    vi.ack_deadline = now_ + kAckDelay;
    vi.ack_next = root_->ack_head;
    root_->ack_head = i;
  }
  if (now && vi.reply_score < kSureOfReply) {
    const std::uint64_t wait = now_ - vi.acked_at < kStream ? kHaste : 0;
    vi.ack_deadline = std::min(vi.ack_deadline, now_ + wait);
  }
}

unsigned Stack::send_due_acks() {
  unsigned sent = 0;
  std::uint32_t* link = &root_->ack_head;
  while (*link != kNone) {
    const ViIndex i = *link;
    Vi& vi = vis_[i];
    const bool pending = vi.session != kNone && vi.state == vip::kConnected &&
                         (vi.unacknowledged != 0 || vi.ack_gap);
    const bool late = now_ >= vi.ack_deadline;
    const bool many = vi.unacknowledged >= kAckEvery / 2 &&
                      (vi.unacknowledged >= kAckEvery || receive_window() != kWindow);
    if (pending && !vi.ack_gap && !many && !late) {
      link = &vi.ack_next;
      continue;
    }
    *link = vi.ack_next;
    vi.listed &= static_cast<std::uint8_t>(~state::kOnAckList);
    if (!pending) continue;
    if (late && vi.ack_now && vi.reply_score == kSureOfReply) vi.reply_score = 0;
    send_ack(i);
    ++sent;
  }
  return sent;
}

void Stack::send_ack(ViIndex i) {
  Vi& vi = vis_[i];
  Frame frame;
  // Without a buffer now, the next frame or the peer's timer asks again.
  if (!reserve_frame(frame)) return;
  const std::uint8_t replied = vi.replied;
  wire::Header header{};
  header.type = wire::Type::kAck;
  fill_header(vi, header);
  vi.replied = replied;
  vi.ack_now = 0;
  vi.ack_gap = 0;
  vi.acked_at = now_;
  header.psn = vi.send_next;
  header.payload_length = wire::kSackBits / 8;
  std::byte* bitmap = frame.data + wire::kEthernetBytes + wire::kHeaderBytes;
  for (unsigned byte = 0; byte < wire::kSackBits / 8; ++byte) {
    unsigned bits = 0;
    if (vi.held_count != 0) {
      for (unsigned bit = 0; bit < 8; ++bit) {
        const std::uint32_t ahead = byte * 8 + bit + 1;
        if (ahead < kWindow && vi.received.has(vi.receive_next + ahead)) bits |= 1u << bit;
      }
    }
    bitmap[byte] = static_cast<std::byte>(bits);
  }
  ++root_->counters.acks_sent;
  submit_frame(frame,
               wire::encode(header, vi.peer_address, address_, ether_type_, frame.data));
}

// ---------------------------------------------------------------------------- receiving them

void Stack::on_ack(const wire::Decoded& frame) {
  const wire::Header& header = frame.header;
  const Vi* vi = vi_for(frame, true);
  if (vi == nullptr) {
    send_reset(frame);
    return;
  }
  if (vi->reliability == vip::kUnreliable || vi->state != vip::kConnected) return;
  ++root_->counters.acks_received;
  take_ack(header.vi, header.ack, header.window);
  if (vis_[header.vi].state != vip::kConnected) return;
  if (frame.payload.size() == wire::kSackBits / 8) take_sack(header.vi, header.ack, frame.payload);
}

void Stack::take_ack(ViIndex i, std::uint32_t ack, std::uint32_t window) {
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
    measure_rtt(vi, now_ - vi.sample_time);
    vi.sample_time = 0;
  }
  if (!vi.sacked.empty() || !vi.lost.empty() || !vi.resent.empty()) {
    for (std::uint32_t psn = vi.send_una; psn != ack; ++psn) {
      vi.sacked.remove(psn);
      vi.lost.remove(psn);
      vi.resent.remove(psn);
    }
  }
  vi.send_una = ack;
  vi.timeouts = 0;
  vi.progress_time = now_;
  vi.window_credit += newly;
  if (vi.window_credit >= vi.congestion_window / 4) {
    vi.window_credit = 0;
    if (vi.congestion_window < kWindow) ++vi.congestion_window;
  }
  complete_acknowledged(i);
  if (vi.stalled) make_ready(i);
}

void Stack::take_sack(ViIndex i, std::uint32_t ack, std::span<const std::byte> bitmap) {
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
      vi.sacked.add(ack + ahead);
      vi.lost.remove(ack + ahead);
    }
  }
  if (highest == 0) return;
  bool loss = false;
  for (std::uint32_t ahead = 0; ahead < highest; ++ahead) {
    const std::uint32_t psn = ack + ahead;
    if (vi.sacked.has(psn) || vi.lost.has(psn)) continue;
    // What the network has delivered since this frame was last sent.
    const std::uint32_t sent_at = vi.resent.has(psn) ? resent_mark(i, psn) : psn + 1;
    if (static_cast<std::int32_t>(ack + highest - (sent_at + kReorder - 1)) < 0) continue;
    vi.lost.add(psn);
    loss = true;
  }
  if (!loss) return;
  if (static_cast<std::int32_t>(ack - vi.recovery_psn) >= 0) {
    vi.recovery_psn = vi.send_next;
    vi.congestion_window = std::max(vi.congestion_window * 7 / 8, kMinCongestionWindow);
  }
  make_ready(i);
}

// ---------------------------------------------------------------------------- the timer

void Stack::measure_rtt(Vi& vi, std::uint64_t sample) {
  if (vi.smoothed_rtt == 0) {
    vi.smoothed_rtt = sample;
    vi.rtt_variation = sample / 2;
    return;
  }
  const std::uint64_t off =
      sample > vi.smoothed_rtt ? sample - vi.smoothed_rtt : vi.smoothed_rtt - sample;
  vi.rtt_variation = (3 * vi.rtt_variation + off) / 4;
  vi.smoothed_rtt = (7 * vi.smoothed_rtt + sample) / 8;
}

std::uint64_t Stack::retransmission_time(const Vi& vi) const {
  const std::uint64_t base =
      vi.smoothed_rtt == 0
          ? kFirstTimeout
          : std::max(vi.smoothed_rtt + 4 * vi.rtt_variation + kAckDelay, kMinTimeout);
  return std::min(base << std::min(vi.timeouts, 10u), kMaxTimeout);
}

void Stack::restart_timer(ViIndex i) {
  Vi& vi = vis_[i];
  vi.progress_time = now_;
  wheel_.arm(vi_timer(i), now_ + retransmission_time(vi));
}

// The timer is not moved with every acknowledgement: when it fires, it looks whether it should have
// been later.
void Stack::retransmission_timeout(ViIndex i) {
  Vi& vi = vis_[i];
  if (vi.send_una == vi.send_next) return;
  const std::uint64_t due = vi.progress_time + retransmission_time(vi);
  if (now_ < due) {
    wheel_.arm(vi_timer(i), due);
    return;
  }
  ++root_->counters.retransmission_timeouts;
  if (++vi.timeouts > kMaxTimeouts) {
    end_connection(i, End::kLost, vip::kConnectionLost);
    return;
  }
  vi.sample_time = 0;
  // First probes: the oldest and the newest frame, whose acknowledgement tells what is missing. A
  // peer that was merely late (its processor was busy) is not flooded. If that does not help, all.
  vi.lost.add(vi.send_una);
  if (vi.timeouts <= kProbes) {
    if (!vi.sacked.has(vi.send_next - 1)) vi.lost.add(vi.send_next - 1);
  } else {
    for (std::uint32_t psn = vi.send_una; psn != vi.send_next; ++psn) {
      if (!vi.sacked.has(psn)) vi.lost.add(psn);
    }
    vi.congestion_window = std::max(vi.congestion_window / 2, kMinCongestionWindow);
  }
  restart_timer(i);
  make_ready(i);
}

}  // namespace viaduct
