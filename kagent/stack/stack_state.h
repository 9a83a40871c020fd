// What a stack remembers. All of it lies in one segment of fixed size, refers to other parts by
// index, and is written by the driver alone. Nothing here is ever visible to a program.
#ifndef VIADUCT_KAGENT_STACK_STACK_STATE_H
#define VIADUCT_KAGENT_STACK_STACK_STATE_H

#include <cstdint>

#include "kagent/stack/counters.h"
#include "kagent/contract/session_layout.h"
#include "kagent/contract/stack_limits.h"
#include "kagent/stack/timer_wheel.h"
#include "kagent/contract/wire.h"
#include "xdp/port.h"

namespace viaduct {

namespace state {

inline constexpr std::uint32_t kNone = 0xffffffff;
inline constexpr std::uint32_t kBuckets = 1024;     // of peers, requests and goodbyes each
inline constexpr std::uint32_t kBucketMask = kBuckets - 1;
// Handles of what may go away: index + 1 in the low bits, so never 0; generation above.
inline constexpr std::uint32_t kHandleBits = 20;
// The answer to an RDMA read has come but is not yet in the program's memory; is there.
inline constexpr std::uint16_t kReadWritten = 2, kReadDone = 1;
inline constexpr std::uint32_t kWindow = wire::kSackBits;  // frames in flight on a VI at most

// One bit for each PSN in flight, at psn % kWindow.
struct PsnSet {
  std::uint64_t words[kWindow / 64];

  bool has(std::uint32_t psn) const { return words[psn % kWindow / 64] >> (psn % 64) & 1; }
  void add(std::uint32_t psn) { words[psn % kWindow / 64] |= 1ull << (psn % 64); }
  void remove(std::uint32_t psn) { words[psn % kWindow / 64] &= ~(1ull << (psn % 64)); }
  bool empty() const { return (words[0] | words[1] | words[2] | words[3]) == 0; }
  void clear() { words[0] = words[1] = words[2] = words[3] = 0; }
};

struct Session {
  std::uint32_t in_use;
  // The driver's work for it, see stack.cc and stack_send.cc. Stays when the session is over.
  std::int32_t credit;       // what the last round has left it, or it owes
  std::uint32_t bell_from;   // the doorbell to go on with
  std::uint32_t ready_head, ready_tail;  // VIs that may send
  std::uint32_t ready_next;  // among the sessions that have such
  std::uint32_t ready_listed;
  std::uint32_t vis, cqs, regions, claims;  // held now
  std::uint64_t registered_bytes;
  std::uint32_t discovered_count;
  MacAddress discovered[layout::kMaxDiscovered];
  MacAddress delegate;              // its program's own stack, if `delegated`
  std::uint32_t delegated;
  std::uint32_t programs[layout::kMembers + 1];  // by member; kNone: there is no such
};

// A process that uses a session. The first one of a session has the session's number, those that have
// attached have numbers from limits.sessions on. Memory means that of a program.
struct Program {
  std::uint32_t session;   // kNone: free
  std::uint32_t member;    // its number in the session
  std::uint32_t id;        // no two have the same
  std::uint32_t errors;    // error events that were appended so far
  std::uint32_t parent;    // whose registrations it has a copy of; kNone: nobody's
  std::uint32_t forks;     // ... those that were made before Header::forks was this
  std::uint32_t heirs;     // programs whose parent it is
  std::uint32_t gone;      // 1: the process has; what it registered is kept for the heirs
  std::uint32_t next_free;
};

struct Region {
  std::uint32_t handle;   // 0: free
  std::uint32_t program;
  std::uint64_t address;
  std::uint64_t length;
  std::uint32_t ptag;
  std::uint8_t enable_write;
  std::uint8_t enable_read;
  std::uint16_t generation;
  std::uint32_t forks;    // Header::forks when it was registered
  std::uint32_t next_free;
};

struct Ptag {
  std::uint32_t session;  // kNone: free
  std::uint32_t generation;
  std::uint32_t users;    // VIs and regions that bear it
  std::uint32_t next_free;
};

// A message between its first transmission and its completion.
struct InFlight {
  std::uint32_t slot;
  std::uint32_t first_psn;
  std::uint32_t frames;
  std::uint32_t length;
  std::uint16_t op;          // layout::SlotOp
  std::uint16_t read_done;   // RDMA read: kReadDone when all of the answer is in place
};

// An RDMA read that the peer has asked for and that is being answered.
struct Response {
  std::uint64_t address;
  std::uint32_t handle;
  std::uint32_t length;
  std::uint32_t first_psn;
  std::uint32_t frames;      // 0: the answer has not begun
};
inline constexpr std::uint32_t kMaxReads = 16;  // of one VI under way at once
inline constexpr std::uint32_t kResponse = 0x80000000;  // current_slot names a Response

struct WorkQueue {
  std::uint32_t taken;      // ring position of the next work request to begin
  std::uint32_t completed;  // ring position of the next one to complete
  std::uint32_t announced;  // completions that the CQ's ring has had so far
  std::uint32_t cq;         // kNone: none
  std::uint32_t backlog_next;  // in the CQ's backlog; kNone: last, kNotListed: not in it
  std::uint32_t backlog_previous;
};
inline constexpr std::uint32_t kNotListed = 0xfffffffe;

// Membership of a VI in the driver's to-do lists.
inline constexpr std::uint8_t kOnReadyList = 1;
inline constexpr std::uint8_t kOnAckList = 2;

// Of the receive that is next to complete; see stack_divert.cc.
enum class Divert : std::uint8_t { kNone, kPending, kUsed };

// What has been seen of the network's losses.
enum class Losses : std::uint8_t { kNone, kLink, kQueue };

// Of 512 bytes, so that finding one is a shift.
struct alignas(64) Vi {
  // --- identity and attributes
  std::uint32_t session;     // kNone: free
  std::uint32_t generation;
  std::uint32_t program;     // that uses it: whose memory descriptors mean
  std::uint32_t ptag;
  std::uint32_t max_transfer;
  std::uint16_t reliability;
  std::uint8_t enable_write;
  std::uint8_t enable_read;
  std::uint32_t state;       // vip::State
  std::uint32_t next_free;

