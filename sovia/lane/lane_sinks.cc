#include "sovia/lane/lane_sinks.h"

#include <endian.h>

#include <algorithm>
#include <cstring>

#include "sovia/lane/lane_control.h"

namespace viaduct::sovia {

// ---------------------------------------------------------------------------- the receiver's

bool LaneSinks::open_sink(std::uint32_t number, const std::byte* at, std::uint32_t bytes, std::uint32_t memory) {
  if (!remote_.is_open() || sink_ != SinkState::kClosed || bytes == 0) return false;
  const Sink sink{htobe64(reinterpret_cast<std::uint64_t>(at)), htobe32(memory), htobe32(bytes), htobe32(number), 0};
  if (!sender_.post(PacketType::kSink, &sink, sizeof sink)) return false;
  sink_ = SinkState::kOpen;
  sink_number_ = number;
  return true;
}

void LaneSinks::revoke_sink() {
  if (sink_ != SinkState::kOpen) return;
  const Sink sink{0, 0, 0, htobe32(sink_number_), 0};
  if (sender_.post(PacketType::kSink, &sink, sizeof sink, kFlagRevokes)) sink_ = SinkState::kRevoking;
}

void LaneSinks::refuse_sink(std::uint32_t number) {
  if (!remote_.is_open()) return;
  const Sink sink{0, 0, 0, htobe32(number), 0};
  sender_.post(PacketType::kSink, &sink, sizeof sink);
}

bool LaneSinks::take_placed(std::uint32_t place) {
  Placed placed;
  std::memcpy(&placed, transport_.received(place), sizeof placed);
  const bool awaited = sink_ == SinkState::kOpen || sink_ == SinkState::kRevoking;
  if (!awaited || be32toh(placed.number) != sink_number_) return false;
  const std::uint32_t length = be32toh(placed.length);
  if (length > kMostMessage) return false;
  placed_length_ = length;
  sink_ = SinkState::kPlaced;
  return true;
}

bool LaneSinks::take_revoked(std::uint32_t place) {
  Placed revoked;
  std::memcpy(&revoked, transport_.received(place), sizeof revoked);
  if (sink_ != SinkState::kRevoking || be32toh(revoked.number) != sink_number_) return false;
  sink_ = SinkState::kRevoked;
  return true;
}

// ---------------------------------------------------------------------------- the sender's

unsigned LaneSinks::take_sink(std::uint32_t place, std::uint32_t flags) {
  Sink sink;
  std::memcpy(&sink, transport_.received(place), sizeof sink);
  // A write under way keeps its target.
  if (writing_) return 0;
  target_number_ = be32toh(sink.number);
  target_sink_ = {be64toh(sink.address), be32toh(sink.memory), be32toh(sink.bytes)};
  target_ = target_sink_.bytes != 0 ? Target::kSink : Target::kStream;
  if ((flags & kFlagRevokes) != 0) {
    target_ = Target::kStream;
    const Placed revoked{sink.number, 0};
    sender_.post(PacketType::kRevoked, &revoked, sizeof revoked);
  }
  return LaneChange::kSinks;
}

std::uint32_t LaneSinks::write_to_sink(const std::byte* data, std::uint32_t at, std::uint32_t bytes,
                                       std::uint32_t memory) {
  if (target_ != Target::kSink) return 0;
  if (!writing_) placed_at_ = kNotPosted;
  writing_ = true;
  const std::uint32_t all = std::min(bytes, target_sink_.bytes);
  return remote_.write(data + at, all - at, memory, target_sink_.address + at, target_sink_.memory);
}

bool LaneSinks::tell_placed(std::uint32_t length) {
  const Placed placed{htobe32(target_number_), htobe32(length)};
  const std::uint64_t at = ring_.control_posted();
  if (!sender_.post(PacketType::kPlaced, &placed, sizeof placed)) return false;
  placed_at_ = at;
  writing_ = false;
  target_ = Target::kNone;
  return true;
}

bool LaneSinks::has_placed() {
  if (placed_at_ == kNotPosted) return false;
  if (!ring_.has_sent(placed_at_)) ring_.reap();
  return ring_.has_sent(placed_at_);
}

}  // namespace viaduct::sovia
