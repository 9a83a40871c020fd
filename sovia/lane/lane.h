// The protocol of a lane: two streams of bytes, one each way, over one VI, as the SOVIA paper
// describes them: credits, delayed acknowledgements, piggybacking, combining of small sends.
//
// A direction comes to the lane and goes back to the kernel as its sender likes:
//
//     kIdle --tx.go_up(), DATA with kFlagFirst--> kUp --tx.go_down(), DATA with kFlagDown--> kIdle ...
//     kIdle, kUp --finish(), FIN behind all data--> kEnding --FINACK--> kEnded, for good
//
// The lane is cut if its peer does not keep to this protocol, or to its credits. A lane is over when both directions are
// kEnded, or when it is broken: the VI has lost its connection.
//
// Only one thread at a time may use a lane, which it locks by lock(). No function here waits. The parts know nothing of
// the lock: they are only reached through the lane.
//
// A lane owns its parts, each with its own state: the ring of posted packets, credits, the greeting, the states of both
// directions (control), received data (rx) and data to send (tx), remote memory and sinks for messages.
#ifndef VIADUCT_SOVIA_LANE_LANE_H
#define VIADUCT_SOVIA_LANE_LANE_H

#include <cstdint>
#include <optional>

#include "sovia/lane/lane_control.h"
#include "sovia/lane/lane_rx.h"
#include "sovia/lane/lane_sinks.h"
#include "sovia/lane/lane_tx.h"
#include "sovia/process/lock.h"
#include "sovia/process/lock_order.h"

namespace viaduct::sovia {

class Lane {
 public:
  using State = LaneControl::State;

  // To be made when the transport has posted all its receives. `remote`: memory that messages may be written to;
  // nullptr: none.
  Lane(Transport& transport, const LaneOptions& options, RemoteMemory* remote = nullptr);
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  Lock& lock() const VIADUCT_RETURN_CAPABILITY(lock_) { return lock_; }

  void greet(const std::uint8_t (&token)[kTokenBytes]) VIADUCT_REQUIRES(lock_);
  // This end trusts the peer from now on, and tells it so (TRUST).
  void trust() VIADUCT_REQUIRES(lock_);
  // Sends FIN after all data that was written. `closes`: the program has closed the socket.
  void finish(bool closes) VIADUCT_REQUIRES(lock_);
  // Asks the peer for its FIN (LEAVE). `again_ms` as with LaneControl::leave().
  void ask_to_leave(std::optional<std::uint32_t> again_ms = {}) VIADUCT_REQUIRES(lock_);

  // ------------------------------------------------------------------ the transport's events
  // A packet has come. LaneChange bits. After cut() packets are ignored; after a failed send those that came before it
  // still count.
  unsigned arrived(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) VIADUCT_REQUIRES(lock_);
  // Takes in completed sends, and posts packets that had to wait: to be called now and then. LaneChange bits.
  unsigned poll() VIADUCT_REQUIRES(lock_);
  // Whether something waits for sends to complete: then poll() has to be called again even if no packet comes.
  bool wants_poll() const VIADUCT_REQUIRES(lock_) {
    return control.has_pending() || ((tx.holds() || lands) && !control.broken());
  }
  // The direction from here leaves the lane, and the kernel waits for all that was sent to arrive.
  bool lands VIADUCT_GUARDED_BY(lock_) = false;
  unsigned cut() VIADUCT_REQUIRES(lock_);
  // The connection is over: nothing more is sent. Packets that have come before still count.
  void fail() VIADUCT_REQUIRES(lock_) { sender_.fail(); }

 private:
  unsigned take(PacketType type, std::uint32_t place, std::uint32_t bytes, std::uint32_t flags, bool direct)
      VIADUCT_REQUIRES(lock_);

  mutable Lock lock_ SOVIA_LOCK_ORDER(turn, lane);  // guards all but the options
  const LaneOptions options_;  // before the parts, which are made by them
  Credits credits_ VIADUCT_GUARDED_BY(lock_);
  ControlSender sender_ VIADUCT_GUARDED_BY(lock_);

 public:
  LaneSendRing ring VIADUCT_GUARDED_BY(lock_);
  LaneGreeting greeting VIADUCT_GUARDED_BY(lock_);
  LaneControl control VIADUCT_GUARDED_BY(lock_);
  LaneRx rx VIADUCT_GUARDED_BY(lock_);
  LaneTx tx VIADUCT_GUARDED_BY(lock_);
  LaneRemote remote VIADUCT_GUARDED_BY(lock_);
  LaneSinks sinks VIADUCT_GUARDED_BY(lock_);

  const LaneStalls& stalls() const VIADUCT_REQUIRES(lock_) { return sender_.stalls(); }
};

// For Clang, which follows no second name of a lane: `lane` is `locked`.
inline void same_lane([[maybe_unused]] Lane& locked, [[maybe_unused]] Lane& lane)
    VIADUCT_REQUIRES(locked.lock()) VIADUCT_ASSERT_CAPABILITY(lane.lock()) {}

}  // namespace viaduct::sovia

#endif
