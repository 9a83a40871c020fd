// Builds frames of messages and sends them, and again those that are lost.
//
// A message's data is read from the program when its frames are built, also when they are built
// again: nothing is copied in between.
//
// Small messages that wait behind each other share a frame: one that travels inline and has another such
// behind it. Each is in flight for itself, with the frame's PSN.
#ifndef VIADUCT_KAGENT_STACK_TRANSMITTER_H
#define VIADUCT_KAGENT_STACK_TRANSMITTER_H

#include <cstdint>

#include "kagent/stack/acknowledger.h"
#include "kagent/stack/frames_out.h"
#include "kagent/stack/loss_recovery.h"
#include "kagent/stack/message.h"
#include "kagent/stack/send_credit.h"
#include "kagent/stack/send_queue.h"
#include "kagent/stack/tables.h"
#include "kagent/stack/timers.h"
#include "kagent/stack/verdict.h"
#include "kagent/stack/vi_table.h"

namespace viaduct {

// What became of frames that were to be sent.
enum class Sent { kAll, kSome, kUnreadable };

template <class World>
class Transmitter : private ViTable, private Timers {
 public:
  Transmitter(const Tables& tables, typename World::Port& port,
              typename World::Environment& environment, Verdict& verdict,
              FramesOut<World>& frames_out, SendQueue<World>& send_queue,
              Acknowledger<World>& acknowledger, SendCredit<World>& send_credit,
              LossRecovery<World>& loss_recovery)
      : ViTable(tables), Timers(tables), address_(tables.address), ether_type_(tables.ether_type),
        port_(port), environment_(environment), verdict_(verdict), frames_out_(frames_out),
        send_queue_(send_queue), acknowledger_(acknowledger), send_credit_(send_credit),
        loss_recovery_(loss_recovery) {}

  bool await_read(ViIndex vi);
  inline bool transmit(ViIndex vi, unsigned& sent);

 private:
  void submit_packed(ViIndex vi, Frame& frame, std::uint32_t psn, std::size_t bytes, bool ask);
  [[gnu::noinline]] bool send_packed(ViIndex vi, const Message& first, std::uint32_t room,
                                     bool& more);
  [[gnu::noinline]] Sent resend_packed(ViIndex vi, std::uint32_t position, bool ask,
                                       std::uint32_t& failed, std::uint32_t& error);
  inline void note_sent(ViIndex vi);
  Sent send_frames(ViIndex vi, const Message& message, std::uint32_t first_frame,
                   std::uint32_t first_psn, unsigned count, bool ask, unsigned& sent);
  bool retransmit(ViIndex vi, unsigned& sent);

  MacAddress address_;
  std::uint16_t ether_type_;
  typename World::Port& port_;
  typename World::Environment& environment_;
  Verdict& verdict_;
  FramesOut<World>& frames_out_;
  SendQueue<World>& send_queue_;
  Acknowledger<World>& acknowledger_;
  SendCredit<World>& send_credit_;
  LossRecovery<World>& loss_recovery_;
};

}  // namespace viaduct

#endif
