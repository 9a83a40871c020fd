#include "sovia/lane/lane.h"

#include <endian.h>

#include <cstring>

#include "sovia/process/counters.h"

namespace viaduct::sovia {

bool Lane::wants_fall_back() {
  if (!cut_) return false;
  reap();
  return falls_with_data() || may_get_record();
}

bool Lane::may_get_early_record() {
  if (cut_ || receiving_ != State::kEnded) return false;
  reap();
  return may_get_record();
}

bool Lane::falls_with_data() {
  if (!cut_) return false;
  reap();
  const bool ends = sending_ == State::kEnded || has_sent(fin_at_) || peer_closed();
  return (start_at_ != kNotPosted && !ends) || expects_record() || may_miss_start();
}

Lane::Fall Lane::falls() {
  reap();
  // The peer has seen the end of the stream, or closed and will see nothing.
  if (start_at_ == kNotPosted || sending_ == State::kEnded || has_sent(fin_at_) || peer_closed()) {
    done_ = posted_ = filled_;
    return Fall::kPlain;
  }
  if (has_sent(start_at_)) return Fall::kRecord;
  // A peer without START takes what comes for what it is; one with it drops what it has, unless it has seen
  // the end too.
  return fin_at_ == kNotPosted ? Fall::kPlain : Fall::kImpossible;
}

// Whether a peer that keeps to the protocol sends this now.
bool Lane::acceptable(std::uint32_t bytes, std::uint32_t immediate) const {
  const PacketType type = type_of(immediate);
  std::uint32_t flags = 0;
  if (type == PacketType::kFin) flags = kFlagCloses;
  if (type == PacketType::kData) flags = kFlagMore;
  if (type == PacketType::kSink) flags = kFlagRevokes;
  if ((immediate & 0xfff0 & ~flags) != 0) return false;
  if (credits_of(immediate) > peer_window_ - credits_) return false;
  if (peer_parked_) return false;
  if (type == PacketType::kPark) return bytes == 0 && (is_unused() || has_ended());
  if (greeted_ == (type == PacketType::kWakeup)) return false;
  switch (type) {
    case PacketType::kWakeup:
      return bytes == sizeof(Hello);
    case PacketType::kStart:
      return bytes == sizeof(Start) && receiving_ == State::kIdle && trusted_;
    case PacketType::kData:
      return bytes != 0 && bytes <= kChunkBytes && receiving_ == State::kUp &&
             has_place();
    case PacketType::kAck:
      return bytes == 0;
    case PacketType::kFin:
      return bytes == 0 && receiving_ != State::kEnded;
    case PacketType::kFinAck:
      return bytes == 0 && sending_ == State::kEnding && !wants_finish_;
    case PacketType::kLeave:
      return bytes == 0 && !peer_leaves_;
    case PacketType::kTrust:
      return bytes == 0 && !peer_trusts_;
    case PacketType::kMore:
      return bytes == 0 && receiving_ == State::kUp;
    case PacketType::kSink:
      return bytes == sizeof(Sink) && options_.messages && trusted_;
    case PacketType::kPlaced:
    case PacketType::kRevoked:
      return bytes == sizeof(Placed) && options_.messages && trusted_;
    case PacketType::kPark:
      break;
  }
  return false;
}

unsigned Lane::take_hello(std::uint32_t place) {
  Hello hello;
  std::memcpy(&hello, wire_.received(place), sizeof hello);
  const std::uint32_t window = be32toh(hello.window);
  if (be32toh(hello.version) != kProtocolVersion || window == 0 || window > kMostWindow) {
    return cut();
  }
  peer_window_ = credits_ = window;
  std::memcpy(peer_token_, hello.token, kTokenBytes);
  peer_carries_messages_ = hello.flow.messages != 0;
  greeted_ = true;
  return kState | kWritable;
}

unsigned Lane::take_start(std::uint32_t place) {
  Start start;
  std::memcpy(&start, wire_.received(place), sizeof start);
  peer_kernel_bytes_ = be64toh(start.kernel_bytes);
  receiving_ = State::kUp;
  started_ = true;
  return kState;
}

unsigned Lane::take_fin(std::uint32_t flags) {
  receiving_ = State::kEnded;
  peer_closed_ = (flags & kFlagCloses) != 0;
  wants_fin_ack_ = true;
  return kState | kReadable;
}

unsigned Lane::arrived(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) {
  if (cut_) return 0;
  const bool direct = close_direct();
  if (direct) direct_ = Direct::kNone;
  if (!acceptable(bytes, immediate)) return cut();
  unsigned changes = 0;
  if (const std::uint32_t credits = credits_of(immediate); credits != 0) {
    credits_ += credits;
    changes |= kWritable;
  }
  const PacketType type = type_of(immediate);
  switch (type) {
    case PacketType::kData:
      peer_has_more_ = (flags_of(immediate) & kFlagMore) != 0;
      changes |= take_data(place, bytes, direct);
      break;
    case PacketType::kWakeup:
      changes |= take_hello(place);
      break;
    case PacketType::kStart:
      changes |= take_start(place);
      break;
    case PacketType::kAck:
      counters::add(Counter::kAcksReceived);
      break;
    case PacketType::kFin:
      changes |= take_fin(flags_of(immediate));
      break;
    case PacketType::kFinAck:
      sending_ = State::kEnded;
      changes |= kState | kWritable;
      break;
    case PacketType::kTrust:
      peer_trusts_ = true;
      changes |= kState | kWritable;
      break;
    case PacketType::kMore:
      peer_has_more_ = true;
      break;
    case PacketType::kSink:
      changes |= take_sink(place, flags_of(immediate));
      break;
    case PacketType::kPlaced:
      if (!take_placed(place)) return changes | cut();
      changes |= kSinks;
      break;
    case PacketType::kRevoked:
      if (!take_revoked(place)) return changes | cut();
      changes |= kSinks;
      break;
    case PacketType::kPark:
      peer_parked_ = true;
      changes |= kState;
      break;
    case PacketType::kLeave:
      peer_leaves_ = true;
      spill_arrivals();
      finish(false);
      changes |= kState | kWritable;
      break;
  }
  if (type != PacketType::kData) give_back(place);
  // Data that waited for credits goes; small data that waits for more goes on waiting.
  if (type != PacketType::kData || (changes & kWritable) != 0) pump(!holds_);
  return changes;
}

bool Lane::has_ended() const {
  return trusted_ && sending_ == State::kEnded && receiving_ == State::kEnded;
}

bool Lane::may_park() const {
  // A lane of messages has places and rights of its own, which the next connection may not want.
  if (broken_ || parked_ || options_.messages) return false;
  if (is_unused()) return true;
  const bool more_to_say = wants_trust_ || wants_leave_ || wants_fin_ack_ || wants_more_;
  return has_ended() && may_start() && !more_to_say && unread_ == 0 && direct_ == Direct::kNone;
}

bool Lane::park() {
  if (!may_park()) return false;
  give_spent_back();
  parked_ = post(PacketType::kPark, nullptr, 0);
  return parked_;
}

unsigned Lane::turn() {
  const std::uint64_t before = done_;
  reap();
  give_spent_back();
  // All sends have completed: small data need not wait any longer.
  if (posted_ != filled_ && posted_ == done_ && !options_.timer) {
    pump(true);
  } else {
    post_pending_control();
  }
  return done_ != before ? static_cast<unsigned>(kWritable) : 0;
}

unsigned Lane::cut() {
  if (close_direct()) direct_ = Direct::kNone;
  broken_ = cut_ = true;
  holds_ = false;
  return kReadable | kWritable | kState;
}

}  // namespace viaduct::sovia
