#include "sovia/lane/lane_control.h"

#include <endian.h>

#include <cstring>
#include <utility>

#include "sovia/process/counters.h"

namespace viaduct::sovia {

bool LaneControl::finish(bool closes) {
  if (closes) finish_closes_ = true;
  if (sending_ == State::kEnding || sending_ == State::kEnded) {
    // A FIN that has been sent does not tell of the close.
    if (closes && !wants_finish_ && leave()) {
      leave_closes_ = true;
      post_pending();
    }
    return false;
  }
  sending_ = State::kEnding;
  wants_finish_ = true;
  return true;
}

bool LaneControl::leave(std::optional<std::uint32_t> again_ms) {
  if (leaves_ || over()) return false;
  if (!slower_for_ms_) slower_for_ms_ = again_ms;
  leaves_ = wants_leave_ = true;
  return true;
}

void LaneControl::give_spent_back() {
  if (!credits_.has_spent()) return;
  for (const std::uint32_t place : credits_.take_spent()) sender_.give_back(place);
  if (credits_.is_ack_due()) post_pending();
}

void LaneControl::grow_window() {
  if (!sender_.use_receives(receives_for(options_, credits_.next_window(), greeting_.peer_acks()))) return;
  credits_.grow();
  post_pending();
}

bool LaneControl::post_leave() {
  const std::uint32_t flags = leave_closes_ ? kFlagCloses : 0;
  if (!slower_for_ms_) return sender_.post(PacketType::kLeave, nullptr, 0, flags);
  const Leave leave{htobe32(*slower_for_ms_)};
  return sender_.post(PacketType::kLeave, &leave, sizeof leave, flags);
}

void LaneControl::post_pending() {
  greeting_.post_pending();
  if (wants_leave_ && post_leave()) {
    wants_leave_ = false;
    leave_at_ = ring_.control_posted() - 1;
  }
  if (wants_fin_ack_ && sender_.post(PacketType::kFinAck)) {
    wants_fin_ack_ = false;
    fin_ack_at_ = ring_.control_posted() - 1;
  }
  // FIN of a lane that one end leaves waits for the acknowledgement of the first packet: if the lane broke with both on their
  // way, no peer could tell new bytes from old ones. LEAVE asks for the acknowledgement, and so does any packet without data.
  const bool first_on_way = ring_.posted() > first_at_ && ring_.completed() <= first_at_;
  const bool waits_for_first = first_on_way && (leaves_ || peer_leaves_);
  if (wants_finish_ && waits_for_first && !leaves_ && !asks_for_first_) asks_for_first_ = sender_.post(PacketType::kAck);
  const bool waits = ring_.has_unposted() || waits_for_first;
  if (wants_finish_ && sender_.has_begun() && !waits &&
      sender_.post(PacketType::kFin, nullptr, 0, finish_closes_ ? kFlagCloses : 0)) {
    wants_finish_ = false;
    fin_at_ = ring_.control_posted() - 1;
    counters::add(Counter::kFinsSent);
  }
  if (credits_.has_grown()) sender_.post(PacketType::kGrow);
  if (credits_.is_ack_due() && sender_.post(PacketType::kAck)) {
    ++sender_.stalls().acks;
    counters::add(Counter::kAcksSent);
  }
}

bool LaneControl::accepts_data(std::uint32_t bytes, std::uint32_t flags) const {
  if (credits_.peer_has() == 0 || bytes > kChunkBytes) return false;
  switch (flags) {
    case 0: return bytes != 0 && receiving_ == State::kUp;
    case kFlagDown: return bytes == 0 && receiving_ == State::kUp;
    case kFlagFirst: return bytes > sizeof(First) && receiving_ == State::kIdle && greeting_.trusted();
    default: return false;
  }
}

bool LaneControl::acceptable(std::uint32_t bytes, std::uint32_t immediate) const {
  const PacketType type = type_of(immediate);
  std::uint32_t flags = 0;
  if (type == PacketType::kFin || type == PacketType::kLeave) flags = kFlagCloses;
  if (type == PacketType::kData) flags = kFlagDown | kFlagFirst;
  if (type == PacketType::kSink) flags = kFlagRevokes;
  if ((immediate & 0xfff0 & ~flags) != 0) return false;
  const std::uint32_t most = type == PacketType::kGrow ? kMostWindow : credits_.unreturned();
  if (credits_of(immediate) > most) return false;
  if (greeting_.has_hello() == (type == PacketType::kWakeup)) return false;
  switch (type) {
    case PacketType::kWakeup:
      return bytes == sizeof(Hello);
    case PacketType::kData:
      return accepts_data(bytes, flags_of(immediate));
    case PacketType::kAck:
      return bytes == 0;
    case PacketType::kGrow:
      return bytes == 0 && credits_of(immediate) + credits_.peer_window() <= kMostWindow;
    case PacketType::kFin:
      return bytes == 0 && receiving_ != State::kEnded;
    case PacketType::kFinAck:
      return bytes == 0 && sending_ == State::kEnding && !wants_finish_;
    case PacketType::kLeave:
      if (flags_of(immediate) != 0 && receiving_ != State::kEnded) return false;
      return (bytes == 0 || bytes == sizeof(Leave)) && !peer_leaves_;
    case PacketType::kTrust:
      return bytes == 0 && !greeting_.peer_trusts();
    case PacketType::kSink:
      return bytes == sizeof(Sink) && options_.messages && greeting_.trusted();
    case PacketType::kPlaced:
    case PacketType::kRevoked:
      return bytes == sizeof(Placed) && options_.messages && greeting_.trusted();
  }
  return false;
}

void LaneControl::take_leave(std::uint32_t place, std::uint32_t bytes) {
  peer_leaves_ = true;
  if (bytes == 0) return;
  Leave leave;
  std::memcpy(&leave, transport_.received(place), sizeof leave);
  slower_for_ms_ = be32toh(leave.again_ms);
}

unsigned LaneControl::take(PacketType type, std::uint32_t place, std::uint32_t bytes, std::uint32_t flags) {
  switch (type) {
    case PacketType::kFin:
      receiving_ = State::kEnded;
      peer_closed_ = (flags & kFlagCloses) != 0;
      wants_fin_ack_ = true;
      return LaneChange::kState | LaneChange::kReadable;
    case PacketType::kFinAck:
      sending_ = State::kEnded;
      return LaneChange::kState | LaneChange::kWritable;
    case PacketType::kTrust:
      greeting_.take_trust();
      return LaneChange::kState | LaneChange::kWritable;
    case PacketType::kLeave:
      peer_closed_ |= (flags & kFlagCloses) != 0;
      take_leave(place, bytes);
      return LaneChange::kState | LaneChange::kWritable;
    default:
      return 0;
  }
}

}  // namespace viaduct::sovia
