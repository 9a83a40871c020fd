// The protocol of a lane: two streams of bytes, one each way, over one VI, as the SOVIA paper
// describes them: credits, delayed acknowledgements, piggybacking, combining of small sends.
//
// A direction's life, at its sender and at its receiver:
//
//     sender                                      receiver
//     kIdle --START--> kUp --finish()--> kEnding       kIdle --START--> kUp --FIN--> kEnded
//        \---------finish()-------------^   |             \---------FIN-------------^
//                                        FINACK
//                                           v
//                                        kEnded
//
// After finish() the lane takes no more data; FIN goes when all data taken before has gone. An end that leaves, or
// whose peer does, spills what it receives, so that FIN needs no program that reads.
//
// A peer that does not keep to this, or to its credits, loses the lane.
//
// A lane is over when both are kEnded, or when it is broken: the VI has lost its connection.
//
// One thread at a time: lock() it. Nothing here waits.
//
// A lane is made of layers, each of which owns its data and calls none above it: lane_send_ring,
// lane_control, lane_receiving, lane_sending, lane_remote, lane_sinks, and this one, which takes what the wire tells.
#ifndef VIADUCT_SOVIA_LANE_LANE_H
#define VIADUCT_SOVIA_LANE_LANE_H

#include <cstdint>

#include "sovia/lane/lane_sinks.h"

namespace viaduct::sovia {

class Lane final : public LaneSinks {
 public:
  using LaneSinks::LaneSinks;

  // ------------------------------------------------------------------ the wire's events
  // A packet has come. Change bits. After cut() nothing counts any more; packets that came before a send
  // that failed do.
  unsigned arrived(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate);
  // Sends have completed, or credits are wanted: to be called now and then. Change bits.
  unsigned turn();
  unsigned cut();
  // Something that the peer has sent will never come.
  void miss() { peer_has_more_ = true; }

  // The connection has ended in good order, and the VI may be another's: after park() nothing is sent on it,
  // all receives are posted, and outstanding() packets have yet to complete. The peer takes it back by its own
  // PARK, of which nothing tells when this object is no more.
  bool may_park() const;
  // Nothing has been said on it, by either end.
  bool is_unused() const { return !greeted_ && !has_greeted_ && !broken_; }
  bool park();

  // It is broken, and data may be lost with it: that of this end, or the peer's, which sends none before it is
  // trusted.
  bool lost() const {
    return broken_ && may_start() && (sending_ != State::kIdle || !wants_trust_) &&
           receiving_ != State::kEnded && !peer_closed_;
  }

  // ------------------------------------------------------------------ after it has broken
  // The streams go on through the kernel. Completed packets have reached the peer's lane, others may have. True if
  // there is anything to be done.
  bool wants_fall_back();
  // ... for which a descriptor is needed: bytes to send, or certainly some to take.
  bool falls_with_data();
  enum class Fall : std::uint8_t {
    kPlain,       // resend uncompleted bytes, then new ones; the peer drops those it has
    kRecord,      // Resume before it
    kImpossible,  // the peer can't know how to go on
  };
  Fall falls();
  // The peer's stream in the kernel goes on with Resume: certainly, or perhaps.
  bool expects_record() const { return started() && receiving_ != State::kEnded; }
  bool may_get_record() const { return started() && !has_sent(fin_ack_at_); }
  // FIN has come, and it is not known that FINACK has: the peer's lane may have broken while this one has not.
  bool may_get_early_record();
  // The peer may have begun on the lane: START and data may be missing. If the peer lives, the data behind START goes
  // through the kernel.
  bool may_miss_start() const { return cut_ && trusted_ && !wants_trust_ && receiving_ == State::kIdle && peer_has_more_; }

 private:
  bool has_ended() const;
  bool acceptable(std::uint32_t bytes, std::uint32_t immediate) const;
  unsigned take_hello(std::uint32_t place);
  unsigned take_start(std::uint32_t place);
  unsigned take_fin(std::uint32_t flags);
};

}  // namespace viaduct::sovia

#endif
