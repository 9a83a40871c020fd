// Messages that are written straight to the receiver's memory, beside the stream: the receiver tells of a sink,
// which is memory that is open to the peer, for the message that comes next; the sender writes there by RDMA, and
// tells that it has. A sender need not: it may send the message in the stream instead.
//
//     receiver                          sender
//     open_sink()   --SINK-->           target() is kSink
//                                       write_to_sink(), tell_placed()
//     kPlaced       <--PLACED--         has_placed()
//
//     revoke_sink() --SINK, revokes-->  target() is kStream
//     kRevoked      <--REVOKED--        (nothing, if it writes already: PLACED follows)
//
// One sink at a time each way.
#ifndef VIADUCT_SOVIA_LANE_LANE_SINKS_H
#define VIADUCT_SOVIA_LANE_LANE_SINKS_H

#include <cstddef>
#include <cstdint>

#include "sovia/lane/lane_remote.h"

namespace viaduct::sovia {

class LaneSinks {
 public:
  LaneSinks(Transport& transport, LaneSendRing& ring, ControlSender& sender, LaneRemote& remote)
      : transport_(transport), ring_(ring), sender_(sender), remote_(remote) {}

  // ------------------------------------------------------------------ the receiver's
  enum class SinkState : std::uint8_t { kClosed, kOpen, kRevoking, kRevoked, kPlaced };
  // For message `number`. False: it can't be told of.
  bool open_sink(std::uint32_t number, const std::byte* at, std::uint32_t bytes, std::uint32_t memory);
  SinkState sink() const { return sink_; }
  std::uint32_t placed_length() const { return placed_length_; }
  void revoke_sink();
  // Before the peer has answered only if it sends the message in the stream, or the lane is lost.
  void close_sink() { sink_ = SinkState::kClosed; }
  // There will be no sink for this message.
  void refuse_sink(std::uint32_t number);

  // ------------------------------------------------------------------ the sender's
  enum class Target : std::uint8_t { kNone, kSink, kStream };
  Target target(std::uint32_t number) const { return target_number_ == number ? target_ : Target::kNone; }
  std::uint32_t target_bytes() const { return target_sink_.bytes; }
  // Writes as much as there are places for, from `at` on; at most target_bytes() in all. Bytes.
  std::uint32_t write_to_sink(const std::byte* data, std::uint32_t at, std::uint32_t bytes, std::uint32_t memory);
  // All has been written. False: not yet.
  bool tell_placed(std::uint32_t length);
  // The peer has it.
  bool has_placed();

  // ------------------------------------------------------------------ packets that have come
  unsigned take_sink(std::uint32_t place, std::uint32_t flags);
  // False: the peer has no business to say so.
  bool take_placed(std::uint32_t place);
  bool take_revoked(std::uint32_t place);

 private:
  static constexpr std::uint64_t kNotPosted = ~std::uint64_t{0};

  Transport& transport_;
  LaneSendRing& ring_;
  ControlSender& sender_;
  LaneRemote& remote_;
  SinkState sink_ = SinkState::kClosed;
  std::uint32_t sink_number_ = 0, placed_length_ = 0;

  Target target_ = Target::kNone;
  std::uint32_t target_number_ = 0;
  struct {
    std::uint64_t address = 0;
    std::uint32_t memory = 0, bytes = 0;
  } target_sink_;
  bool writing_ = false;  // to the target
  std::uint64_t placed_at_ = kNotPosted;
};

}  // namespace viaduct::sovia

#endif
