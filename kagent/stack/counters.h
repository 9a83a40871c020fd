// The stack's counters: one row each, one row for each cause of a dropped frame. The table is the
// only place where a counter is named.
#ifndef VIADUCT_KAGENT_STACK_COUNTERS_H
#define VIADUCT_KAGENT_STACK_COUNTERS_H

#include <cstdint>

namespace viaduct {

// X(name, what it counts)
#define VIADUCT_STACK_COUNTERS(X)                                                       \
  X(messages_sent, "messages whose last frame was sent")                                \
  X(messages_packed, "messages sent that shared a frame with others")                   \
  X(messages_received, "messages placed in a receive descriptor")                       \
  X(bytes_sent, "message bytes sent, without retransmissions")                          \
  X(bytes_received, "message bytes placed")                                             \
  X(data_frames_sent, "data frames sent, retransmissions included")                     \
  X(train_frames_sent, "of these, sent by train")                                        \
  X(data_frames_received, "data frames accepted")                                       \
  X(frames_bundled, "data and acknowledgement frames sent that went behind another one in its Ethernet frame") \
  X(acks_sent, "acknowledgement frames sent")                                           \
  X(acks_received, "acknowledgement frames accepted")                                   \
  X(retransmissions, "data frames sent again")                                          \
  X(retransmission_timeouts, "times the retransmission timer ran out")                  \
  X(trains_used, "times a peer was found to be reached by trains")                       \
  X(trains_set_aside, "times no trains went there until tried again, as frames were lost")  \
  X(trains_taken_up, "of these, times the frames had arrived, only late: nothing was tried") \
  X(trains_not_told, "times a peer did not say where trains reach it: it is older, or busy") \
  X(trains_not_heard, "times a trial train was not answered: a firewall, or busy")        \
  X(trains_no_way, "times a peer had no address that trains from here reach")              \
  X(credit_stalls, "times a sender on unreliable delivery waited for credit")           \
  X(credit_timeouts, "times it went on without, because none came")                     \
  X(frames_held, "frames kept because an earlier one was missing")                      \
  X(connections_opened, "connections established")                                      \
  X(connections_closed, "connections ended by a disconnect of either side")             \
  X(connections_lost, "connections ended by an error")                                  \
  X(resets_sent, "frames answered by a reset")                                          \
  X(probes_sent, "keep-alive probes sent")                                              \
  X(name_queries_sent, "name queries sent")                                             \
  X(claim_queries_sent, "questions whether a claim is good sent to other hosts")        \
  X(claims_confirmed, "claims of our programs that other hosts were told are good")     \
  X(claims_denied, "claims that other hosts were told are not good")                    \
  X(stopped_queries_sent, "questions to a host whether a silent program is stopped")     \
  X(stopped_confirmed, "other hosts told that a program of ours is stopped but lives")   \
  X(tx_postponed, "times the port had no buffer to send from")                          \
  X(local_given_up, "frames for a program of this host that takes none")                \
  X(cq_overflows, "completions that waited for room on a completion queue")             \
  X(error_events_lost, "asynchronous errors that a program had no room for")            \
  X(drop_short, "received frames dropped: shorter than a header")                       \
  X(drop_version, "received frames dropped: other version of the wire format")          \
  X(drop_type, "received frames dropped: unknown type or flags")                        \
  X(drop_length, "received frames dropped: lengths that do not fit")                    \
  X(drop_checksum, "received frames dropped: changed on their way")                     \
  X(drop_destination, "received frames dropped: not for this address")                  \
  X(drop_unknown_vi, "received frames dropped: no such VI, or it is not connected")     \
  X(drop_wrong_key, "received frames dropped: not the connection's key")                \
  X(drop_wrong_source, "received frames dropped: not the connection's source address")  \
  X(drop_bad_body, "received frames dropped: malformed connection or name message")     \
  X(drop_duplicate, "received frames dropped: had arrived before")                      \
  X(drop_window, "received frames dropped: beyond the receive window")                  \
  X(drop_no_held_buffer, "received frames dropped: no buffer to keep them in")          \
  X(drop_out_of_sequence, "received frames dropped: gap or old, unreliable delivery")   \
  X(drop_no_descriptor, "received messages dropped: no receive posted")                 \
  X(drop_bad_descriptor, "received messages dropped: the receive could not take them")  \
  X(drop_bad_ack, "received acknowledgements dropped: of something never sent")         \
  X(drop_bad_reset, "received resets dropped: of no connection of ours")                \
  X(drop_bad_sequence, "received frames dropped: pieces of a message that do not fit")  \
  X(proofs_asked, "connection requests answered by asking for a proof of their source")  \
  X(drop_claim_rate, "questions about claims dropped: more than are answered in a millisecond") \
  X(drop_request_table_full, "connection requests dropped: table full")                 \
  X(name_conflicts, "answers to a query for a name that another host had answered to")    \
  X(drop_program_slow, "data dropped: too much waits to be written to the program")         \
  X(drop_stale_answer, "connection answers dropped: to no request under way")           \
  X(drop_rdma_protection, "RDMA operations refused: the target does not allow them")    \
  X(drop_not_supported, "received frames dropped: operation not supported")

struct StackCounters {
#define VIADUCT_COUNTER_FIELD(name, text) std::uint64_t name;
  VIADUCT_STACK_COUNTERS(VIADUCT_COUNTER_FIELD)
#undef VIADUCT_COUNTER_FIELD
};

// Calls row(name, text, value) for each counter, in the table's order.
template <class Row>
void for_each(const StackCounters& c, Row&& row) {
#define VIADUCT_COUNTER_ROW(name, text) row(#name, text, c.name);
  VIADUCT_STACK_COUNTERS(VIADUCT_COUNTER_ROW)
#undef VIADUCT_COUNTER_ROW
}

}  // namespace viaduct

#endif
