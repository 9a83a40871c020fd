#include "kagent/stack/keepalive.h"

#include <algorithm>

namespace viaduct {

using state::Vi;
using state::kNone;
using wire::Type;

namespace {

constexpr unsigned kProbeTries = 8;  // how many VIs are tried to find one that can be asked about

}  // namespace

template <class Platform>
void Keepalive<Platform>::on_reset(const wire::Decoded& frame) {
  const ViIndex i = peer_table_.find_by_peer_key(frame.source, frame.header.vi, frame.header.key);
  if (i == kNone) {
    // This reset answers a DISCONNECT whose connection the peer had ended itself.
    disconnects_.on_disconnect_ack(frame);
    ++root_->counters.drop_bad_reset;
    return;
  }
  if (vis_[i].state == vip::kConnectPending && vis_[i].link.peer_linked) {
    return connections_.leave_peer(i);
  }
  const std::uint32_t peer = vis_[i].link.peer;
  const std::uint32_t others = peers_[peer].count - 1;
  peers_[peer].probe_next = vis_[i].link.peer_next;
  connections_.end_connection(i, End::kLost, vip::kConnectionLost);
  // A peer that forgot one connection has probably forgotten its neighbours: ask at once.
  if (others != 0) probe(peer);
}

// There is one probe for each peer host, not for each VI: the cost does not grow with idle connections. The VIs take
// turns, also while the peer is heard, so that a connection that is over for the peer alone is found in the end.
template <class Platform>
void Keepalive<Platform>::peer_timeout(std::uint32_t p) {
  state::Peer& peer = peers_[p];
  ++root_->beats;
  // A stack that is not driven hears no peer, so the time by which this timer is late does not count as silence.
  const std::uint64_t late = now_ - std::min(now_, peer.due);
  peer.last_heard = std::min(now_, peer.last_heard + late);
  if (peer.vouched != 0) peer.vouched = std::min(now_, peer.vouched + late);
  const std::uint64_t silence = now_ - peer.last_heard;
  if (silence >= limits_.peer_timeout_ns && !peer_table_.is_excused(peer)) {
    while (peer.in_use && peer.vis != kNone) {
      const bool last = peer.count == 1;
      connections_.end_connection(peer.vis, End::kLost, vip::kConnectionLost);
      if (last) return;
    }
    return;
  }
  const ViIndex probed = probe(p);
  if (silence >= limits_.keepalive_ns) {
    peer.silent_at = now_;
    if (probed != kNone) stopped_peers_.ask_whether_stopped(probed);
  }
  const std::uint64_t end = peer.last_heard + limits_.peer_timeout_ns;
  const std::uint64_t next = now_ + limits_.keepalive_ns;
  peer_table_.watch_peer(p, end > now_ ? std::min(next, end) : next);
}

// Returns the VI whose turn it was.
template <class Platform>
ViIndex Keepalive<Platform>::probe(std::uint32_t p) {
  state::Peer& peer = peers_[p];
  for (unsigned n = 0; n < kProbeTries; ++n) {
    const ViIndex i = peer.probe_next != kNone ? peer.probe_next : peer.vis;
    const Vi& vi = vis_[i];
    peer.probe_next = vi.link.peer_next;
    // The peer need not know of a connection that is being made.
    if (vi.state != vip::kConnected) continue;
    ++root_->counters.probes_sent;
    frames_out_.send_short(Type::kProbe, vi.link.peer_address, vi.link.peer_vi, vi.link.peer_key,
                           vi.tx.send_next, vi.rx.receive_next, 0);
    return i;
  }
  return kNone;
}

template <class Platform>
ViIndex Keepalive<Platform>::on_probe(const wire::Decoded& frame) {
  const Vi* vi = peer_table_.vi_for(frame, true);
  if (vi == nullptr) {
    if (frame.header.type == Type::kProbe) disconnects_.send_reset(frame);
    return kNone;
  }
  if (frame.header.type != Type::kProbe) return frame.header.vi;
  frames_out_.send_short(Type::kProbeAck, vi->link.peer_address, vi->link.peer_vi, vi->link.peer_key,
                         vi->tx.send_next, vi->rx.receive_next, 0);
  return kNone;
}

}  // namespace viaduct
