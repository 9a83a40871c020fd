// Messages that are written straight to the receiver's memory, beside the stream. The receiver opens memory (a sink) to
// the peer for the next message, and tells the peer. The sender writes the message there by RDMA, and tells that it
// has. A sender need not: it may send the message in the stream instead.
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
  // Opens a sink for message `number`. False: the peer can't be told of it now.
  bool open_sink(std::uint32_t number, const std::byte* at, std::uint32_t bytes, std::uint32_t memory);
  SinkState sink() const { return sink_; }
  std::uint32_t placed_length() const { return placed_length_; }
  void revoke_sink();
  // To be called before the peer has answered only if the peer sends the message in the stream, or the lane is lost.
  void close_sink() { sink_ = SinkState::kClosed; }
  // Tells the peer that there will be no sink for message `number`.
  void refuse_sink(std::uint32_t number);

  // ------------------------------------------------------------------ the sender's
  enum class Target : std::uint8_t { kNone, kSink, kStream };
  Target target(std::uint32_t number) const { return target_number_ == number ? target_ : Target::kNone; }
  std::uint32_t target_bytes() const { return target_sink_.bytes; }
  // Writes as many bytes as there are places for to the sink, from its byte `at` on; at most target_bytes() in all.
  // Returns how many.
  std::uint32_t write_to_sink(const std::byte* data, std::uint32_t at, std::uint32_t bytes, std::uint32_t memory);
  // Tells the peer that the whole message has been written. False: that can't be told yet.
  bool tell_placed(std::uint32_t length);
  // Whether the peer has the message.
  bool has_placed();

  // ------------------------------------------------------------------ packets that have come
  unsigned take_sink(std::uint32_t place, std::uint32_t flags);
  // False: the peer does not keep to the protocol.
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