  // --- connection
  std::uint64_t local_key;
  std::uint64_t peer_key;
  std::uint32_t peer_vi;
  std::uint32_t peer;        // index of the peer record; kNone: none
  MacAddress peer_address;
  std::uint16_t payload;     // bytes of payload in a full frame
  std::uint32_t peer_next, peer_previous;  // VIs of the same peer
  std::uint32_t key_next;    // VIs in the same bucket of peer keys
  std::uint32_t request;     // own attempt's number, or the request being accepted
  std::uint32_t remote_request;  // the number that the peer gave its attempt
  std::uint32_t command;     // session's command that waits for the connection; kNone: none
  std::uint16_t credit;      // Unreliable Delivery: frames that the peer always has room for; 0: it
                             // does not say
  std::uint16_t credit_given;        // to the peer, when it last asked
  std::uint32_t credit_epoch;        // when that was
  std::uint32_t credit_grown;        // PSN awaited when it last became more
  std::uint32_t notice;      // of a peer to peer attempt; kNoNotice: none
  std::uint64_t connect_deadline;
  std::uint8_t accepting;    // 1: we are the accepting side of a pending connection
  std::uint8_t peer_to_peer; // 1: from PeerRequest until its result is fetched
  std::uint8_t peer_linked;  // 1: the other half of the peer to peer connection is known
  std::uint8_t attempts;
  std::uint32_t peer_result; // vip::kNotDone, or how the attempt ended
  std::uint8_t listed;       // kOn...List
  std::uint8_t checked;      // data has checksums
  Losses losses;

  // --- sending
  WorkQueue send;
  std::uint32_t send_una;    // oldest PSN not acknowledged
  std::uint32_t send_next;   // next PSN to send
  std::uint32_t current_slot;     // message being sent, or kResponse + number; kNone: none
  std::uint32_t credit_asked;     // Unreliable Delivery: PSN behind the last frame that asked for credit
  std::uint32_t current_frames;
  std::uint32_t current_sent;     // frames of it sent
  std::uint16_t congestion_window;  // frames
  std::uint16_t peer_window;        // frames
  std::uint16_t window_credit;      // acknowledged frames since the window last grew
  std::uint8_t window_debt;         // of losses, in quarters of a frame
  std::uint8_t stalled;             // there is something to send that must wait for the peer
  std::uint16_t resends;            // so far, all frames together
  std::uint16_t resends_delivered;  // the newest of them that is known to have arrived
  PsnSet sacked;
  PsnSet lost;               // to be sent again
  PsnSet resent;             // resent_mark is valid
  std::uint64_t sample_time;  // when sample_psn was sent; 0: no sample under way
  std::uint32_t sample_psn;
  std::uint32_t timeouts;     // in a row
  std::uint32_t smoothed_rtt;  // ns; 0: none measured yet
  std::uint32_t rtt_variation;
  std::uint32_t least_rtt;     // what it is without queues, as far as we have seen; 0: no idea
  std::uint32_t ready_next;
  std::uint64_t sent_time;      // when a frame was last sent for the first time
  std::uint64_t progress_time;  // when one was last acknowledged, or the timer last ran out
  std::uint32_t reads;            // RDMA reads begun and not answered
  std::uint32_t response_first;   // responses [first, next) wait for being sent or acknowledged
  std::uint32_t response_next;
  std::uint32_t response_begun;   // of these, the next one to begin
  std::uint32_t failed_slot;    // the send that ended the connection, and how; kNone: none
  std::uint32_t failed_status;

