// How the two ends of a lane come to know and trust each other: Hello both ways, then TRUST both ways.
#ifndef VIADUCT_SOVIA_LANE_LANE_GREETING_H
#define VIADUCT_SOVIA_LANE_LANE_GREETING_H

#include <cstdint>

#include "sovia/lane/control_sender.h"

namespace viaduct::sovia {

class LaneGreeting {
 public:
  LaneGreeting(Transport& transport, const LaneOptions& options, bool carries_messages, ControlSender& sender)
      : transport_(transport), options_(options), carries_messages_(carries_messages), sender_(sender) {}

  void greet(const std::uint8_t (&token)[kTokenBytes]);
  const std::uint8_t* own_token() const { return own_token_; }
  // The peer's Hello has come. Until this end trusts the peer nothing else counts, as another program on the peer's
  // host may have sent the Hello.
  bool has_hello() const { return greeted_; }
  const std::uint8_t* peer_token() const { return peer_token_; }
  bool peer_carries_messages() const { return peer_carries_messages_; }
  // ACK packets that the peer may have on their way.
  std::uint32_t peer_acks() const { return peer_acks_; }
  // Takes the Hello in a receive's place. Returns the peer's window; 0: the packet is no Hello of this protocol.
  std::uint32_t take_hello(std::uint32_t place);

  // This end has verified the peer, and tells it so by TRUST: only then may the peer send data.
  void trust() { trusted_ = wants_trust_ = true; }
  // The peer has been told, or is about to be, that it may begin.
  bool trusted() const { return trusted_; }
  bool wants_trust() const { return wants_trust_; }
  void post_pending() {
    if (wants_trust_ && sender_.post(PacketType::kTrust)) wants_trust_ = false;
  }
  bool greeted() const { return greeted_ && trusted_; }
  // The peer has verified this end.
  bool peer_trusts() const { return peer_trusts_; }
  void take_trust() { peer_trusts_ = true; }
  bool may_start() const { return greeted() && peer_trusts_; }

 private:
  Transport& transport_;
  const LaneOptions& options_;
  const bool carries_messages_;
  ControlSender& sender_;
  bool greeted_ = false, trusted_ = false, wants_trust_ = false, peer_trusts_ = false;
  bool peer_carries_messages_ = false;
  std::uint32_t peer_acks_ = 0;
  std::uint8_t own_token_[kTokenBytes] = {}, peer_token_[kTokenBytes] = {};
};

}  // namespace viaduct::sovia

#endif
