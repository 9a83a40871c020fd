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
// kReorder or more frames later has arrived, or the last one that was sent) and by the timer. The
// timer runs out first a short while after the newest frame was sent, and then asks with one or two
// frames; what the answer says was lost is sent again.
#include <algorithm>

#include "kagent/stack/stack.h"

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
constexpr std::uint64_t kMinTimeout = 700'000;    // ns; processors are busy elsewhere that long
constexpr std::uint64_t kMaxTimeout = 250'000'000;
constexpr std::uint32_t kProbes = 4;              // timeouts that only probe
constexpr std::uint32_t kMaxTimeouts = 16;        // in a row, then the connection is lost

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
  header.payload_length = vi.reliability == vip::kUnreliable ? 0 : wire::kSackBits / 8;
  std::byte* bitmap = frame.data + wire::kEthernetBytes + wire::kHeaderBytes;
  for (unsigned byte = 0; byte < header.payload_length; ++byte) {
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
  if (vi->state != vip::kConnected) return;
  ++root_->counters.acks_received;
  if (vi->reliability == vip::kUnreliable) {
    if (vi->credit != 0) take_credit(header.vi, header.ack, header.window);
    return;
  }
  take_ack(header.vi, header.ack, header.window);
  if (vis_[header.vi].state != vip::kConnected) return;
  if (frame.payload.size() == wire::kSackBits / 8) take_sack(header.vi, header.ack, frame.payload);
}

void Stack::take_ack(ViIndex i, std::uint32_t ack, std::uint16_t window) {
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
    measure_rtt(vi, now_ - vi.sample_time, vi.resent.has(vi.sample_psn));
    vi.sample_time = 0;
  }
  // Unless the window was made use of, it says nothing that it was not too large.
  if (vi.send_next - vi.send_una >= vi.congestion_window / 2) widen_window(vi, newly);
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
      const std::uint32_t psn = ack + ahead;
      if (vi.sacked.has(psn)) continue;
      if (vi.resent.has(psn)) note_resend_delivered(i, psn);
      vi.sacked.add(psn);
      vi.lost.remove(psn);
      if (psn == vi.sample_psn && vi.sample_time != 0) {
        measure_rtt(vi, now_ - vi.sample_time, vi.resent.has(vi.sample_psn));
        vi.sample_time = 0;
      }
    }
  }
  if (highest == 0) return;
  // What has arrived behind the gap makes room, too.
  if (vi.stalled) make_ready(i);
  // What network and peer may still put in order. Nothing more will come behind the last frame.
  const bool last = highest + 1 == outstanding && vi.current_slot == kNone && !more_to_send(i);
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
  narrow_window(vi, lost);
  make_ready(i);
}

// A frame that was sent again has arrived, or so it seems: it may have been the first copy.
void Stack::note_resend_delivered(ViIndex i, std::uint32_t psn) {
  Vi& vi = vis_[i];
  const auto number = static_cast<std::uint16_t>(resent_mark(i, psn));
  if (static_cast<std::int16_t>(number - vi.resends_delivered) > 0) vi.resends_delivered = number;
}

// ---------------------------------------------------------------------------- the timer

// Before a round trip was measured, twice as careful.
std::uint64_t Stack::retransmission_time(const Vi& vi) const {
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
std::uint64_t Stack::timer_due(const Vi& vi) const {
  const std::uint64_t wait = retransmission_time(vi);
  if (vi.timeouts != 0) return vi.progress_time + wait;
  return std::max(vi.sent_time + wait, vi.progress_time + wait / 2);
}

void Stack::restart_timer(ViIndex i) { wheel_.arm(vi_timer(i), timer_due(vis_[i])); }

// The timer is not moved with every frame and acknowledgement: when it fires, it looks whether it
// should have been later.
void Stack::retransmission_timeout(ViIndex i) {
  Vi& vi = vis_[i];
  if (vi.reliability == vip::kUnreliable) return credit_timeout(i);
  if (vi.send_una == vi.send_next) return;
  const std::uint64_t due = timer_due(vi);
  if (now_ < due) {
    wheel_.arm(vi_timer(i), due);
    return;
  }
  ++root_->counters.retransmission_timeouts;
  if (++vi.timeouts > kMaxTimeouts) {
    if (!may_be_stopped(peers_[vi.peer])) {
      end_connection(i, End::kLost, vip::kConnectionLost);
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
    halve_window(vi);
  }
  vi.progress_time = now_;
  restart_timer(i);
  make_ready(i);
}

}  // namespace viaduct
