// Finds lost frames, and asks after frames that are not acknowledged.
//
// Lost frames are found by the bitmap of an acknowledgement (a frame is lost when one that was sent
// kReorder or more frames later has arrived, or the last one that was sent) and by the timer. The
// timer runs out first a short while after the newest frame was sent, and then asks with one or two
// frames; frames that the answer reports lost are sent again.
//
// On a link that has lost nothing a peer that does not answer has no processor at the moment, as a rule. There
// the first kQuestions times the timer sends a probe, behind the frames that it asks about: if these have not
// come when the probe has, they are lost.
//
// On a link that loses frames the end of a window is often lost, or what acknowledges it. So there
// the first kTailProbes times the timer waits for two round trips only; then for its least time,
// which is doubled. The kTailProbes begin again when a round trip has been measured, and not with every
// acknowledgement: else, if round trips have become longer than two of the old ones, each frame would be sent
// again before it can be acknowledged, its round trip would not be measured, and this would never end.
#ifndef VIADUCT_KAGENT_STACK_LOSS_RECOVERY_H
#define VIADUCT_KAGENT_STACK_LOSS_RECOVERY_H

#include <cstdint>
#include <span>

#include "kagent/stack/frames_out.h"
#include "kagent/stack/history.h"
#include "kagent/stack/peer_table.h"
#include "kagent/stack/send_credit.h"
#include "kagent/stack/send_queue.h"
#include "kagent/stack/tables.h"
#include "kagent/stack/timers.h"
#include "kagent/stack/pending_disconnect.h"
#include "kagent/stack/vi_table.h"

namespace viaduct {

template <class Platform>
class LossRecovery : private ViTable, private Timers {
 public:
  LossRecovery(const Tables& tables, FramesOut<Platform>& frames_out, PendingDisconnect& pending_disconnect, Trains<Platform>& trains,
               SendQueue<Platform>& send_queue,
               SendCredit<Platform>& send_credit, PeerTable<Platform>& peer_table)
      : ViTable(tables), Timers(tables), peers_(tables.peers), history_(tables), frames_out_(frames_out), pending_disconnect_(pending_disconnect),
        trains_(trains), send_queue_(send_queue), send_credit_(send_credit), peer_table_(peer_table) {}

  inline void take_ack(ViIndex vi, std::uint32_t ack, std::uint16_t window);
  void take_sack(ViIndex vi, std::uint32_t ack, std::span<const std::byte> bitmap);
  void restart_timer(ViIndex vi);
  void retransmission_timeout(ViIndex vi);
  // The peer has answered a probe; `ack`: the PSN that it awaited then.
  void take_answer(ViIndex vi, std::uint32_t ack);

 private:
  // `limited`: the window was in use.
  void measure_round_trip(ViIndex vi, bool limited);
  bool asks_first(const state::Vi& vi) const;
  void ask(const state::Vi& vi);
  void send_ends_again(state::Vi& vi);
  [[gnu::noinline]] void doubt_train(ViIndex i);
  bool may_probe_tail(const state::Vi& vi) const;
  void note_resend_delivered(ViIndex vi, std::uint32_t psn);
  std::uint64_t retransmission_time(const state::Vi& vi) const;
  std::uint64_t timer_due(const state::Vi& vi) const;

  Pool<state::Peer> peers_;
  History history_;
  FramesOut<Platform>& frames_out_;
  PendingDisconnect& pending_disconnect_;
  Trains<Platform>& trains_;
  SendQueue<Platform>& send_queue_;
  SendCredit<Platform>& send_credit_;
  PeerTable<Platform>& peer_table_;
};

}  // namespace viaduct

#endif