  // --- receiving
  WorkQueue receive;
  std::uint32_t receive_next;    // PSN awaited
  std::uint32_t receive_slot;    // receive in use by the current message; kNone: none
  std::uint32_t message_length;  // of the message being received
  std::uint32_t message_received;
  std::uint32_t message_op;      // wire::kOp*
  std::uint8_t in_message;       // a first frame has come, the last one not
  std::uint8_t receive_failed;
  Divert divert;
  std::uint32_t rdma_handle;     // RDMA write: where the message goes
  std::uint64_t rdma_address;
  std::uint64_t divert_address;
  std::uint32_t divert_handle;
  std::uint32_t divert_length;
  std::uint32_t held_count;      // frames kept in their port buffers until a gap is filled
  PsnSet received;               // which: PSNs beyond receive_next

  // --- acknowledging
  std::uint32_t unacknowledged;  // frames taken since the last acknowledgement was sent
  std::uint8_t ack_now;          // the peer waits, or there is a gap to report
  std::uint8_t ack_gap;
  std::uint8_t replied;          // data has gone back since ack_time
  std::uint8_t reply_score;      // how sure it is that data goes back soon
  std::uint64_t ack_time;        // when the peer last asked for an acknowledgement
  std::uint64_t acked_at;        // when the last acknowledgement of its own was sent
  std::uint64_t ack_deadline;
  std::uint32_t ack_next;
};
static_assert(sizeof(Vi) == 512);

struct Cq {
  std::uint32_t session;     // kNone: free
  std::uint32_t program;     // that uses it, and so all VIs with it
  std::uint32_t generation;
  std::uint32_t entries;     // as asked for
  std::uint32_t tail;        // ring position of the next entry
  std::uint32_t users;       // work queues attached
  std::uint32_t backlog_head, backlog_tail;  // vi * 2 + (receive queue)
  std::uint32_t next_free;
};

struct Peer {
  MacAddress address;
  std::uint8_t in_use;
  std::uint32_t probe_next;  // the VI whose turn it is; kNone: the head's
  std::uint32_t vis;         // head of its VIs
  std::uint32_t count;
  std::uint32_t hash_next;
  std::uint32_t next_free;
  std::uint64_t last_heard;
  std::uint64_t due;         // when its timer should fire
  std::uint64_t vouched;     // when its host last said that the program is stopped; 0: never
  MacAddress host;           // whose agent knows; its own address: it is an agent itself
};

// A stack that a connection request was sent to.
enum class Answer : std::uint8_t {
  kNone,
  kHeld,   // it keeps the request, nobody waits
  kTaken,  // a program there has it
};

struct Asked {
  MacAddress address;
  Answer answer;
  std::uint8_t unanswered;  // requests sent since it last said something
  std::uint8_t may_keep;    // it may have kept the request
  std::uint64_t cookie = 0; // that it wants to see in the request
};

inline constexpr std::uint32_t kMaxAsked = 4;

// A VI's own attempt to connect; touched only while it lasts.
struct Attempt {
  layout::Address local, remote;
  layout::ViAttributes peer;  // peer to peer: of the other side, once known
  std::uint32_t asked_count;
  std::uint32_t moves;        // times we were sent elsewhere ...
  std::uint32_t moves_now;    // ... since the request was last repeated
  Asked asked[kMaxAsked];     // the host that the program named, then where it sent us
};

// A connection request that has arrived.
enum class RequestState : std::uint8_t {
  kFree,
  kHeld,       // nobody waits for it yet
  kMatched,    // a ConnectWait has returned it
  kAccepting,  // bound to a VI; ACCEPT sent, CONFIRM awaited
  kDone,       // over; kept a while so that a late duplicate is known
};

struct Request {
  RequestState state;
  MacAddress source;
  std::uint8_t proven;       // its sender has shown that it hears us
  wire::ConnectBody body;
  std::uint32_t generation;
  std::uint32_t session;     // that it was given to ...
  std::uint32_t program;     // ... and whom there
  std::uint32_t vi;          // kAccepting
  std::uint32_t bucket_next;
  std::uint32_t next_free;
  std::uint32_t older, newer;  // in its list
  std::uint64_t last_seen;

