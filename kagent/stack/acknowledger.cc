#include "kagent/stack/acknowledger.h"

#include <algorithm>
#include <utility>

#include "kagent/stack/backoff.h"

namespace viaduct {

using state::Vi;
using state::kNone;
using state::kWindow;

namespace {

constexpr std::uint32_t kAckEvery = 64;       // frames; half as many when few more can be held

// How long an acknowledgement waits that the peer has not asked for: more frames follow, of a long message or of
// those posted behind it.
constexpr std::uint64_t kUnasked = 4 * kAckDelay;

// The same behind a whole message: the peer's program may wait for no completion.
constexpr std::uint64_t kUnaskedEnd = 2 * kMs;

constexpr std::uint8_t kSureOfReply = 2;
constexpr std::uint32_t kMostReplyWait = 500'000;  // ns; no peer sends again before 700'000 (loss_recovery.cc)
constexpr std::uint32_t kReplyStep = 8;            // an eighth more, or less
// Requests that come sooner after an acknowledgement than this (ns) are a stream ...
constexpr std::uint64_t kStream = 10'000;

// ... in which one acknowledgement waits so long (ns) to answer several.
constexpr std::uint64_t kHaste = 4'000;

}  // namespace

template <class Platform>
std::uint16_t Acknowledger<Platform>::receive_window() const {
  const std::uint32_t room = held_limit_ > root_->held ? held_limit_ - root_->held : 0;
  return static_cast<std::uint16_t>(std::min(room, kWindow));
}

// Notes that frames were taken; `now`: the peer waits for the acknowledgement, or there is a gap.
template <class Platform>
void Acknowledger<Platform>::note_ack_due(ViIndex i, bool now, std::uint32_t frames) {
  Vi& vi = vis_[i];
  const bool is_first = vi.ack.unacknowledged == 0;  // since data went back, behind which the VI may still be listed
  vi.ack.unacknowledged += frames;
  std::uint64_t wait = vi.rx.in_message != 0 ? kUnasked : kUnaskedEnd;
  if (now) {
    if (vi.ack.ack_time != 0) {
      if (!vi.ack.replied) {
        vi.ack.reply_score = 0;
      } else if (vi.ack.reply_score < kSureOfReply) {
        ++vi.ack.reply_score;
      }
    }
    wait = vi.ack.reply_wait;
    if (vi.ack.reply_score < kSureOfReply) wait = now_ - vi.ack.acked_at < kStream ? kHaste : 0;
    vi.ack.ack_now = 1;
    vi.ack.ack_time = now_;
    vi.ack.replied = 0;
  }
  const std::uint64_t due = now_ + wait;
  if ((vi.tx.listed & state::kOnAckList) == 0) {
    vi.tx.listed |= state::kOnAckList;
    vi.ack.ack_deadline = due;
    vi.ack.ack_next = root_->ack_head;
    root_->ack_head = i;
  } else if (is_first || due < vi.ack.ack_deadline) {
    vi.ack.ack_deadline = due;
  }
  const bool at_once = vi.ack.ack_gap != 0 || vi.ack.unacknowledged >= kAckEvery / 2;
  root_->ack_due = std::min(root_->ack_due, at_once ? now_ : vi.ack.ack_deadline);
}

// Data that the acknowledgement was to ride on is late: waits longer next time, or no more.
inline void note_late_reply(Vi& vi) {
  if (vi.ack.reply_wait >= kMostReplyWait) {
    vi.ack.reply_score = 0;
  } else {
    vi.ack.reply_wait = std::min(vi.ack.reply_wait + vi.ack.reply_wait / kReplyStep, kMostReplyWait);
  }
}

// Whether a VI of the list has anything to acknowledge: most have done so on data.
template <class Platform>
bool Acknowledger<Platform>::is_pending(const Vi& vi) const {
  return vi.session != kNone && vi.state == vip::kConnected && (vi.ack.unacknowledged != 0 || vi.ack.ack_gap);
}

template <class Platform>
std::uint64_t Acknowledger<Platform>::next_due() const {
  std::uint64_t earliest = TimerWheel::kNever;
  for (ViIndex i = root_->ack_head; i != kNone; i = vis_[i].ack.ack_next) {
    if (is_pending(vis_[i])) earliest = std::min(earliest, vis_[i].ack.ack_deadline);
  }
  return earliest;
}

// A round looks at the list only when one of its VIs may be due, as a crowd's list is long.
template <class Platform>
unsigned Acknowledger<Platform>::send_due_acks() {
  if (now_ < root_->ack_due) return 0;
  unsigned sent = 0;
  std::uint64_t earliest = TimerWheel::kNever;
  std::uint32_t* link = &root_->ack_head;
  while (*link != kNone) {
    const ViIndex i = *link;
    Vi& vi = vis_[i];
    const bool pending = is_pending(vi);
    const bool late = now_ >= vi.ack.ack_deadline;
    const bool many = vi.ack.unacknowledged >= kAckEvery / 2 &&
                      (vi.ack.unacknowledged >= kAckEvery || receive_window() != kWindow);
    if (pending && !vi.ack.ack_gap && !many && !late) {
      earliest = std::min(earliest, vi.ack.ack_deadline);
      link = &vi.ack.ack_next;
      continue;
    }
    *link = vi.ack.ack_next;
    vi.tx.listed &= static_cast<std::uint8_t>(~state::kOnAckList);
    if (!pending) continue;
    if (late && vi.ack.ack_now && vi.ack.reply_score == kSureOfReply) note_late_reply(vi);
    send_ack(i);
    ++sent;
  }
  root_->ack_due = earliest;
  return sent;
}

template <class Platform>
void Acknowledger<Platform>::send_ack(ViIndex i) {
  Vi& vi = vis_[i];
  Frame frame;
  // Without a buffer no acknowledgement goes out now: the peer's next frame, or its timer, asks for it again.
  if (!frames_out_.reserve_frame(vi, wire::kSackBits / 8, frame)) return;
  wire::Header header{};
  header.type = wire::Type::kAck;
  fill(vi, header);
  vi.ack.ack_now = 0;
  vi.ack.ack_gap = 0;
  vi.ack.acked_at = now_;
  header.psn = vi.tx.send_next;
  header.payload_length = vi.reliability == vip::kUnreliable ? 0 : wire::kSackBits / 8;
  std::byte* bitmap = frame.data + wire::kEthernetBytes + wire::kHeaderBytes;
  for (unsigned byte = 0; byte < header.payload_length; ++byte) {
    unsigned bits = 0;
    if (vi.rx.held_count != 0) {
      for (unsigned bit = 0; bit < 8; ++bit) {
        const std::uint32_t ahead = byte * 8 + bit + 1;
        if (ahead < kWindow && vi.rx.received.has(vi.rx.receive_next + ahead)) bits |= 1u << bit;
      }
    }
    bitmap[byte] = static_cast<std::byte>(bits);
  }
  ++root_->counters.acks_sent;
  frame.length = static_cast<std::uint32_t>(
      wire::encode(header, vi.link.peer_address, address_, ether_type_, frame.data));
  frames_out_.submit(vi, {&frame, 1});
}

// Data is about to go back. It brings the acknowledgement with it.
template <class Platform>
void Acknowledger<Platform>::fill_header(Vi& vi, wire::Header& header) {
  if (!std::exchange(vi.ack.replied, 1) && now_ - vi.ack.ack_time < vi.ack.reply_wait / 2) {
    vi.ack.reply_wait = std::max<std::uint32_t>(vi.ack.reply_wait - vi.ack.reply_wait / kReplyStep, kAckDelay);
  }
  fill(vi, header);
}

// Fills in the fields that every frame of a connection carries.
template <class Platform>
void Acknowledger<Platform>::fill(Vi& vi, wire::Header& header) {
  header.vi = vi.link.peer_vi;
  header.key = vi.link.peer_key;
  header.ack = vi.rx.receive_next;
  header.window =
      vi.reliability == vip::kUnreliable ? credit_grants_.credit_for(vi) : receive_window();
  vi.ack.unacknowledged = 0;
  if (!vi.ack.ack_gap) vi.ack.ack_now = 0;
}

}  // namespace viaduct
