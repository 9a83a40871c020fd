// Decides how the streams of a broken lane go on through the kernel. Completed packets have reached the peer's lane,
// others may have.
#ifndef VIADUCT_SOVIA_LANE_LANE_LOSS_H
#define VIADUCT_SOVIA_LANE_LANE_LOSS_H

#include <cstdint>

#include "sovia/lane/lane_control.h"

namespace viaduct::sovia {

class LaneLoss {
 public:
  LaneLoss(LaneSendRing& ring, const LaneGreeting& greeting, const LaneControl& control)
      : ring_(ring), greeting_(greeting), control_(control) {}

  // The lane is broken, and data of this end or of the peer may be lost with it. A peer sends no data before it is
  // trusted.
  bool lost() const;
  // Whether a fallback (socket/fallback.h) is needed.
  bool wants_fall_back();
  // Whether the fallback needs a descriptor, as there are bytes to send, or the peer certainly sends some.
  bool falls_with_data();
  enum class Fall : std::uint8_t {
    kPlain,       // resend uncompleted bytes, then new ones; the peer drops those it has
    kRecord,      // the same behind a Resume record
    kImpossible,  // the peer can't know how to go on
  };
  Fall falls();
  // Whether the peer's stream in the kernel goes on with a Resume record: certainly (expects), or perhaps (may get).
  bool expects_record() const { return control_.started() && control_.receiving() != State::kEnded; }
  bool may_get_record() const { return control_.started() && !control_.has_delivered_fin_ack(); }
  // The peer's FIN has come, and FINACK may not have reached the peer: its lane may have broken while this end's has
  // not, so it may send a record.
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
