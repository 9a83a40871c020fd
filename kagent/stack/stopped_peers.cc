#include "kagent/stack/stopped_peers.h"

#include <cstring>

namespace viaduct {

using state::Vi;
using state::kNone;
using wire::Type;

template <class Platform>
void StoppedPeers<Platform>::ask_whether_stopped(ViIndex i) {
  const Vi& vi = vis_[i];
  const state::Peer& peer = peers_[vi.link.peer];
  if (!peer_table_.is_granted(peer) || !peer_table_.reachable(request_targets_.way_to(peer.host))) {
    return;
  }
  ++root_->counters.stopped_queries_sent;
  send_stopped(Type::kStoppedQuery, request_targets_.way_to(peer.host), vi.link.peer_vi,
               vi.link.peer_key, vi.link.peer_address);
}

template <class Platform>
void StoppedPeers<Platform>::send_stopped(Type type, const MacAddress& to, std::uint32_t vi,
                                          std::uint64_t key, const MacAddress& whose) {
  Frame frame;
  if (!frames_out_.reserve_frame(frame)) return;
  wire::Header header{};
  header.type = type;
  header.vi = vi;
  header.key = key;
  header.payload_length = static_cast<std::uint16_t>(whose.size());
  std::memcpy(frame.data + wire::kEthernetBytes + wire::kHeaderBytes, whose.data(), whose.size());
  frames_out_.submit_frame(frame, wire::encode(header, to, address_, ether_type_, frame.data));
}

// The key shows that the asker is the other end of the connection; the answer tells it only about that connection.
template <class Platform>
void StoppedPeers<Platform>::on_stopped_query(const wire::Decoded& query) {
  StackCounters& count = root_->counters;
  MacAddress whose;
  if (!wire::decode(query.payload, whose)) {
    ++count.drop_bad_body;
    return;
  }
  // Only agents know of programs' own stacks.
  if (limits_.claims == 0) {
    ++count.drop_not_supported;
    return;
  }
  if (root_->delegates == 0 || !frames_out_.may_answer()) return;
  for (const std::uint32_t session : std::span(open_sessions_, open_count_)) {
    if (!sessions_[session].delegated || sessions_[session].delegate != whose) continue;
    const auto found = environment_.stopped(session, query.header.vi, query.header.key);
    if (!found) return;
    ++count.stopped_confirmed;
    return send_stopped(Type::kStoppedReply, query.source, found->peer_vi, found->peer_key, whose);
  }
}

template <class Platform>
void StoppedPeers<Platform>::on_stopped_reply(const wire::Decoded& reply) {
  StackCounters& count = root_->counters;
  const wire::Header& header = reply.header;
  MacAddress whose;
  if (!wire::decode(reply.payload, whose)) {
    ++count.drop_bad_body;
  } else if (header.vi >= vis_.fresh() || vis_[header.vi].session == kNone ||
             vis_[header.vi].state != vip::kConnected) {
    ++count.drop_unknown_vi;
  } else if (const Vi& vi = vis_[header.vi]; vi.link.local_key != header.key) {
    ++count.drop_wrong_key;
  } else if (vi.link.peer_address != whose ||
             request_targets_.way_to(peers_[vi.link.peer].host) != reply.source) {
    ++count.drop_wrong_source;
  } else {
    peers_[vi.link.peer].vouched = now_;
  }
}

}  // namespace viaduct
