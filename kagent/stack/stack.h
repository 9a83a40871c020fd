// The stack: a VI NIC in software. VIs, work queues, completion queues, memory regions, connections
// and the reliability protocol over one port.
//
// It has no threads, makes no system calls and never blocks: whoever drives it calls progress()
// again and again, handing in the time. What it needs from outside comes through StackPort (frames)
// and StackEnvironment (memory of programs, waking sleepers, random numbers, names).
//
//   program --- session segment (session_layout.h) --- Stack --- Port --- wire
//
// One thread at a time. All capacity is fixed at construction; what does not fit is refused with a
// VIPL return code, or dropped and counted.
//
// Sources: stack.cc (set-up, sessions, progress), stack_commands.cc (control operations),
// stack_connect.cc, stack_requests.cc, stack_redirect.cc, stack_peer.cc, stack_disconnect.cc
// (connections), stack_stopped.cc (programs that are stopped), stack_send.cc, stack_packed.cc,
// stack_receive.cc, stack_ack.cc (acknowledgements, retransmission), stack_congestion.cc (window,
// round trips), stack_credit.cc (pace of Unreliable Delivery), stack_complete.cc (completions,
// completion queues), stack_divert.cc, stack_names.cc, stack_claims.cc, stack_family.cc (attached
// processes).
#ifndef VIADUCT_KAGENT_STACK_STACK_H
#define VIADUCT_KAGENT_STACK_STACK_H

#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "kagent/stack/pool.h"
#include "kagent/contract/session_layout.h"
#include "kagent/stack/stack_binding.h"
#include "kagent/stack/stack_state.h"
#include "kagent/stack/timer_wheel.h"
#include "kagent/contract/vip_codes.h"
#include "kagent/contract/wire.h"
#include "xdp/port.h"

