// A lane that has broken: the streams go on through the kernel, and this says how. Completed packets have reached the
// peer's lane, others may have.
#ifndef VIADUCT_SOVIA_LANE_LANE_LOSS_H
#define VIADUCT_SOVIA_LANE_LANE_LOSS_H

#include <cstdint>

#include "sovia/lane/lane_control.h"

namespace viaduct::sovia {

class LaneLoss {
 public:
  LaneLoss(LaneSendRing& ring, const LaneGreeting& greeting, const LaneControl& control)
      : ring_(ring), greeting_(greeting), control_(control) {}

  // It is broken, and data may be lost with it: that of this end, or the peer's, which sends none before it is
  // trusted.
  bool lost() const;
  // Whether there is anything to be done.
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
  bool expects_record() const { return control_.started() && control_.receiving() != State::kEnded; }
  bool may_get_record() const { return control_.started() && !control_.has_delivered_fin_ack(); }
  // FIN has come, and it is not known that FINACK has: the peer's lane may have broken while this one has not.
  bool may_get_early_record();
  // The peer may have begun on the lane: START and data may be missing. If the peer lives, the data behind START goes
  // through the kernel.
  bool may_miss_start() const;

 private:
  using State = LaneControl::State;
  // The peer has seen the end of the stream, or closed and will see nothing.
  bool ends() const { return control_.has_delivered_end() || control_.peer_closed(); }

  LaneSendRing& ring_;
  const LaneGreeting& greeting_;
  const LaneControl& control_;
};

}  // namespace viaduct::sovia

#endif