  // What programs know it by.
  std::uint32_t handle(std::uint32_t index) const { return generation << kHandleBits | (index + 1); }
};

// Requests by last change.
struct RequestList {
  std::uint32_t oldest, newest;
};

// A connection that we have ended and whose peer has not said so yet.
struct Goodbye {
  MacAddress address;
  std::uint8_t in_use;
  std::uint8_t attempts;
  std::uint32_t vi;
  std::uint64_t key;         // of the peer
  std::uint32_t psn, ack;
  std::uint32_t reason;      // 0, or wire::Refusal of the message at psn
  std::uint32_t index;       // of the message in its frame
  std::uint32_t bucket_next;
  std::uint32_t next_free;
};

// A command that has not finished.
struct Pending {
  layout::Op op;             // kNone: none
  std::uint32_t program;     // who asks
  std::uint32_t vi;
  std::uint32_t listener_next;  // kConnectWait: in the list of listeners
  std::uint32_t attempts;
  std::uint32_t notice;      // kConnectWait: kNoNotice: none
  MacAddress answerer;       // kHostByName, over: who has said `name`; zero: nobody
  std::uint64_t deadline;
  layout::Address local;
  char name[64];
  Flow flow;                 // kVerify: as the host sees it that is asked
  ClaimToken token;
};

// What a session may have vouched for.
struct Claim {
  std::uint32_t session;     // kNone: free
  std::uint32_t next_free;
  Flow flow;
  ClaimToken token;
};

// Free list of an array: items given back first, then items never used, so that what is never
// needed is never touched.
struct PoolHead {
  std::uint32_t free;
  std::uint32_t fresh;
  std::uint32_t used;
};

// Heads of the lists and free lists.
struct Root {
  StackCounters counters;
  PoolHead vis, cqs, regions, ptags, peers, requests, goodbyes, claims, members;
  std::uint32_t last_program_id;
  std::uint32_t listeners;       // session * kCommands + command
  std::uint32_t listeners_tail;
  RequestList live_requests;     // those that a program may still be given, or has been
  RequestList done_requests;
  std::uint32_t ready_head, ready_tail;  // sessions with VIs that may send
  std::uint32_t ack_head;
  std::uint32_t peer_attempts;   // VIs that wait for their peer's own request
  std::uint32_t next_request_number;
  std::uint32_t connected;       // VIs in the connected state
  std::uint32_t held;            // frames kept, all VIs together
  std::uint32_t unreliable;      // VIs in the connected state on Unreliable Delivery
  std::uint32_t credit_standing;  // of each of these
  std::uint32_t credit_told;      // what the oldest of them know of it
  std::uint32_t credit_epoch;    // see stack_credit.cc: the last in which credit was asked for ...
  std::uint32_t credit_askers;   // ... by so many VIs
  std::uint32_t credit_askers_before;  // in the epoch before it
  std::uint32_t held_requests;   // in the state kHeld
  std::uint32_t delegates;       // sessions whose programs have stacks of their own
  std::uint32_t notice_turn;     // of the open sessions, whose notices are looked at first
  std::uint32_t notices_seen;    // looked at in notice_epoch
  std::uint64_t notice_epoch;    // ms
  std::uint64_t beats;           // grows as long as somebody drives a stack that has peers
  std::uint64_t request_secret;  // odd
  std::uint64_t cookie_key[2];
  std::uint64_t proof_until;     // until then requests must be proven, see stack_requests.cc
  std::uint32_t unproven;        // live requests that are not
  std::uint64_t notice_scan;     // when held requests were last compared with notices
};

}  // namespace state
}  // namespace viaduct

#endif