namespace viaduct {
inline namespace VIADUCT_STACK_BUILD {

// Whose frames these are.
struct StackAddresses {
  MacAddress host;  // the NIC's, by which programs know this host
  MacAddress desk;  // where connection requests to the own host go: the agent's
};

// Out of shared memory, which is not looked at again. Most messages have one segment.
inline void copy_segments(layout::Segment* to, const layout::Segment* from, std::uint32_t count) {
  std::memcpy(to, from, sizeof *to);
  if (count > 1) [[unlikely]] std::memcpy(to + 1, from + 1, (count - 1) * sizeof *to);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

class Stack {
 public:
  // Bytes of the segment for these limits; the segment must be zeroed and 64-byte aligned.
  static std::size_t footprint(const StackLimits& limits);

  // Port and environment must outlive the stack. `addresses`: the agent's are both its port's own.
  Stack(void* segment, const StackLimits& limits, std::uint16_t ether_type, StackPort& port,
        StackEnvironment& environment, const StackAddresses& addresses, std::uint64_t now);
  ~Stack();
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  // The capacity of every session's segment, which is layout::Offsets(capacity()).total bytes.
  layout::Capacity capacity() const;

  // Begins a session over a zeroed segment, whose header this fills in. The memory must stay mapped
  // until close_session(). Returns the session's number; nothing when all are in use.
  std::optional<std::uint32_t> open_session(void* segment);

  // The session's program has a stack of its own, which `address` reaches: connection requests for
  // which it has put up a notice in its segment are sent on to it.
  void delegate(std::uint32_t session, const MacAddress& address);

  // Ends a session: its connections are ended as by a disconnect, everything it held is free again.
  void close_session(std::uint32_t session, std::uint64_t now);

  // Another process attaches to a session. It has a copy of what the program with this id had
  // registered when Header::forks became `forks` (and of what that one had a copy of). Returns the
  // number by which the environment is to know it; nothing when there are too many. The first
  // process of a session, which goes by the session's number, has joined with open_session().
  std::optional<std::uint32_t> join(std::uint32_t session, std::uint32_t parent_id,
                                    std::uint32_t forks);
  std::uint32_t member_of(std::uint32_t program) const { return programs_[program].member; }
  std::uint32_t id_of(std::uint32_t program) const { return programs_[program].id; }

  // A process of a session has gone, also the first, while others are left. Its VIs are destroyed,
  // their connections ended as by a disconnect.
  void leave(std::uint32_t program, std::uint64_t now);

  // Does what there is to do at `now` (ns, monotonic): frames, doorbells, transmissions,
  // acknowledgements, timers. Returns the amount of work done, 0 when idle.
  unsigned progress(std::uint64_t now);

  // Answers a doorbell of a session without its having been rung: for a driver in the program.
  void rung(std::uint32_t session, std::uint32_t bit);

  // For a driver in the program, between two rounds: the message for the receive that is next to
  // complete goes to `to` instead, as far as it has not come yet. kNotDone: no, it is too late, or
  // there is no such receive. And takes that back: kSuccess: a message has gone there; kNotDone: none
  // has, and none will.
  vip::Return divert(std::uint32_t vi, std::uint32_t generation, const layout::Segment& to);
  vip::Return undivert(std::uint32_t vi, std::uint32_t generation);

  // Whether messages of this VI are on their way whose acknowledgement will come.
  bool awaits_acknowledgement(std::uint32_t vi) const {
    const state::Vi& sender = vis_[vi];
    return sender.state == vip::kConnected && sender.reliability != vip::kUnreliable &&
           sender.send_una != sender.send_next;
  }

  // Before sleeping: asks every program to ring the bell from now on. False (and nothing asked)
  // when there is work already. After sleeping: takes it back.
  bool prepare_to_sleep();
  void awake();

  // Answers one doorbell that the caller knows of (a bit number of layout::Doorbells): a program's
  // own thread that drives the stack itself need not ring for what it has just posted.

  // When progress() must be called next even if no frame and no doorbell comes; ~0 for never.
  std::uint64_t next_deadline() const;

  const StackCounters& counters() const { return root_->counters; }
  const StackLimits& limits() const { return limits_; }
  MacAddress address() const { return address_; }  // the source of our frames
  MacAddress host() const { return addresses_.host; }
  // Where connection requests to the own host go from now on.
  void set_desk(const MacAddress& desk) { addresses_.desk = desk; }
  std::uint32_t mtu() const { return mtu_; }

  // A connection that a stack has left behind.
  struct Remains {
    MacAddress peer;
    std::uint32_t vi;       // the peer's
    std::uint64_t key;      // that frames to it must carry
    std::uint32_t psn, ack;  // as a last DISCONNECT tells them
  };
  // What the dead stack of a program has not said goodbye to, as many as `out` has room for;
  // limits.vis + limits.goodbyes is always enough. `segment` (footprint(limits) bytes) may hold
  // nonsense and may change while it is read. Returns how many.
  static std::size_t remains(const void* segment, const StackLimits& limits,
                             std::span<Remains> out);

  // The last two hosts that answered to one name.
  struct NameConflict {
    char name[64] = {};  // NUL-terminated
    MacAddress first{}, second{};
  };
  const NameConflict& name_conflict() const { return name_conflict_; }
  // The same of one connection of a stack that may be at work: the one with this VI and key.
  static std::optional<Remains> connection(const void* segment, const StackLimits& limits,
                                           std::uint32_t vi, std::uint64_t key);
  // Grows at least every limits.keepalive_ns while somebody drives a stack that has a connection.
  static std::uint64_t beats(const void* segment, const StackLimits& limits);

  // What is in use now, for the counters' table and for tests that look for leaks.
  struct Usage {
    std::uint32_t sessions, vis, cqs, regions, ptags, peers, requests, goodbyes, held, connected,
        claims, members;
  };
  Usage usage() const;

 private:
  using ViIndex = std::uint32_t;
  struct Message;  // stack_send.cc: a work request that was checked

  // VI of a frame that is about a connection request.
  static constexpr std::uint32_t kToRequest = 0xffffffff;
  static constexpr std::uint32_t kBurst = 64;         // frames received at once
  static constexpr std::uint32_t kMaxReleases = 512;  // frames to give back at the end of a round
  static constexpr std::uint32_t kMaxWakes = 512;
  static constexpr std::uint32_t kMaxPieces = 256;    // collected before they are written
  // What a session may have done for it in a round, in work units: a queue entry that is flushed or
  // shown costs about one, 10 to 20 ns. A step that can't be divided may overdraw it, and the session
  // pays in the rounds that follow.
  static constexpr std::int32_t kRoundCredit = 512;
  static constexpr std::int32_t kCommandCost = 16;
  static constexpr std::int32_t kSystemCallCost = kRoundCredit;  // a claim, memory copied

  // --- stack.cc
  // Offsets of the segment's parts.
  struct Parts {
    std::size_t root, sessions, programs, vis, cqs, regions, ptags, peers, requests, goodbyes, claims, held,
        pendings, attempts, in_flight, resent_marks, responses, key_buckets, peer_buckets, request_buckets,
        goodbye_buckets, wheel, timers, views, open_sessions, total;
  };
  static Parts parts(const StackLimits& limits);
  inline unsigned receive_frames();
  inline unsigned answer_doorbells();
  void fire(std::uint32_t timer);
  inline void flush_wakes();
  inline void wake_later(std::uint32_t program, std::atomic<std::uint32_t>& sleepers);
  void alert(std::uint32_t program);
  inline void dispatch(const Frame& frame, bool& keep);
  inline void release_later(const Frame& frame);
  void release_all();

  // Timer numbers.
  std::uint32_t vi_timer(ViIndex vi) const { return vi; }
  std::uint32_t request_timer(std::uint32_t r) const { return limits_.vis + r; }
  std::uint32_t goodbye_timer(std::uint32_t g) const { return limits_.vis + limits_.requests + g; }
  std::uint32_t peer_timer(std::uint32_t p) const {
    return limits_.vis + limits_.requests + limits_.goodbyes + p;
  }
  std::uint32_t command_timer(std::uint32_t session, std::uint32_t command) const {
    return limits_.vis + limits_.requests + limits_.goodbyes + limits_.peers +
           session * layout::kCommands + command;
  }
  std::uint32_t notice_timer() const { return command_timer(limits_.sessions, 0); }
  std::uint32_t timers() const { return notice_timer() + 1; }

  // --- stack_commands.cc
  void run_command(std::uint32_t session, std::uint32_t command);
  void finish(std::uint32_t session, std::uint32_t command, vip::Return result);
  void finish(std::uint32_t session, std::uint32_t command, vip::Return result,
              const layout::CommandBody& body);
  void command_timeout(std::uint32_t session, std::uint32_t command);
  void cancel_command(std::uint32_t session, std::uint32_t command, vip::Return result);
  vip::Return create_ptag(std::uint32_t session, layout::CommandBody& body);
  vip::Return destroy_ptag(std::uint32_t session, const layout::CommandBody& body);
  bool charge_region(std::uint32_t session, std::uint64_t bytes);
  void discharge_region(std::uint32_t session, std::uint64_t bytes);
  vip::Return register_memory(std::uint32_t program, layout::CommandBody& body);
  vip::Return deregister_memory(std::uint32_t program, const layout::CommandBody& body);
  vip::Return create_vi(std::uint32_t program, layout::CommandBody& body);
  vip::Return destroy_vi(std::uint32_t session, const layout::CommandBody& body);
  vip::Return create_cq(std::uint32_t program, layout::CommandBody& body);
  vip::Return destroy_cq(std::uint32_t session, const layout::CommandBody& body);
  vip::Return check_attributes(std::uint32_t session, const layout::ViAttributes& attributes) const;
  state::Ptag* find_ptag(std::uint32_t session, std::uint32_t handle) const;
  inline state::Region* find_region(std::uint32_t program, std::uint32_t handle) const;
  state::Region* own_region(std::uint32_t program, const layout::CommandBody& body) const;
  state::Vi* find_vi(std::uint32_t session, std::uint32_t vi, std::uint32_t generation) const;
  state::Cq* find_cq(std::uint32_t session, std::uint32_t cq, std::uint32_t generation) const;
  void free_vi(ViIndex vi);
  void free_region(state::Region& region);
  void free_cq(std::uint32_t cq);
  void hold_ptag(std::uint32_t session, std::uint32_t handle, int change);
  static layout::ViAttributes attributes_of(const state::Vi& vi);

  vip::Return set_vi(std::uint32_t session, const layout::CommandBody& body);
  vip::Return query_memory(std::uint32_t program, layout::CommandBody& body) const;
  vip::Return set_memory(std::uint32_t program, const layout::CommandBody& body);
  vip::Return resize_cq(std::uint32_t session, const layout::CommandBody& body);

  // --- stack_family.cc
  void begin_program(std::uint32_t program, std::uint32_t session, std::uint32_t member);
  std::uint32_t program_of(std::uint32_t session, std::uint32_t member) const;
  bool inherits(std::uint32_t program, const state::Region& region) const;
  vip::Return take_vi(std::uint32_t program, const layout::CommandBody& body);
  vip::Return may_take(std::uint32_t program, const layout::CommandBody& body) const;
  bool copy_received(const state::Vi& vi, const state::Vi& heir, std::uint32_t slot,
                     std::uint32_t length, std::uint64_t& budget);
  bool hand_over_received(const state::Vi& vi, const state::Vi& heir);
  void drop_commands(std::uint32_t program);
  void drop_requests(std::uint32_t session, std::uint32_t program);
  void free_locks(std::uint32_t program);
  void free_lock(std::atomic<std::uint32_t>& lock, std::uint32_t member);
  void forget_program(std::uint32_t program);

  // --- stack_stopped.cc
  bool is_granted(const state::Peer& peer) const { return peer.host != peer.address; }
  bool is_excused(const state::Peer& peer) const;
  bool may_be_stopped(const state::Peer& peer) const;
  void ask_whether_stopped(ViIndex vi);
  void on_stopped_query(const wire::Decoded& query);
  void on_stopped_reply(const wire::Decoded& reply);
  void send_stopped(wire::Type type, const MacAddress& to, std::uint32_t vi, std::uint64_t key,
                    const MacAddress& whose);

  // --- stack_peer.cc
  vip::Return peer_request(std::uint32_t session, const layout::CommandBody& body);
  vip::Return peer_done(std::uint32_t session, layout::CommandBody& body);
  void peer_wait(std::uint32_t session, std::uint32_t command, layout::CommandBody& body);
  bool on_peer_request(const wire::Decoded& frame, const wire::ConnectBody& body);
  void meet_peer(ViIndex vi, const MacAddress& source, const wire::ConnectBody& body);
  bool awaits(ViIndex vi, const wire::ConnectBody& body) const;
  void end_peer_attempt(ViIndex vi, vip::Return result);
  void meet_held_peer(ViIndex vi);
  void leave_peer(ViIndex vi);
  void put_up_peer_notice(ViIndex vi);
  void list_peer_attempt(ViIndex vi);
  void unlist_peer_attempt(ViIndex vi);

  // --- stack_requests.cc
  std::uint32_t find_request(const MacAddress& source, const wire::ConnectBody& body) const;
  state::Request* request_of_handle(std::uint32_t session, std::uint32_t handle);
  std::uint32_t request_bucket(std::uint64_t key) const;
  std::uint32_t new_request();
  void hold_request(std::uint32_t request, const MacAddress& source, const wire::ConnectBody& body,
                    bool proven);
  std::uint64_t cookie(const MacAddress& source, const wire::ConnectBody& body,
                       std::uint64_t epoch) const;
  bool is_proven(const wire::Decoded& frame, const wire::ConnectBody& body) const;
  void note_proven(state::Request& request);
  bool must_prove() const { return now_ < root_->proof_until; }
  void suspect();
  void ask_for_proof(const MacAddress& source, const wire::ConnectBody& body);
  void send_moved(const MacAddress& source, const wire::ConnectBody& body, const MacAddress& to,
                  std::uint64_t cookie);
  void forget_unproven(const state::Request& request);
  state::RequestList& list_of(const state::Request& request);
  void append_request(std::uint32_t request);
  void remove_request(std::uint32_t request);
  void touch_request(std::uint32_t request);
  void drop_request(std::uint32_t request);
  void release_request(std::uint32_t request);
  void bury_request(std::uint32_t request);
  void request_timeout(std::uint32_t request);

  // --- stack_connect.cc
  void connect_wait(std::uint32_t session, std::uint32_t command, const layout::CommandBody& body);
  void connect_accept(std::uint32_t session, std::uint32_t command,
                      const layout::CommandBody& body);
  vip::Return connect_reject(std::uint32_t session, const layout::CommandBody& body);
  void connect_request(std::uint32_t session, std::uint32_t command,
                       const layout::CommandBody& body);
  vip::Return disconnect(std::uint32_t session, const layout::CommandBody& body);
  void unlisten(std::uint32_t session, std::uint32_t command);
  void on_connect_request(const wire::Decoded& frame);
  void on_connect_accept(const wire::Decoded& frame);
  void on_connect_confirm(const wire::Decoded& frame);
  void on_connect_answer(const wire::Decoded& frame);  // reject, held, moved
  void on_disconnect(const wire::Decoded& frame);
  void on_disconnect_ack(const wire::Decoded& frame);
  void on_reset(const wire::Decoded& frame);
  void on_probe(const wire::Decoded& frame);
  void send_connect_requests(ViIndex vi);
  void send_connect_request(ViIndex vi, state::Asked& to);
  void send_connect_accept(ViIndex vi);
  void send_request_answer(const state::Request& request, wire::Type type, std::uint32_t detail);
  void send_goodbye(std::uint32_t goodbye);
  void send_reset(const wire::Decoded& offending);
  void send_short(wire::Type type, const MacAddress& to, std::uint32_t vi, std::uint64_t key,
                  std::uint32_t psn, std::uint32_t ack, std::uint32_t immediate,
                  std::uint32_t offset = 0);
  void attempt_timeout(ViIndex vi);
  void goodbye_timeout(std::uint32_t goodbye);
  void peer_timeout(std::uint32_t peer);
  void watch_peer(std::uint32_t peer, std::uint64_t until);
  ViIndex probe(std::uint32_t peer);
  void deliver_request(std::uint32_t request, std::uint32_t session, std::uint32_t command);
  void begin_attempt(ViIndex vi);
  void fail_attempt(ViIndex vi, vip::Return result);
  bool link(ViIndex vi, const MacAddress& peer, const wire::ConnectBody& body);
  void unlink(ViIndex vi);
  void establish(ViIndex vi);
  void reset_transfer(ViIndex vi);
  void say_goodbye(const state::Vi& vi, std::uint32_t psn, std::uint32_t reason);
  // By our program, because it is gone itself, by the peer's, by loss of the peer, by an error that
  // the peer is told of.
  enum class End { kLocal, kGone, kRemote, kLost, kFailed };
  void report_end(ViIndex vi, End end, std::uint32_t error);
  void end_connection(ViIndex vi, End end, std::uint32_t error, std::uint32_t refused_psn = 0,
                      std::uint32_t reason = 0);
  std::uint32_t find_peer(const MacAddress& address, bool create);
  ViIndex find_by_peer_key(const MacAddress& source, std::uint32_t peer_vi,
                           std::uint64_t key) const;
  void set_state(ViIndex vi, vip::State state);

  // --- stack_redirect.cc
  // Which stack of a host has accepted a request for a discriminator that the host itself would
  // have sent on. Only a guess: the entry that another one has taken is forgotten.
  struct Way {
    MacAddress host, stack;
    std::uint32_t discriminator;  // a hash
  };
  static constexpr std::uint32_t kWays = 64;
  Way& way_of(ViIndex vi, std::uint32_t& discriminator);
  void ask_known_way(ViIndex vi);
  void remember_way(ViIndex vi, const MacAddress& accepted_by);
  void begin_asking(ViIndex vi);
  state::Asked* find_asked(ViIndex vi, const MacAddress& address);
  state::Asked* ask_too(ViIndex vi, const MacAddress& address);
  void on_moved(ViIndex vi, const wire::Decoded& frame);
  void prove(ViIndex vi, const MacAddress& to, std::uint64_t cookie);
  void forget_asked(ViIndex vi, const MacAddress& address);
  void take_back(ViIndex vi);
  vip::Return unanswered(ViIndex vi) const;
  bool move_request(const MacAddress& source, const wire::ConnectBody& body);
  bool has_notice(std::uint32_t session, const wire::ConnectBody& body);
  void move_held_requests();
  void count_held(int change);
  MacAddress way_to(const MacAddress& host) const;

  // --- stack_send.cc
  inline void ring_send(ViIndex vi);
  inline void make_ready(ViIndex vi);
  inline unsigned transmit_ready();
  inline void transmit_session(std::uint32_t session, unsigned& sent);
  inline void list_ready(std::uint32_t session);
  inline bool transmit(ViIndex vi, unsigned& sent);
  inline bool begin_message(ViIndex vi, Message& message);
  bool begin_response(ViIndex vi, Message& message);
  inline bool more_to_send(ViIndex vi) const;
  inline std::uint32_t load_current(const state::Vi& vi, std::uint32_t current, Message& out) const;
  std::uint32_t response_with(ViIndex vi, std::uint32_t psn);
  inline void complete_acknowledged(ViIndex vi);
  inline std::uint32_t load_message(const state::Vi& vi, std::uint32_t slot, Message& out) const;
  inline bool next_posted(const state::Vi& vi, const layout::RingEntry* ring,
                          std::uint32_t position, std::uint32_t& slot) const;
  enum class Sent { kAll, kSome, kUnreadable };
  Sent send_frames(ViIndex vi, const Message& message, std::uint32_t first_frame,
                   std::uint32_t first_psn, unsigned count, bool ask, unsigned& sent);
  bool retransmit(ViIndex vi, unsigned& sent);
  void finish_unreliable(ViIndex vi);
  inline std::uint32_t send_room(const state::Vi& vi) const;
  inline void fill_header(state::Vi& vi, wire::Header& header);
  void note_refusal(ViIndex vi, std::uint32_t psn, std::uint32_t index, std::uint32_t reason);
  bool may_pack(const state::Vi& vi, const Message& message) const;
  bool send_packed(ViIndex vi, const Message& first, std::uint32_t room, bool& more);
  Sent resend_packed(ViIndex vi, std::uint32_t position, bool ask, std::uint32_t& failed,
                     std::uint32_t& error);
  void submit_packed(ViIndex vi, Frame& frame, std::uint32_t psn, std::size_t bytes, bool ask);
  bool shares_frame(ViIndex vi, std::uint32_t position, std::uint32_t psn);
  inline void note_sent(ViIndex vi);
  void fail_current(ViIndex vi, std::uint32_t slot, std::uint32_t status);
  bool rdma_allowed(const state::Vi& vi, std::uint64_t address, std::uint32_t handle,
                    std::uint64_t length, bool write) const;
  inline bool span_allowed(const state::Vi& vi, std::uint64_t address, std::uint32_t handle,
                    std::uint64_t length) const;

  // --- stack_receive.cc
  inline void on_data(const wire::Decoded& frame, const Frame& raw, bool& keep);
  inline void on_reliable_data(ViIndex vi, const wire::Decoded& frame, const Frame& raw,
                               bool& keep);
  void on_unreliable_data(ViIndex vi, const wire::Decoded& frame);
  inline bool take_in_order(ViIndex vi, const wire::Header& header,
                            std::span<const std::byte> payload);
  void drain_held(ViIndex vi);
  void drop_held(ViIndex vi);
  void hold(ViIndex vi, std::uint32_t psn, const Frame& raw, bool& keep);
  struct Target;  // a posted receive, copied from its slot
  inline bool load_target(const state::Vi& vi, std::uint32_t slot, std::uint32_t skip,
                          Target& out) const;
  inline bool fits(const state::Vi& vi, const wire::Header& header,
            std::span<const std::byte> payload) const;
  inline bool take_send(ViIndex vi, const wire::Header& header, std::span<const std::byte> payload);
  inline void begin_message_in(state::Vi& vi, const wire::Header& header);
  void place_at(ViIndex vi, std::uint64_t address, std::span<const std::byte> data, bool last);
  inline void begin_placing(ViIndex vi, std::span<const std::byte> data);
  inline void place_piece(std::uint64_t address, std::uint64_t length);
  inline bool take_receive(ViIndex vi);
  inline bool begin_receive(ViIndex vi, const wire::Header& header, Target& target);
  inline void place(ViIndex vi, const Target& target, std::uint32_t offset,
             std::span<const std::byte> payload);
  bool take_packed(ViIndex vi, const wire::Header& header, std::span<const std::byte> payload);
  bool take_rdma_write(ViIndex vi, const wire::Header& header, std::span<const std::byte> payload);
  bool take_read_request(ViIndex vi, const wire::Header& header,
                         std::span<const std::byte> payload);
  void finish_read(ViIndex vi, state::InFlight& read);
  bool take_read_response(ViIndex vi, const wire::Header& header,
                          std::span<const std::byte> payload);
  bool refuse(ViIndex vi, std::uint32_t psn, std::uint32_t error, wire::Refusal reason);
  inline bool place_inline(ViIndex vi, const wire::Header& header,
                           std::span<const std::byte> payload);
  inline bool allowed(const state::Vi& vi, const Target& target, std::uint32_t length) const;
  inline bool descriptor_allowed(const state::Vi& vi, const Target& target) const;
  inline bool end_receive(ViIndex vi, const wire::Header& header, std::uint32_t inline_length);
  bool spoil_receive(ViIndex vi, std::uint32_t psn, std::uint32_t status, wire::Refusal reason);
  bool flush_placement();

  // --- stack_divert.cc
  static void diverted(const state::Vi& vi, Target& out);
  void begin_diverted(state::Vi& vi, std::uint32_t length, Target& target);
  static bool receives_in_part(const state::Vi& vi);
  bool move_received(const state::Vi& vi, const Target& from, const Target& to);

  // --- stack_ack.cc
  void on_ack(const wire::Decoded& frame);
  inline void take_ack(ViIndex vi, std::uint32_t ack, std::uint16_t window);
  void take_sack(ViIndex vi, std::uint32_t ack, std::span<const std::byte> bitmap);
  inline void note_ack_due(ViIndex vi, bool now);
  inline unsigned send_due_acks();
  void send_ack(ViIndex vi);
  void note_resend_delivered(ViIndex vi, std::uint32_t psn);
  void retransmission_timeout(ViIndex vi);
  void restart_timer(ViIndex vi);
  std::uint64_t timer_due(const state::Vi& vi) const;
  std::uint64_t retransmission_time(const state::Vi& vi) const;
  inline std::uint16_t receive_window() const;

  // --- stack_credit.cc
  std::uint32_t credit_room() const;
  std::uint16_t standing_credit() const {
    return static_cast<std::uint16_t>(root_->credit_standing);
  }
  void share_standing_credit(int change);
  void tell_credit(ViIndex vi);
  inline std::uint16_t credit_for(const state::Vi& vi) const;
  void give_credit(ViIndex vi);
  static inline void begin_credit(state::Vi& vi, std::uint16_t standing, std::uint64_t now);
  static inline bool asks_for_credit(state::Vi& vi, std::uint32_t room, std::uint32_t frames);
  inline void take_credit(ViIndex vi, std::uint32_t ack, std::uint16_t window);
  inline void renew_credit(state::Vi& vi);
  void await_credit(ViIndex vi);
  void credit_timeout(ViIndex vi);

  // --- stack_congestion.cc
  static void measure_rtt(state::Vi& vi, std::uint64_t sample, bool doubtful);
  static void begin_window(state::Vi& vi);
  static inline void widen_window(state::Vi& vi, std::uint32_t acknowledged);
  static void narrow_window(state::Vi& vi, std::uint32_t lost);
  static bool queue_is_filled(const state::Vi& vi);
  static std::uint32_t window_behind_gap(const state::Vi& vi);
  static void halve_window(state::Vi& vi);

  // --- stack_complete.cc
  inline void complete(ViIndex vi, bool receive, std::uint32_t slot, std::uint32_t status,
                std::uint32_t length, std::uint32_t immediate, std::uint32_t inline_length);
  inline void publish(ViIndex vi, bool receive, std::uint32_t slot, std::uint32_t status,
                      std::uint32_t length, std::uint32_t immediate, std::uint32_t inline_length);
  unsigned complete_late();
  bool await_read(ViIndex vi);
  void announce(ViIndex vi, bool receive);
  inline bool show(ViIndex vi, bool receive);
  state::WorkQueue& listed_queue(std::uint32_t listed) {
    return listed % 2 != 0 ? vis_[listed / 2].receive : vis_[listed / 2].send;
  }
  void await_room(std::uint32_t cq);
  void drain_backlog(std::uint32_t cq);
  void leave_backlog(ViIndex vi, bool receive);
  void flush_queues(ViIndex vi, std::uint32_t most = layout::kRingEntries);
  void flush_sends(ViIndex vi, std::uint32_t most = layout::kRingEntries);
  void flush_receives(ViIndex vi, std::uint32_t most = layout::kRingEntries);
  void charge_flushed(ViIndex vi, std::uint32_t flushed, std::uint32_t most);

  // What an asynchronous error is about, besides the VI.
  struct Blame {
    std::uint64_t descriptor;  // address in the program, 0: none
    std::uint32_t op;          // layout::SlotOp
    std::uint8_t flags;        // layout::kEvent*
  };
  // Queues an asynchronous error for the VI's program.
  void report(ViIndex vi, std::uint32_t error, const Blame& blame = Blame());

  // --- stack_names.cc
  void host_by_name(std::uint32_t session, std::uint32_t command, const layout::CommandBody& body);
  void host_by_address(std::uint32_t session, std::uint32_t command,
                       const layout::CommandBody& body);
  void discover(std::uint32_t session, std::uint32_t command, const layout::CommandBody& body);
  void ask_names(std::uint32_t session, std::uint32_t command);
  vip::Return discovered(std::uint32_t session, layout::CommandBody& body) const;
  void on_name_query(const wire::Decoded& frame);
  void on_name_reply(const wire::Decoded& frame);
  void note_second_answer(const state::Pending& answered, const MacAddress& source);

  // --- stack_claims.cc
  vip::Return claim(std::uint32_t session, layout::CommandBody& body);
  vip::Return unclaim(std::uint32_t session, const layout::CommandBody& body);
  void verify(std::uint32_t session, std::uint32_t command, const layout::CommandBody& body);
  state::Claim* find_claim(const ClaimToken& token);
  void free_claim(state::Claim& claim);
  bool vouches(const Flow& flow, const ClaimToken& token);
  void ask_about_claim(std::uint32_t session, std::uint32_t command);
  void send_claim(wire::Type type, const MacAddress& to, const wire::ClaimBody& body);
  void on_claim_query(const wire::Decoded& frame);
  void on_claim_reply(const wire::Decoded& frame);

  inline state::Vi* vi_for(const wire::Decoded& frame, bool pending_too = false);
  const layout::View& view(const state::Vi& vi) const { return views_[vi.program]; }
  state::Pending& pending(std::uint32_t session, std::uint32_t command) {
    return pendings_[std::size_t{session} * layout::kCommands + command];
  }
  state::InFlight& in_flight(ViIndex vi, std::uint32_t position) {
    return in_flight_[std::size_t{vi} * state::kWindow + position % state::kWindow];
  }
  state::Response& response(ViIndex vi, std::uint32_t number) {
    return responses_[std::size_t{vi} * state::kMaxReads + number % state::kMaxReads];
  }
  std::uint32_t& resent_mark(ViIndex vi, std::uint32_t psn) {
    return resent_marks_[std::size_t{vi} * state::kWindow + psn % state::kWindow];
  }
  Frame& held_frame(ViIndex vi, std::uint32_t psn) {
    return held_frames_[std::size_t{vi} * state::kWindow + psn % state::kWindow];
  }
  bool reachable(const MacAddress& address) const;
  bool reserve_frame(Frame& frame);
  void submit_frame(Frame& frame, std::size_t length);

  StackLimits limits_;
  StackPort& port_;
  StackEnvironment& environment_;
  MacAddress address_;
  StackAddresses addresses_;
  std::uint32_t mtu_;
  std::uint16_t ether_type_;
  std::uint64_t now_;

  // The segment's parts.
  state::Root* root_;
  state::Session* sessions_;
  state::Program* programs_;         // of sessions, then of those that have attached:
  Pool<state::Program> members_;
  Pool<state::Vi> vis_;
  Pool<state::Cq> cqs_;
  Pool<state::Region> regions_;
  Pool<state::Ptag> ptags_;
  Pool<state::Peer> peers_;
  Pool<state::Request> requests_;
  Pool<state::Goodbye> goodbyes_;
  Pool<state::Claim> claims_;
  state::Pending* pendings_;
  state::Attempt* attempts_;
  state::InFlight* in_flight_;
  std::uint32_t* resent_marks_;
  state::Response* responses_;
  Frame* held_frames_;               // kept by VI and PSN
  std::uint32_t* key_buckets_;       // VIs by peer key
  std::uint32_t* peer_buckets_;      // peers by address
  std::uint32_t* request_buckets_;   // requests by the requester's key
  std::uint32_t* goodbye_buckets_;   // goodbyes by the peer's key
  TimerWheel wheel_;

  // Where the segments are mapped, by program (sessions have the numbers of their first ones), and
  // which sessions are open: for this process alone.
  layout::View* views_;
  std::uint32_t* open_sessions_;
  std::uint32_t open_count_ = 0;

  // Scratch space.
  struct Wake {
    std::atomic<std::uint32_t>* word;
    std::uint32_t program;
  };
  // Data on its way to a program.
  struct Placement {
    iovec remote[kMaxPieces], local[kMaxPieces];
    std::uint32_t remotes = 0, locals = 0;
  };
  std::int32_t credit_ = 0;  // of the session whose doorbells are answered
  std::uint32_t packed_index_ = 0;  // of the message that is being taken, in its frame
  ViIndex placing_ = state::kNone;   // VI that placement_ holds data for
  std::uint32_t wake_count_ = 0;
  std::uint32_t release_count_ = 0;
  std::uint32_t held_limit_;
  std::uint32_t key_bucket_mask_;
  bool submitted_ = false;
  NameConflict name_conflict_;
  Way ways_[kWays] = {};
  std::uint64_t claim_epoch_ = 0;     // bounds answers about claims
  std::uint32_t claims_in_epoch_ = 0;
  // Bounds what is sent in a millisecond to whoever asks for it.
  bool may_answer();
  std::uint64_t answer_epoch_ = 0;
  std::uint32_t answers_in_epoch_ = 0;
  Placement placement_;
  Frame burst_[kBurst];
  Frame to_release_[kMaxReleases];
  Wake wakes_[kMaxWakes];
};

}  // namespace VIADUCT_STACK_BUILD
}  // namespace viaduct

#endif
