// VIs. The parts of one are written by different parts of the stack.
#ifndef VIADUCT_KAGENT_STACK_VI_STATE_H
#define VIADUCT_KAGENT_STACK_VI_STATE_H

#include <cstdint>

#include "kagent/contract/wire.h"
#include "kagent/stack/link_state.h"
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

// The sending side of a VI.
struct ViTx {
  std::uint8_t listed;            // kOn...List
  std::uint8_t checked : 1;            // data has checksums
  std::uint8_t plain_trains : 1;       // but not what goes by train
  std::uint8_t bundled : 1;            // the peer takes bundles
  std::uint8_t keeps_queue_short : 1;  // Delay::mode is kShort
  std::uint8_t doubts_train : 1;       // a timeout of frames that went by train, and none has come since
  std::uint8_t sample_asked : 1;       // the frame sample_psn asked for its acknowledgement
  std::uint8_t patient : 1;            // the newest frame has not asked: nothing waits for its acknowledgement
  Losses losses; Path path;
  WorkQueue send;
  std::uint32_t send_una;    // oldest PSN not acknowledged
  std::uint32_t send_next;   // next PSN to send
  std::uint32_t current_slot;     // message being sent, or kResponse + number; kNone: none
  std::uint32_t asked;       // PSN behind the last frame that asked: for an acknowledgement or for credit
  std::uint32_t current_frames;
  std::uint32_t current_sent;     // frames of it sent
  std::uint16_t congestion_window, peer_window;  // frames
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
  std::uint8_t timeouts;       // in a row
  std::uint8_t tail_probes;    // since the round trip was last measured
  std::uint16_t reads;         // RDMA reads begun and not answered
  std::uint16_t train_frames;  // that have gone by train lately; 0: none
  std::uint16_t even_payload;  // bytes in each frame of the last long message, if it fills them evenly
  std::uint32_t train_end;     // PSN behind the last frame that has gone by train
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
