#include "sovia/lane/lane_control.h"

#include <endian.h>

#include <cstring>
#include <utility>

#include "sovia/process/counters.h"

namespace viaduct::sovia {

bool LaneControl::post(PacketType type, const void* body, std::uint32_t bytes, std::uint32_t flags) {
  if (broken_ || (!has_greeted_ && type != PacketType::kPark)) return false;
  if (control_posted_ - control_done_ == places_.control) reap();
  if (control_posted_ - control_done_ == places_.control) return false;
  const auto place = static_cast<std::uint32_t>(control_posted_ % places_.control);
  if (bytes != 0) std::memcpy(wire_.control_bytes(place), body, bytes);
  if (!wire_.post_control(place, bytes, immediate(type, take_credits(type), flags))) {
    fail();
    return false;
  }
  ++control_posted_;
  order_.push_back(Posted::kControl);
  return true;
}

// Tell the owner now: if the peer lives the connection stays up, and no further event may report this.
void LaneControl::fail() {
  broken_ = true;
  wire_.failed();
}

void LaneControl::greet(const std::uint8_t (&token)[kTokenBytes], const HelloFlow& flow) {
  Hello hello{htobe32(kProtocolVersion), htobe32(options_.window), {}, flow};
  hello.flow.messages = options_.messages && wire_.writes() ? 1 : 0;
  std::memcpy(hello.token, token, kTokenBytes);
  std::memcpy(own_token_, token, kTokenBytes);
  has_greeted_ = true;
  post(PacketType::kWakeup, &hello, sizeof hello);
  post_pending_control();
}

void LaneControl::trust() {
  if (broken_) return;
  trusted_ = wants_trust_ = true;
  post_pending_control();
}

void LaneControl::start(std::uint64_t kernel_bytes) {
  const Start start{htobe64(kernel_bytes)};
  const std::uint64_t at = control_posted_;
  if (sending_ == State::kIdle && post(PacketType::kStart, &start, sizeof start)) {
    sending_ = State::kUp;
    start_at_ = at;
  }
}

void LaneControl::settled() {
  if (std::exchange(settled_, true)) return;
  post_pending_control();
}

void LaneControl::post_pending_control() {
  if (wants_trust_ && has_greeted_ && post(PacketType::kTrust, nullptr, 0)) wants_trust_ = false;
  if (wants_more_ && post(PacketType::kMore, nullptr, 0)) wants_more_ = false;
  if (wants_leave_ && post(PacketType::kLeave, nullptr, 0)) wants_leave_ = false;
  if (wants_fin_ack_ && may_answer_fin() && post(PacketType::kFinAck, nullptr, 0)) {
    wants_fin_ack_ = false;
    fin_ack_at_ = control_posted_ - 1;
  }
  if (wants_finish_ && has_greeted_ && posted_ == filled_ &&
      post(PacketType::kFin, nullptr, 0, finish_closes_ ? kFlagCloses : 0)) {
    wants_finish_ = false;
    fin_at_ = control_posted_ - 1;
    counters::add(Counter::kFinsSent);
  }
  if (owed_ >= options_.ack_threshold && post(PacketType::kAck, nullptr, 0)) {
    ++stalls_.acks;
    counters::add(Counter::kAcksSent);
  }
}

}  // namespace viaduct::sovia
