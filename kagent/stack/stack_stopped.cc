// Granted programs that are stopped: by a signal, by a debugger, with their container. Nobody drives
// their stacks, but the agent of their host sees that they live.
//
//   stack                    program's stack            agent of the program's host
//     | PROBE  ------------------> (stopped)                     |
//     | STOPPED_QUERY: VI, key, address of the stack ----------->| reads the stack's segment: this
//     |                                                          | connection is there, and nobody
//     | STOPPED_REPLY: as the program itself would write it <----| drives the stack
//
// Whoever hears it goes on waiting and sending again, for limits.stopped_peer_ns of silence at most.
// Both ends know the connection's keys, and a granted program can't send a STOPPED_REPLY: the filter
// on its way out does not let it.
#include "kagent/stack/stack.h"

namespace viaduct {

using state::kNone;
using state::Vi;
using wire::Type;

// What its host has said holds as long as silence is taken for life otherwise.
bool Stack::is_excused(const state::Peer& peer) const {
  return peer.vouched != 0 && now_ - peer.vouched < limits_.peer_timeout_ns &&
         now_ - peer.last_heard < limits_.stopped_peer_ns;
}

// Whether it has yet to be seen why it does not answer.
bool Stack::may_be_stopped(const state::Peer& peer) const {
  const std::uint64_t silence = now_ - peer.last_heard;
  if (!is_granted(peer) || silence < limits_.keepalive_ns) return false;
  return silence < limits_.peer_timeout_ns || is_excused(peer);
}

void Stack::ask_whether_stopped(ViIndex i) {
  const Vi& vi = vis_[i];
  const state::Peer& peer = peers_[vi.peer];
  if (!is_granted(peer) || !reachable(way_to(peer.host))) return;
  ++root_->counters.stopped_queries_sent;
  send_stopped(Type::kStoppedQuery, way_to(peer.host), vi.peer_vi, vi.peer_key, vi.peer_address);
}

void Stack::send_stopped(Type type, const MacAddress& to, std::uint32_t vi, std::uint64_t key,
                         const MacAddress& whose) {
  Frame frame;
  if (!reserve_frame(frame)) return;
  wire::Header header{};
  header.type = type;
  header.vi = vi;
  header.key = key;
  header.payload_length = static_cast<std::uint16_t>(whose.size());
  std::memcpy(frame.data + wire::kEthernetBytes + wire::kHeaderBytes, whose.data(), whose.size());
  submit_frame(frame, wire::encode(header, to, address_, ether_type_, frame.data));
}

// The key shows that the asker is the other end; what it gets is its own.
void Stack::on_stopped_query(const wire::Decoded& query) {
  StackCounters& count = root_->counters;
  MacAddress whose;
  if (!wire::decode(query.payload, whose)) {
    ++count.drop_bad_body;
    return;
  }
  // Of programs' own stacks agents alone know.
  if (limits_.claims == 0) {
    ++count.drop_not_supported;
    return;
  }
  if (root_->delegates == 0 || !may_answer()) return;
  for (const std::uint32_t session : std::span(open_sessions_, open_count_)) {
    if (!sessions_[session].delegated || sessions_[session].delegate != whose) continue;
    const auto found = environment_.stopped(session, query.header.vi, query.header.key);
    if (!found) return;
    ++count.stopped_confirmed;
    return send_stopped(Type::kStoppedReply, query.source, found->peer_vi, found->peer_key, whose);
  }
}

void Stack::on_stopped_reply(const wire::Decoded& reply) {
  StackCounters& count = root_->counters;
  const wire::Header& header = reply.header;
  MacAddress whose;
  if (!wire::decode(reply.payload, whose)) {
    ++count.drop_bad_body;
  } else if (header.vi >= vis_.fresh() || vis_[header.vi].session == kNone ||
             vis_[header.vi].state != vip::kConnected) {
    ++count.drop_unknown_vi;
  } else if (const Vi& vi = vis_[header.vi]; vi.local_key != header.key) {
    ++count.drop_wrong_key;
  } else if (vi.peer_address != whose || way_to(peers_[vi.peer].host) != reply.source) {
    ++count.drop_wrong_source;
  } else {
    peers_[vi.peer].vouched = now_;
  }
}

}  // namespace viaduct
