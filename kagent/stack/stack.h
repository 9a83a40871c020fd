// The stack: a VI NIC in software. VIs, work queues, completion queues, memory regions, connections
// and the reliability protocol over one port.
//
// It has no threads, makes no system calls and never blocks: its driver calls progress() again and again, handing in
// the time. The outside world is reached through Platform::Port (frames), Platform::BulkPath (frames of long messages)
// and Platform::Environment (memory of programs, waking sleepers, random numbers, names; see environment.h).
//
//   program --- session segment (session_layout.h) --- BasicStack --- Port --- wire
//
// One thread at a time. All capacity is fixed at construction; requests beyond it are refused with a
// VIPL return code, frames dropped and counted. doc/architecture.md shows the parts.
#ifndef VIADUCT_KAGENT_STACK_STACK_H
#define VIADUCT_KAGENT_STACK_STACK_H

#include <cstdint>
#include <optional>

#include "kagent/stack/stack_parts.h"
#include "kagent/stack/timers.h"
#include "kagent/stack/vi_table.h"

namespace viaduct {

template <class Platform>
class BasicStack : private OwnTables, private ViTable, private Timers {
 public:
  using Port = typename Platform::Port;
  using Environment = typename Platform::Environment;
  using Usage = StackUsage;

  // Bytes of the segment for these limits; the segment must be zeroed and 64-byte aligned.
  static std::size_t footprint(const StackLimits& limits) { return Tables::footprint(limits); }

  // Port and environment must outlive the stack. `addresses`: the agent's are both its port's own.
  BasicStack(void* segment, const StackLimits& limits, std::uint16_t ether_type, Port& port,
             Environment& environment, const StackAddresses& addresses, std::uint64_t now);
  ~BasicStack();
  BasicStack(const BasicStack&) = delete;
  BasicStack& operator=(const BasicStack&) = delete;

  // Begins a session over a zeroed segment, whose header this fills in. The memory must stay mapped
  // until close_session(). Returns the session's number; nothing when all are in use.
  std::optional<std::uint32_t> open_session(void* segment);

  // The session's program has a stack of its own, which `address` reaches: connection requests for
  // which it has published a listener in its segment are sent on to it.
  void delegate(std::uint32_t session, const MacAddress& address);

  // Ends a session: its connections are ended as by a disconnect, everything it held is free again.
  void close_session(std::uint32_t session, std::uint64_t now);

  // Another process attaches to a session. It has a copy of what program `parent_id` had
  // registered when Header::forks became `forks` (and of what that program had a copy of). Returns the
  // number by which the environment is to know it; nothing when there are too many. The first
  // process of a session, which goes by the session's number, has joined with open_session().
  std::optional<std::uint32_t> join(std::uint32_t session, std::uint32_t parent_id,
                                    std::uint32_t forks);
  std::uint32_t member_of(std::uint32_t program) const { return tables_.programs[program].member; }
  std::uint32_t id_of(std::uint32_t program) const { return tables_.programs[program].id; }

  // A process of a session has gone, also the first, while others are left. Its VIs are destroyed,
  // their connections ended as by a disconnect.
  void leave(std::uint32_t program, std::uint64_t now);

  // Does what there is to do at `now` (ns, monotonic): frames, doorbells, transmissions,
  // acknowledgements, timers. Returns the amount of work done, 0 when idle.
  unsigned progress(std::uint64_t now);
  // For a thread that was killed in progress(): whether progress() may be called again.
  bool may_go_on() const { return parts_.frames_out.in_last_flush(); }

  // For a driver in the program: answers a doorbell of a session as if it had been rung.
  void rung(std::uint32_t session, std::uint32_t bit);

  // For a driver in the program, between two rounds. redirect(): the message for the receive that is next to complete
  // goes to `to`, if it has not come completely yet. kNotDone: it has, or there is no such receive. unredirect()
  // takes that back. kSuccess: a message has gone there. kNotDone: none has, and none will.
  vip::Return redirect(std::uint32_t vi, std::uint32_t generation, const layout::Segment& to);
  vip::Return unredirect(std::uint32_t vi, std::uint32_t generation);

  // Before sleeping: asks every program to wake the agent from now on. False (and nothing asked)
  // when there is work already. After sleeping: takes it back.
  bool prepare_to_sleep();
  void awake();

  // When progress() must be called next even if no frame and no doorbell comes; ~0 for never.
  std::uint64_t next_deadline() const;

  // Whether messages of this VI are on their way whose acknowledgement will come.
  bool awaits_acknowledgement(std::uint32_t vi) const {
    const state::Vi& sender = vis_[vi];
    return sender.state == vip::kConnected && sender.reliability != vip::kUnreliable &&
           sender.tx.send_una != sender.tx.send_next;
  }

  // The capacity of every session's segment, which is layout::Offsets(capacity()).total bytes.
  layout::Capacity capacity() const { return ViTable::capacity(); }
  const StackCounters& counters() const { return root_->counters; }
  const StackLimits& limits() const { return limits_; }
  MacAddress address() const { return tables_.address; }  // the source of our frames
  MacAddress host() const { return tables_.addresses.host; }
  // Sets where connection requests to the own host go from now on.
  void set_control_session(const MacAddress& control_session) { tables_.addresses.control_session = control_session; }
  // While draining, connection requests of programs fail and those of peers are rejected.
  void set_draining(bool draining) { root_->draining = draining; }
  std::uint32_t mtu() const { return tables_.mtu; }
  std::uint16_t ether_type() const { return tables_.ether_type; }
  Usage usage() const { return tables_.usage(); }
  const NameConflict& name_conflict() const { return parts_.name_service.name_conflict(); }

 private:
  inline unsigned receive_frames(bool& overtakes);
  [[gnu::noinline, gnu::cold]] unsigned receive_overtaken();
  inline void dispatch(const Frame& frame, bool& keep);
  inline bool is_taken(wire::Malformed malformed, const wire::Decoded& decoded);
  inline void on_bundled(const wire::Decoded& decoded, const Frame& frame, bool& keep);
  [[gnu::noinline]] void on_control(const wire::Decoded& decoded, const Frame& frame);
  [[gnu::always_inline]] inline unsigned answer_doorbells();
  void fire(std::uint32_t timer);
  void on_ack(const wire::Decoded& frame);
  [[gnu::noinline, gnu::cold]] unsigned complete_late();
  [[gnu::noinline]] unsigned take_run(std::size_t i, std::size_t count);
  inline state::Vi* admit(const wire::Decoded& frame, const Frame& raw);
  inline void on_data(const state::Vi& vi, const wire::Decoded& frame, const Frame& raw, bool& keep);
  void on_probe(const wire::Decoded& frame);
  inline void ring_send(ViIndex vi);
  [[gnu::always_inline]] inline unsigned transmit_ready();
  [[gnu::always_inline]] inline void transmit_session(std::uint32_t session, unsigned& sent);
  void settle() {
    if (parts_.pending_disconnect.pending()) [[unlikely]] end_connection();
  }
  [[gnu::noinline, gnu::cold]] void end_connection();

  Port& port_;
  Environment& environment_;
  StackParts<Platform> parts_;
  Frame burst_[kBurst];
};

}  // namespace viaduct

#endif
