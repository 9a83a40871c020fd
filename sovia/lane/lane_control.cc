#include "sovia/lane/lane_control.h"

#include <endian.h>

#include <cstring>
#include <utility>

#include "sovia/process/counters.h"

namespace viaduct::sovia {

void LaneControl::start(std::uint64_t kernel_bytes) {
  const Start start{htobe64(kernel_bytes)};
  const std::uint64_t at = ring_.control_posted();
  if (sending_ == State::kIdle && sender_.post(PacketType::kStart, &start, sizeof start)) {
    sending_ = State::kUp;
    start_at_ = at;
  }
}

LaneControl::Finish LaneControl::finish(bool closes) {
  const bool late = closes && !finish_closes_ && sending_ >= State::kEnding && !wants_finish_;
  if (closes) finish_closes_ = true;
  if (late) return Finish::kTooLate;
  if (sending_ == State::kEnding || sending_ == State::kEnded) return Finish::kAlready;
  sending_ = State::kEnding;
  wants_finish_ = true;
  return Finish::kBegun;
}

bool LaneControl::leave(std::optional<std::uint32_t> again_ms) {
  if (leaves_ || over()) return false;
  if (!slower_for_ms_) slower_for_ms_ = again_ms;
  leaves_ = wants_leave_ = true;
  return true;
}

void LaneControl::settled() {
  if (std::exchange(settled_, true)) return;
  post_pending();
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
  if (!slower_for_ms_) return sender_.post(PacketType::kLeave);
  const Leave leave{htobe32(*slower_for_ms_)};
  return sender_.post(PacketType::kLeave, &leave, sizeof leave);
}

void LaneControl::post_pending() {
  greeting_.post_pending();
  if (wants_more_ && sender_.post(PacketType::kMore)) wants_more_ = false;
  if (wants_leave_ && post_leave()) wants_leave_ = false;
  if (wants_fin_ack_ && may_answer_fin() && sender_.post(PacketType::kFinAck)) {
    wants_fin_ack_ = false;
    fin_ack_at_ = ring_.control_posted() - 1;
  }
  if (wants_finish_ && sender_.has_begun() && !ring_.has_unposted() &&
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

bool LaneControl::acceptable(std::uint32_t bytes, std::uint32_t immediate, bool has_place) const {
  const PacketType type = type_of(immediate);
  std::uint32_t flags = 0;
  if (type == PacketType::kFin) flags = kFlagCloses;
  if (type == PacketType::kData) flags = kFlagMore | kFlagLast;
  if (type == PacketType::kSink) flags = kFlagRevokes;
  if ((immediate & 0xfff0 & ~flags) != 0) return false;
  const std::uint32_t most = type == PacketType::kGrow ? kMostWindow : credits_.unreturned();
  if (credits_of(immediate) > most) return false;
  if (peer_parked_) return false;
  if (type == PacketType::kPark) return bytes == 0 && (is_unused() || has_ended());
  if (greeting_.has_hello() == (type == PacketType::kWakeup)) return false;
  switch (type) {
    case PacketType::kWakeup:
      return bytes == sizeof(Hello);
    case PacketType::kStart:
      return bytes == sizeof(Start) && receiving_ == State::kIdle && greeting_.trusted();
    case PacketType::kData:
      return bytes != 0 && bytes <= kChunkBytes && receiving_ == State::kUp && has_place;
    case PacketType::kAck:
      return bytes == 0;
    case PacketType::kGrow:
      return bytes == 0 && credits_of(immediate) + credits_.peer_window() <= kMostWindow;
    case PacketType::kFin:
      return bytes == 0 && receiving_ != State::kEnded;
    case PacketType::kFinAck:
      return bytes == 0 && sending_ == State::kEnding && !wants_finish_;
    case PacketType::kLeave:
      return (bytes == 0 || bytes == sizeof(Leave)) && !peer_leaves_;
    case PacketType::kTrust:
      return bytes == 0 && !greeting_.peer_trusts();
    case PacketType::kMore:
      return bytes == 0 && receiving_ == State::kUp;
    case PacketType::kSink:
      return bytes == sizeof(Sink) && options_.messages && greeting_.trusted();
    case PacketType::kPlaced:
    case PacketType::kRevoked:
      return bytes == sizeof(Placed) && options_.messages && greeting_.trusted();
    case PacketType::kPark:
      break;
  }
  return false;
}

unsigned LaneControl::take_start(std::uint32_t place) {
  Start start;
  std::memcpy(&start, transport_.received(place), sizeof start);
  peer_kernel_bytes_ = be64toh(start.kernel_bytes);
  receiving_ = State::kUp;
  started_ = true;
  return LaneChange::kState;
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
    case PacketType::kStart:
      return take_start(place);
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
    case PacketType::kMore:
      peer_has_more_ = true;
      return 0;
    case PacketType::kPark:
      peer_parked_ = true;
      return LaneChange::kState;
    case PacketType::kLeave:
      take_leave(place, bytes);
      return LaneChange::kState | LaneChange::kWritable;
    default:
      return 0;
  }
}

}  // namespace viaduct::sovia
