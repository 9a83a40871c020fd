#include "kagent/stack/peer_table.h"

#include <algorithm>

namespace viaduct {

using state::Vi;
using state::kBucketMask;
using state::kNone;

namespace {

std::uint32_t bucket_of(const MacAddress& address) {
  std::uint32_t h = 2166136261u;
  for (const std::uint8_t byte : address) h = (h ^ byte) * 16777619u;
  return h & kBucketMask;
}

}  // namespace

// The VI that a frame of an established connection belongs to. This is where VI index and key from
// the wire are judged.
template <class Platform>
Vi* PeerTable<Platform>::vi_for(const wire::Decoded& frame, bool pending_too) {
  StackCounters& count = root_->counters;
  const wire::Header& header = frame.header;
  if (header.vi >= vis_.fresh()) {
    ++count.drop_unknown_vi;
    return nullptr;
  }
  Vi& vi = vis_[header.vi];
  const bool pending =
      vi.state == vip::kConnectPending && (vi.link.accepting || vi.link.peer_linked) && pending_too;
  if (vi.session == kNone || (vi.state != vip::kConnected && !pending)) {
    ++count.drop_unknown_vi;
    return nullptr;
  }
  if (vi.link.local_key != header.key) {
    ++count.drop_wrong_key;
    return nullptr;
  }
  if (vi.link.peer_address != frame.source) {
    ++count.drop_wrong_source;
    return nullptr;
  }
  peers_[vi.link.peer].last_heard = now_;
  return &vi;
}

// Whether a host can have this address, and frames could get there.
template <class Platform>
bool PeerTable<Platform>::reachable(const MacAddress& address) const {
  const bool group = (address[0] & 1) != 0;
  return !group && address != MacAddress{} && port_.reaches(address);
}

template <class Platform>
std::uint32_t PeerTable<Platform>::find_peer(const MacAddress& address, bool create) {
  const std::uint32_t bucket = bucket_of(address);
  for (std::uint32_t p = peer_buckets_[bucket]; p != kNone; p = peers_[p].hash_next) {
    if (peers_[p].address == address) return p;
  }
  if (!create) return kNone;
  const std::uint32_t p = peers_.take();
  if (p == kNone) return kNone;
  peers_[p] = {address, 1, kNone, kNone, 0, peer_buckets_[bucket], kNone, now_, 0, 0, 0, address,
               state::Train::kUnknown, 0, 0, {}, 0};
  peer_buckets_[bucket] = p;
  watch_peer(p, now_ + limits_.keepalive_ns);
  return p;
}

template <class Platform>
ViIndex PeerTable<Platform>::find_by_peer_key(const MacAddress& source, std::uint32_t peer_vi,
                                              std::uint64_t key) const {
  for (ViIndex i = key_buckets_[key & key_bucket_mask_]; i != kNone; i = vis_[i].link.key_next) {
    const Vi& vi = vis_[i];
    if (vi.link.peer_key == key && vi.link.peer_vi == peer_vi && vi.link.peer_address == source) {
      return i;
    }
  }
  return kNone;
}

// Notes the VI's peer. False when the peer table is full.
template <class Platform>
bool PeerTable<Platform>::link(ViIndex i, const MacAddress& address, const wire::ConnectBody& body) {
  const std::uint32_t p = find_peer(address, true);
  if (p == kNone) return false;
  Vi& vi = vis_[i];
  state::Peer& peer = peers_[p];
  peer.host = body.host;
  vi.link.peer = p;
  vi.link.peer_address = address;
  vi.link.peer_vi = body.vi;
  vi.link.peer_key = body.key;
  vi.link.payload = static_cast<std::uint16_t>(wire::payload_in(std::min<std::uint32_t>(mtu_, body.mtu)));
  const bool same_host = body.host == host_ && address != address_;
  vi.tx.path = same_host ? state::Path::kSameHost : state::Path::kNetwork;
  // Frames to this stack itself never leave its memory and need no checksum.
  vi.tx.checked = address != address_ &&
               (limits_.checksum || (body.rdma_flags & wire::kAsksForChecksum) != 0);
  vi.tx.plain_trains = !limits_.train_checksum && (body.rdma_flags & wire::kTakesPlainTrains) != 0;
  vi.tx.bundled = address != address_ && (body.rdma_flags & wire::kTakesBundles) != 0;
  if (same_host) take_local_path(vi);
  vi.rx.receive_next = body.first_psn;
  credit_grants_.begin_credit(
      vi, vi.reliability == vip::kUnreliable ? body.credit : std::uint16_t{0}, now_);
  vi.link.peer_previous = kNone;
  vi.link.peer_next = peer.vis;
  if (peer.vis != kNone) vis_[peer.vis].link.peer_previous = i;
  peer.vis = i;
  ++peer.count;
  vi.link.key_next = key_buckets_[body.key & key_bucket_mask_];
  key_buckets_[body.key & key_bucket_mask_] = i;
  return true;
}

template <class Platform>
bool PeerTable<Platform>::take_local_path(Vi& vi) {
  const std::uint32_t limit = bulk_path_.payload_limit(vi.link.peer_address);
  if (limit <= mtu_) return false;
  vi.link.payload = static_cast<std::uint16_t>(wire::payload_in(limit));
  vi.tx.path = state::Path::kLocal;
  vi.tx.checked = 0;
  return true;
}

template <class Platform>
void PeerTable<Platform>::unlink(ViIndex i) {
  Vi& vi = vis_[i];
  if (vi.link.peer == kNone) return;
  state::Peer& peer = peers_[vi.link.peer];
  if (peer.probe_next == i) peer.probe_next = vi.link.peer_next;
  if (vi.link.peer_next != kNone) {
    vis_[vi.link.peer_next].link.peer_previous = vi.link.peer_previous;
  }
  if (vi.link.peer_previous != kNone) {
    vis_[vi.link.peer_previous].link.peer_next = vi.link.peer_next;
  } else {
    peer.vis = vi.link.peer_next;
  }
  ViIndex* link = &key_buckets_[vi.link.peer_key & key_bucket_mask_];
  while (*link != i) link = &vis_[*link].link.key_next;
  *link = vi.link.key_next;
  if (--peer.count == 0) {
    wheel_.disarm(peer_timer(vi.link.peer));
    bulk_path_.leave_train(peer.address);
    std::uint32_t* hash = &peer_buckets_[bucket_of(peer.address)];
    while (*hash != vi.link.peer) hash = &peers_[*hash].hash_next;
    *hash = peer.hash_next;
    peer.in_use = 0;
    peers_.give(vi.link.peer);
  }
  vi.link.peer = kNone;
}

template <class Platform>
void PeerTable<Platform>::watch_peer(std::uint32_t p, std::uint64_t until) {
  peers_[p].due = until;
  wheel_.arm(peer_timer(p), until);
}

// When the peer's host has vouched for it, that counts for peer_timeout_ns: as long as a silent peer counts as alive
// without it.
template <class Platform>
bool PeerTable<Platform>::is_excused(const state::Peer& peer) const {
  return peer.vouched != 0 && now_ - peer.vouched < limits_.peer_timeout_ns &&
         now_ - peer.last_heard < limits_.stopped_peer_ns;
}

// Whether the peer may merely be stopped, so that its silence must not end the connection yet.
template <class Platform>
bool PeerTable<Platform>::may_be_stopped(const state::Peer& peer) const {
  const std::uint64_t silence = now_ - peer.last_heard;
  if (!is_granted(peer) || silence < limits_.keepalive_ns) return false;
  return silence < limits_.peer_timeout_ns || is_excused(peer);
}

}  // namespace viaduct
