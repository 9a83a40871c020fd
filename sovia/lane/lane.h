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
// whose peer leaves, spills the data that it receives, so that FIN arrives even if the program does not read.
//
// The lane is cut if its peer does not keep to this protocol, or to its credits.
//
// A lane is over when both are kEnded, or when it is broken: the VI has lost its connection.
//
// Only one thread at a time may use a lane, which it locks by lock(). No function here waits.
//
// A lane owns its parts, each with its own state: the ring of posted packets, credits, the greeting, the states of both
// directions (control), received data (rx) and data to send (tx), remote memory and sinks for messages, and the way on
// for a lane that has broken (loss).
#ifndef VIADUCT_SOVIA_LANE_LANE_H
#define VIADUCT_SOVIA_LANE_LANE_H

#include <cstdint>
#include <optional>

#include "sovia/lane/lane_control.h"
#include "sovia/lane/lane_loss.h"
#include "sovia/lane/lane_rx.h"
#include "sovia/lane/lane_sinks.h"
#include "sovia/lane/lane_tx.h"
#include "sovia/process/lock.h"

namespace viaduct::sovia {

class Lane {
 public:
  using State = LaneControl::State;

  // To be made when the transport has posted all its receives. `remote`: memory that messages may be written to;
  // nullptr: none.
  Lane(Transport& transport, const LaneOptions& options, RemoteMemory* remote = nullptr);
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  Lock& lock() { return lock_; }

  void greet(const std::uint8_t (&token)[kTokenBytes], const HelloFlow& flow = {});
  // This end trusts the peer from now on, and tells it so (TRUST).
  void trust();
  // Sends FIN after all data that was written. Calling it again may only add that the program closes: if FIN has gone,
  // the peer is asked to leave. A peer that still took the lane for open would write Resume to the kernel's stream when
  // the lane ends. The closed kernel socket would answer that with a reset, and bytes on their way to the peer would be
  // lost.
  void finish(bool closes);
  // Asks the peer to leave (LEAVE), even if it has sent its FIN: a peer that leaves spills its unread data, so data
  // that waits for credits goes on.
  // `again_ms` as with LaneControl::leave().
  void ask_to_leave(std::optional<std::uint32_t> again_ms = {});

  // ------------------------------------------------------------------ the transport's events
  // A packet has come. LaneChange bits. After cut() packets are ignored; after a failed send those that came before it
  // still count.
  unsigned arrived(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate);
  // Takes in completed sends, and posts packets that had to wait: to be called now and then. LaneChange bits.
  unsigned poll();
  // Whether something waits for sends to complete: then poll() has to be called again even if no packet comes.
  bool wants_poll() const { return control.has_pending() || (tx.holds() && !control.broken()); }
  unsigned cut();
  // The connection is over: nothing more is sent. Packets that have come before still count.
  void fail() { sender_.fail(); }
  // Something that the peer has sent is lost.
  void miss() { control.set_peer_has_more(true); }

  // The connection has ended in good order, and the VI may be another's: after park() nothing is sent on it, all
  // receives are posted, and outstanding() packets have yet to complete. The VI is free for another connection when the
  // peer's own PARK has come, too, which may be after the end of this object.
  bool may_park() const;
  bool park();

 private:
  unsigned take(PacketType type, std::uint32_t place, std::uint32_t bytes, std::uint32_t flags, bool direct);

  Lock lock_;
  const LaneOptions options_;  // before the parts, which are made by them
  Credits credits_;
  ControlSender sender_;

 public:
  LaneSendRing ring;
  LaneGreeting greeting;
  LaneControl control;
  LaneRx rx;
  LaneTx tx;
  LaneRemote remote;
  LaneSinks sinks;
  LaneLoss loss;

  const LaneStalls& stalls() const { return sender_.stalls(); }
};

}  // namespace viaduct::sovia

#endif
