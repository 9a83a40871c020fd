// Acknowledgements of what peers send.
//
// They are cumulative and ride on data that goes back. A frame of their own is sent
// - at once, when there is a gap to report or the peer asks (kFlagAckNow) and no data is likely to
//   go back soon; in a stream of such requests one acknowledgement answers all that come within kHaste,
// - after kAckEvery frames, or
// - kAckDelay after the peer has asked, or, where data is likely to go back, as long as that took lately; later if
//   the peer has not asked: then there is more to come.
// Whether data is likely to go back is learnt from what happened after earlier requests. A server with many
// connections answers each when it has read from all of them: acknowledgements that do not wait for the answers
// would double its frames. The wait grows with each answer that comes later than it, and shrinks with each that comes
// in half of it. The steps are so small that the peer, which measures round trips, adapts before it sends again.
#ifndef VIADUCT_KAGENT_STACK_ACKNOWLEDGER_H
#define VIADUCT_KAGENT_STACK_ACKNOWLEDGER_H

#include <cstdint>

#include "kagent/stack/credit_grants.h"
#include "kagent/stack/frames_out.h"
#include "kagent/stack/tables.h"
#include "kagent/stack/vi_table.h"

namespace viaduct {

template <class Platform>
class Acknowledger : private ViTable {
 public:
  Acknowledger(const Tables& tables, FramesOut<Platform>& frames_out,
               CreditGrants<Platform>& credit_grants)
      : ViTable(tables), held_limit_(tables.held_limit), address_(tables.address),
        ether_type_(tables.ether_type), frames_out_(frames_out), credit_grants_(credit_grants) {}

  inline void note_ack_due(ViIndex vi, bool now, std::uint32_t frames = 1);
  inline unsigned send_due_acks();
  // When the next acknowledgement is due; TimerWheel::kNever: none is.
  std::uint64_t next_due() const;
  inline void fill_header(state::Vi& vi, wire::Header& header);

 private:
  inline bool is_pending(const state::Vi& vi) const;
  inline std::uint16_t receive_window() const;
  inline void fill(state::Vi& vi, wire::Header& header);
  void send_ack(ViIndex vi);

  std::uint32_t held_limit_;
  MacAddress address_;
  std::uint16_t ether_type_;
  FramesOut<Platform>& frames_out_;
  CreditGrants<Platform>& credit_grants_;
};

}  // namespace viaduct

#endif
