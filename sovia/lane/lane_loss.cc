#include "sovia/lane/lane_loss.h"

namespace viaduct::sovia {

bool LaneLoss::lost() const {
  return control_.broken() && greeting_.may_start() &&
         (control_.sending() != State::kIdle || !greeting_.wants_trust()) &&
         control_.receiving() != State::kEnded && !control_.peer_closed();
}

bool LaneLoss::may_miss_start() const {
  return control_.is_cut() && greeting_.trusted() && !greeting_.wants_trust() &&
         control_.receiving() == State::kIdle && control_.peer_has_more();
}

bool LaneLoss::wants_fall_back() {
  if (!control_.is_cut()) return false;
  ring_.reap();
  return falls_with_data() || may_get_record();
}

bool LaneLoss::may_get_early_record() {
  if (control_.is_cut() || control_.receiving() != State::kEnded) return false;
  ring_.reap();
  return may_get_record();
}

bool LaneLoss::falls_with_data() {
  if (!control_.is_cut()) return false;
  ring_.reap();
  return (control_.has_started() && !ends()) || expects_record() || may_miss_start();
}

LaneLoss::Fall LaneLoss::falls() {
  ring_.reap();
  if (!control_.has_started() || ends()) {
    ring_.forget_unsent();
    return Fall::kPlain;
  }
  if (control_.has_delivered_start()) return Fall::kRecord;
  // A peer that has not got START takes the resent bytes as new ones; one that has drops those that it knows. Neither
  // can be done if FIN has been sent, as the peer may have seen the end, too.
  return control_.has_finished() ? Fall::kImpossible : Fall::kPlain;
}

}  // namespace viaduct::sovia
