// Credit: how many frames a sender on Unreliable Delivery may have under way.
//
// Nothing is sent again on this level, so a frame that finds the receiver's port full is lost, and a
// message of many frames with it. Therefore each side tells how many frames it has room for behind
// the PSN that it awaits: in the ACK and window fields of its data, and, when the sender asks by
// kFlagAckNow, in an ACK. The counts are cumulative, so a lost one is made good by the next.
//
//   - Every connection may begin with, and return after a silence to, the standing credit that its
//     peer named in CONNECT_REQUEST or CONNECT_ACCEPT: the port's room shared out to all VIs on
//     Unreliable Delivery. A peer that named none knows nothing of credit; it is sent to without.
//   - A sender that has used half of its credit asks for more, and gets its part of the room, which
//     all senders that asked lately share; at first no more than it had, and at most the double
//     when that is used up, so that several that begin together do not get it twice.
//   - A sender without credit waits. When none has come for kCreditWait, it sends one frame, which
//     asks again, then one after each longer wait. So lost frames and a peer that is busy elsewhere
//     cost time, but never hang a VI.
//
// This is the receiving side, send_credit.h the sending one.
#ifndef VIADUCT_KAGENT_STACK_CREDIT_GRANTS_H
#define VIADUCT_KAGENT_STACK_CREDIT_GRANTS_H

#include <cstdint>

#include "kagent/stack/tables.h"
#include "kagent/stack/vi_table.h"

namespace viaduct {

template <class Platform>
class CreditGrants : private ViTable {
 public:
  CreditGrants(const Tables& tables, typename Platform::Port& port) : ViTable(tables), port_(port) {}

  void share_standing_credit(int change);
  inline std::uint16_t credit_for(const state::Vi& vi) const;
  void give_credit(ViIndex vi);
  static inline void begin_credit(state::Vi& vi, std::uint16_t standing, std::uint64_t now);
  std::uint16_t standing_credit() const {
    return static_cast<std::uint16_t>(root_->credit_standing);
  }

 private:
  std::uint32_t credit_room() const;
  void tell_credit(ViIndex vi);

  typename Platform::Port& port_;
};

}  // namespace viaduct

#endif
