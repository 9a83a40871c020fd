// Posts a lane's packets without data, each with the credits that the peer is owed, and knows whether the lane still
// carries anything.
#ifndef VIADUCT_SOVIA_LANE_CONTROL_SENDER_H
#define VIADUCT_SOVIA_LANE_CONTROL_SENDER_H

#include <cstdint>

#include "sovia/lane/credits.h"
#include "sovia/lane/lane_send_ring.h"
#include "sovia/lane/packet.h"
#include "sovia/lane/transport.h"
#include "sovia/process/counters.h"

namespace viaduct::sovia {

struct LaneStalls {
  std::uint64_t credits = 0;   // the times that data had to wait for credits
  std::uint64_t combined = 0;  // sends that were put into a packet with others
  std::uint64_t packets = 0;   // DATA
  std::uint64_t acks = 0;      // ACK packets
};

class ControlSender {
 public:
  ControlSender(Transport& transport, LaneSendRing& ring, Credits& credits)
      : transport_(transport), ring_(ring), credits_(credits) {}

  // WAKEUP is about to be posted: other packets may follow.
  void begin() { has_begun_ = true; }
  bool has_begun() const { return has_begun_; }
  // Posts a packet without data. False: there is no place now, or the lane is broken.
  bool post(PacketType type, const void* body = nullptr, std::uint32_t bytes = 0, std::uint32_t flags = 0);
  // Takes the credits owed to the peer, which the packet of this type then carries.
  std::uint32_t take_credits(PacketType type) {
    if (type == PacketType::kGrow) return credits_.take_growth();
    const std::uint32_t credits = credits_.take_owed();
    if (credits != 0 && type != PacketType::kAck) counters::add(Counter::kAcksPiggybacked);
    return credits;
  }
  // Posts the receive of a place again, so that it may take another packet.
  void give_back(std::uint32_t place) {
    if (!broken_ && !transport_.post_receive(place)) fail();
  }

  // Has so many receives in use, and posts those that are not yet. False: the lane is broken.
  bool use_receives(std::uint32_t count) {
    if (!broken_ && !transport_.use_receives(count)) fail();
    return !broken_;
  }

  // broken(): nothing more can be sent.
  bool broken() const { return broken_; }
  void fail();
  // is_cut(): no packet can come any more, either. Until then packets that were sent before a failed send may still
  // come.
  bool is_cut() const { return cut_; }
  void cut() { broken_ = cut_ = true; }

  LaneStalls& stalls() { return stalls_; }
  const LaneStalls& stalls() const { return stalls_; }

 private:
  Transport& transport_;
  LaneSendRing& ring_;
  Credits& credits_;
  bool has_begun_ = false, broken_ = false, cut_ = false;
  LaneStalls stalls_;
};

}  // namespace viaduct::sovia

#endif
