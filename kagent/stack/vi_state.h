// VIs. The parts of one are written by different parts of the stack.
#ifndef VIADUCT_KAGENT_STACK_VI_STATE_H
#define VIADUCT_KAGENT_STACK_VI_STATE_H

#include <cstdint>

#include "kagent/contract/wire.h"
#include "kagent/stack/psn_set.h"
#include "kagent/stack/state.h"

namespace viaduct::state {

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
inline constexpr std::uint8_t kOnReadyList = 1, kOnAckList = 2;

// State of the redirect of the receive that is next to complete; see receiver.h.
enum class Redirect : std::uint8_t { kNone, kPending, kUsed };

// The network's losses seen so far; kLink, kQueue: the last one was of that kind.
enum class Losses : std::uint8_t { kNone, kLink, kQueue };

// The peer of a VI, or how the VI becomes connected.
struct ViLink {
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
  std::uint16_t credit;      // Unreliable Delivery: what the peer always has room for; 0: it says nothing
  std::uint16_t credit_given;        // to the peer, when it last asked
  std::uint32_t credit_epoch;        // when that was
  std::uint32_t credit_grown;        // PSN awaited when it last became more
  std::uint32_t listener;      // of a peer to peer attempt; kNoListener: none
  std::uint64_t connect_deadline;
  std::uint8_t accepting;    // 1: we are the accepting side of a pending connection
  std::uint8_t peer_to_peer; // 1: from PeerRequest until its result is fetched
  std::uint8_t peer_linked;  // 1: the other half of the peer to peer connection is known
  std::uint8_t attempts;
  std::uint32_t peer_result; // vip::kNotDone, or how the attempt ended
};

// The sending side of a VI.
struct ViTx {
  std::uint8_t listed;            // kOn...List
  std::uint8_t checked : 1, keeps_queue_short : 1, sample_asked : 1;  // data has checksums; as Delay::mode; sample_psn did
  Losses losses; Path path;
  WorkQueue send;
  std::uint32_t send_una;    // oldest PSN not acknowledged
  std::uint32_t send_next;   // next PSN to send
  std::uint32_t current_slot;     // message being sent, or kResponse + number; kNone: none
  std::uint32_t credit_asked;     // Unreliable Delivery: PSN behind the last frame that asked for credit
  std::uint32_t current_frames;
  std::uint32_t current_sent;     // frames of it sent
  std::uint16_t congestion_window, peer_window;  // frames
  std::uint16_t window_credit;      // acknowledged frames since the window last grew
  std::uint8_t window_debt, stalled;  // of losses, in quarters of a frame; something is to be sent that waits for the peer
  std::uint16_t resends;            // so far, all frames together
  std::uint16_t resends_delivered;  // the newest of them that is known to have arrived
  PsnSet sacked;
  PsnSet lost;               // to be sent again
  PsnSet resent;             // resent_mark is valid
  std::uint64_t sample_time;  // when sample_psn was sent; 0: no sample under way
  std::uint32_t sample_psn;
  std::uint8_t timeouts, tail_probes;  // in a row; since the round trip was last measured
  std::uint16_t reads;         // RDMA reads begun and not answered
  // Frames that have gone by train lately (0: none), before the PSN train_end; what the last long message filled its with.
  std::uint16_t train_frames, even_payload;
  std::uint32_t train_end;
  std::uint32_t smoothed_rtt;  // ns; 0: none measured yet
  std::uint32_t rtt_variation;
  std::uint32_t least_rtt, longest_rtt;  // ns; least: as without queues, 0: unknown; longest: of late
  std::uint64_t sent_time;      // when a frame was last sent for the first time
  std::uint64_t progress_time;  // when one was last acknowledged, or the timer last ran out
  std::uint32_t ready_next;
  std::uint32_t response_first, response_next;  // responses [first, next) wait for being sent or acknowledged
  std::uint32_t response_begun;   // of these, the next one to begin
  std::uint32_t failed_slot, failed_status;  // the send that ended the connection (kNone: none), and its status
};

// The receiving side of a VI.
struct ViRx {
  WorkQueue receive;
  std::uint32_t receive_next;    // PSN awaited
  std::uint32_t receive_slot;    // receive in use by the current message; kNone: none
  std::uint32_t message_length;  // of the message being received
  std::uint32_t message_received;
  std::uint32_t message_op;      // wire::kOp*
  std::uint8_t in_message;       // a first frame has come, the last one not
  std::uint8_t receive_failed, missing;  // missing: the peer ended with frames that have not come
  Redirect redirect;
  std::uint32_t rdma_handle;     // RDMA write: where the message goes
  std::uint32_t held_count;      // frames kept in their port buffers until a gap is filled
  std::uint64_t rdma_address;
  std::uint64_t redirect_address;
  std::uint32_t redirect_handle;
  std::uint32_t redirect_length;
  PsnSet received;               // which: PSNs beyond receive_next
};

// Acknowledgements that a VI has yet to send.
struct ViAck {
  std::uint32_t unacknowledged;  // frames taken since the last acknowledgement was sent
  std::uint8_t ack_now;          // the peer waits, or there is a gap to report
  std::uint8_t ack_gap;
  std::uint8_t replied;          // data has gone back since ack_time
  std::uint8_t reply_score;      // how sure it is that data goes back soon
  std::uint64_t ack_time;        // when the peer last asked for an acknowledgement
  std::uint64_t acked_at;        // when the last acknowledgement of its own was sent
  std::uint64_t ack_deadline;
  std::uint32_t ack_next, reply_wait;  // reply_wait: ns that an acknowledgement waits for likely data
};

// A VI has 512 bytes, so that its place is found by a shift.
struct alignas(64) Vi {
  std::uint32_t session;     // kNone: free
  std::uint32_t generation;
  std::uint32_t program;     // that uses the VI: descriptors mean its memory
  std::uint32_t ptag;
  std::uint32_t max_transfer;
  std::uint16_t reliability;
  std::uint8_t enable_write;
  std::uint8_t enable_read;
  std::uint32_t state;       // vip::State
  std::uint32_t next_free;
  ViLink link;
  ViTx tx;
  ViRx rx;
  ViAck ack;
};
static_assert(sizeof(Vi) == 512);

}  // namespace viaduct::state

#endif
