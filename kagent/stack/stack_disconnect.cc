// Connections once they stand: who the peer is, that it lives, and how they end.
//
//   Disconnect     -> DISCONNECT (repeated) --------->  Error, queues flushed
//                <--- DISCONNECT_ACK
//
// The disconnecting VI is free at once; a goodbye record repeats its DISCONNECT.
#include "kagent/stack/repeat.h"
#include "kagent/stack/stack.h"

namespace viaduct {

using layout::CommandBody;
using state::kBucketMask;
using state::kNone;
using state::Vi;
using wire::Type;

namespace {

constexpr std::uint32_t kGoodbyeTries = 12;  // more than half a second
constexpr unsigned kProbeTries = 8;  // to find a VI that can be asked for
constexpr std::uint32_t kFlushedAtOnce = 64;  // when the peer has ended the connection
constexpr std::uint32_t kAnswersPerMs = 256;

std::uint32_t bucket_of(const MacAddress& address) {
  std::uint32_t h = 2166136261u;
  for (const std::uint8_t byte : address) h = (h ^ byte) * 16777619u;
  return h & kBucketMask;
}

// Of memory that somebody else may be writing to: read just once.
template <class T>
T once(const T& shared) {
  return __atomic_load_n(&shared, __ATOMIC_RELAXED);
}

MacAddress once(const MacAddress& shared) {
  MacAddress out;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = once(shared.data()[i]);
  return out;
}

}  // namespace

std::uint32_t Stack::find_peer(const MacAddress& address, bool create) {
  const std::uint32_t bucket = bucket_of(address);
  for (std::uint32_t p = peer_buckets_[bucket]; p != kNone; p = peers_[p].hash_next) {
    if (peers_[p].address == address) return p;
  }
  if (!create) return kNone;
  const std::uint32_t p = peers_.take();
  if (p == kNone) return kNone;
  peers_[p] = {address, 1, kNone, kNone, 0, peer_buckets_[bucket], kNone, now_, 0, 0, address};
  peer_buckets_[bucket] = p;
  watch_peer(p, now_ + limits_.keepalive_ns);
  return p;
}

Stack::ViIndex Stack::find_by_peer_key(const MacAddress& source, std::uint32_t peer_vi,
                                       std::uint64_t key) const {
  for (ViIndex i = key_buckets_[key & key_bucket_mask_]; i != kNone; i = vis_[i].key_next) {
    const Vi& vi = vis_[i];
    if (vi.peer_key == key && vi.peer_vi == peer_vi && vi.peer_address == source) return i;
  }
  return kNone;
}

// Notes who the peer is. False when the peer table is full.
bool Stack::link(ViIndex i, const MacAddress& address, const wire::ConnectBody& body) {
  const std::uint32_t p = find_peer(address, true);
  if (p == kNone) return false;
  Vi& vi = vis_[i];
  state::Peer& peer = peers_[p];
  peer.host = body.host;
  vi.peer = p;
  vi.peer_address = address;
  vi.peer_vi = body.vi;
  vi.peer_key = body.key;
  const std::uint32_t mtu = std::min<std::uint32_t>(mtu_, body.mtu);
  const std::uint32_t around = wire::kHeaderBytes + wire::kChecksumBytes;
  vi.payload = static_cast<std::uint16_t>((std::max(mtu, around + 64u) - around) & ~7u);
  // What never leaves our own memory nobody changes.
  vi.checked = address != address_ &&
               (limits_.checksum || (body.rdma_flags & wire::kAsksForChecksum) != 0);
  vi.receive_next = body.first_psn;
  begin_credit(vi, vi.reliability == vip::kUnreliable ? body.credit : std::uint16_t{0}, now_);
  vi.peer_previous = kNone;
  vi.peer_next = peer.vis;
  if (peer.vis != kNone) vis_[peer.vis].peer_previous = i;
  peer.vis = i;
  ++peer.count;
  vi.key_next = key_buckets_[body.key & key_bucket_mask_];
  key_buckets_[body.key & key_bucket_mask_] = i;
  return true;
}

void Stack::unlink(ViIndex i) {
  Vi& vi = vis_[i];
  if (vi.peer == kNone) return;
  state::Peer& peer = peers_[vi.peer];
  if (peer.probe_next == i) peer.probe_next = vi.peer_next;
  if (vi.peer_next != kNone) vis_[vi.peer_next].peer_previous = vi.peer_previous;
  if (vi.peer_previous != kNone) {
    vis_[vi.peer_previous].peer_next = vi.peer_next;
  } else {
    peer.vis = vi.peer_next;
  }
  ViIndex* link = &key_buckets_[vi.peer_key & key_bucket_mask_];
  while (*link != i) link = &vis_[*link].key_next;
  *link = vi.key_next;
  if (--peer.count == 0) {
    wheel_.disarm(peer_timer(vi.peer));
    std::uint32_t* hash = &peer_buckets_[bucket_of(peer.address)];
    while (*hash != vi.peer) hash = &peers_[*hash].hash_next;
    *hash = peer.hash_next;
    peer.in_use = 0;
    peers_.give(vi.peer);
  }
  vi.peer = kNone;
}

// Pending becomes Connected. On the accepting side this also ends the request and the command.
void Stack::establish(ViIndex i) {
  Vi& vi = vis_[i];
  wheel_.disarm(vi_timer(i));
  // What was posted too early is not sent, also when its doorbell has not been answered yet.
  flush_sends(i);
  set_state(i, vip::kConnected);
  ++root_->counters.connections_opened;
  if (vi.peer_to_peer) return end_peer_attempt(i, vip::kSuccess);
  const std::uint32_t command = vi.command;
  vi.command = kNone;
  if (!vi.accepting) return;
  vi.accepting = 0;
  release_request(vi.request);
  bury_request(vi.request);
  if (command != kNone) finish(vi.session, command, vip::kSuccess);
}

void Stack::reset_transfer(ViIndex i) {
  drop_held(i);
  Vi& vi = vis_[i];
  vi.current_slot = kNone;
  vi.stalled = 0;
  begin_window(vi);
  vi.peer_window = state::kWindow;
  vi.resends = vi.resends_delivered = 0;
  vi.sacked.clear();
  vi.lost.clear();
  vi.resent.clear();
  vi.received.clear();
  vi.sample_time = 0;
  vi.timeouts = 0;
  vi.smoothed_rtt = 0;
  vi.rtt_variation = 0;
  vi.least_rtt = 0;
  vi.sent_time = vi.progress_time = now_;
  vi.reads = 0;
  vi.response_first = vi.response_next = vi.response_begun = 0;
  vi.receive_slot = kNone;
  vi.failed_slot = kNone;
  vi.in_message = 0;
  if (vi.divert == state::Divert::kPending) vi.divert = state::Divert::kNone;
  vi.reply_score = 0;
  vi.unacknowledged = 0;
  vi.ack_now = 0;
  vi.ack_gap = 0;
  vi.replied = 0;
  vi.ack_time = 0;
  vi.acked_at = 0;
}

// ---------------------------------------------------------------------------- the end

vip::Return Stack::disconnect(std::uint32_t session, const CommandBody& body) {
  if (find_vi(session, body.vi, body.generation) == nullptr) return vip::kInvalidParameter;
  end_connection(body.vi, End::kLocal, 0);
  return vip::kSuccess;
}

void Stack::end_connection(ViIndex i, End end, std::uint32_t error, std::uint32_t refused_psn,
                           std::uint32_t reason) {
  Vi& vi = vis_[i];
  const bool by_us = end == End::kLocal || end == End::kGone;
  switch (vi.state) {
    case vip::kIdle: return;
    case vip::kConnectPending:
      return fail_attempt(i, by_us ? vip::kInvalidState : vip::kTimeout);
    case vip::kError:
      if (end == End::kLocal) {
        flush_queues(i);
        set_state(i, vip::kIdle);
      }
      return;
    default: break;
  }
  wheel_.disarm(vi_timer(i));
  StackCounters& count = root_->counters;
  if (by_us) {
    say_goodbye(vi, vi.send_next, 0);
    ++count.connections_closed;
    set_state(i, vip::kIdle);
  } else {
    if (end == End::kFailed) say_goodbye(vi, refused_psn, reason);
    ++(end == End::kRemote ? count.connections_closed : count.connections_lost);
    view(vi).vi(i).status.error.store(1 + error, std::memory_order_relaxed);
    set_state(i, vip::kError);
    report_end(i, end, error);
  }
  // A program posts first and looks at the state then; we do it the other way round.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  unlink(i);
  if (placing_ == i) flush_placement();
  // A program that has asked for it finds all of them; one that is gone looks at none.
  if (end != End::kGone) flush_queues(i, by_us ? layout::kRingEntries : kFlushedAtOnce);
  reset_transfer(i);
}

// What the program hears of the end of a connection that it has not ended itself.
void Stack::report_end(ViIndex i, End end, std::uint32_t error) {
  Vi& vi = vis_[i];
  if (error != vip::kConnectionLost) report(i, error);
  if (vi.in_message && vi.message_op == wire::kOpRdmaWrite) report(i, vip::kRdmaWriteAbort);
  if (end == End::kLost && vi.send.completed != vi.send.taken &&
      vi.reliability != vip::kUnreliable) {
    // Of the messages that were not acknowledged the first tells why.
    vi.failed_slot = in_flight(i, vi.send.completed).slot;
    vi.failed_status = vip::kFlushedError | vip::kTransportError;
    for (std::uint32_t p = vi.send.completed; p != vi.send.taken; ++p) {
      const std::uint16_t op = in_flight(i, p).op;
      if (op == layout::kOpSend) continue;
      report(i, vip::kRdmaTransport, {0, op, 0});
      break;
    }
  }
  const bool orderly = end == End::kRemote && vi.failed_slot == kNone;
  report(i, vip::kConnectionLost, {0, 0, orderly ? layout::kEventOrderly : std::uint8_t{0}});
}

void Stack::say_goodbye(const Vi& vi, std::uint32_t psn, std::uint32_t reason) {
  const std::uint32_t g = goodbyes_.take();
  if (g == kNone) {
    // If this is lost, the peer learns it from the reset that answers its next frame or probe.
    return send_short(Type::kDisconnect, vi.peer_address, vi.peer_vi, vi.peer_key, psn,
                      vi.receive_next, reason, packed_index_);
  }
  state::Goodbye& goodbye = goodbyes_[g];
  std::uint32_t& bucket = goodbye_buckets_[vi.peer_key & kBucketMask];
  goodbye = {vi.peer_address, 1, 0, vi.peer_vi, vi.peer_key, psn, vi.receive_next, reason,
             packed_index_, bucket, kNone};
  bucket = g;
  send_goodbye(g);
}

void Stack::send_goodbye(std::uint32_t g) {
  state::Goodbye& goodbye = goodbyes_[g];
  send_short(Type::kDisconnect, goodbye.address, goodbye.vi, goodbye.key, goodbye.psn, goodbye.ack,
             goodbye.reason, goodbye.index);
  wheel_.arm(goodbye_timer(g), now_ + repeat_after(goodbye.attempts));
}

void Stack::goodbye_timeout(std::uint32_t g) {
  state::Goodbye& goodbye = goodbyes_[g];
  if (++goodbye.attempts < kGoodbyeTries) return send_goodbye(g);
  std::uint32_t* link = &goodbye_buckets_[goodbye.key & kBucketMask];
  while (*link != g) link = &goodbyes_[*link].bucket_next;
  *link = goodbye.bucket_next;
  goodbye.in_use = 0;
  goodbyes_.give(g);
}

void Stack::on_disconnect_ack(const wire::Decoded& frame) {
  const wire::Header& header = frame.header;
  std::uint32_t* link = &goodbye_buckets_[header.key & kBucketMask];
  for (; *link != kNone; link = &goodbyes_[*link].bucket_next) {
    const std::uint32_t g = *link;
    state::Goodbye& goodbye = goodbyes_[g];
    if (goodbye.key != header.key || goodbye.vi != header.vi || goodbye.address != frame.source) {
      continue;
    }
    wheel_.disarm(goodbye_timer(g));
    *link = goodbye.bucket_next;
    goodbye.in_use = 0;
    goodbyes_.give(g);
    return;
  }
}

void Stack::on_disconnect(const wire::Decoded& frame) {
  const wire::Header& header = frame.header;
  // Answered also when the connection is unknown: it may be over already.
  send_short(Type::kDisconnectAck, frame.source, header.vi, header.key, 0, 0, 0);
  Vi* vi = vi_for(frame, true);
  if (vi == nullptr) return;
  if (vi->state == vip::kConnectPending) establish(header.vi);
  if (vi->reliability != vip::kUnreliable) take_ack(header.vi, header.ack, vi->peer_window);
  if (vi->state == vip::kConnected) {
    if (header.immediate != 0) note_refusal(header.vi, header.psn, header.offset, header.immediate);
    end_connection(header.vi, End::kRemote, vip::kConnectionLost);
  }
}

bool Stack::may_answer() {
  const std::uint64_t epoch = now_ / kMs;
  if (epoch != answer_epoch_) {
    answer_epoch_ = epoch;
    answers_in_epoch_ = 0;
  }
  return ++answers_in_epoch_ <= kAnswersPerMs;
}

// Tells the sender of a frame that the connection it belongs to does not exist (any more).
void Stack::send_reset(const wire::Decoded& offending) {
  if (!may_answer()) return;
  ++root_->counters.resets_sent;
  send_short(Type::kReset, offending.source, offending.header.vi, offending.header.key, 0, 0, 0);
}

void Stack::on_reset(const wire::Decoded& frame) {
  const ViIndex i = find_by_peer_key(frame.source, frame.header.vi, frame.header.key);
  if (i == kNone) {
    // The answer to a DISCONNECT whose connection the peer had ended itself.
    on_disconnect_ack(frame);
    ++root_->counters.drop_bad_reset;
    return;
  }
  if (vis_[i].state == vip::kConnectPending && vis_[i].peer_linked) return leave_peer(i);
  const std::uint32_t peer = vis_[i].peer;
  const std::uint32_t others = peers_[peer].count - 1;
  peers_[peer].probe_next = vis_[i].peer_next;
  end_connection(i, End::kLost, vip::kConnectionLost);
  // A peer that forgot one connection has probably forgotten its neighbours: ask at once.
  if (others != 0) probe(peer);
}

std::size_t Stack::remains(const void* segment, const StackLimits& limits,
                           std::span<Remains> out) {
  const Parts at = parts(limits);
  const auto* base = static_cast<const std::byte*>(segment);
  const auto* root = reinterpret_cast<const state::Root*>(base + at.root);
  std::size_t count = 0;
  const auto add = [&](const Remains& one) {
    const bool group = (one.peer[0] & 1) != 0;
    if (!group && one.peer != MacAddress{} && count < out.size()) out[count++] = one;
  };
  const auto* vi = reinterpret_cast<const Vi*>(base + at.vis);
  const std::uint32_t vis = std::min(once(root->vis.fresh), limits.vis);
  for (std::uint32_t i = 0; i < vis; ++i, ++vi) {
    if (once(vi->session) == kNone) continue;
    const std::uint32_t state = once(vi->state);
    const bool half = once(vi->accepting) != 0 || once(vi->peer_linked) != 0;
    if (state != vip::kConnected && !(state == vip::kConnectPending && half)) continue;
    add({once(vi->peer_address), once(vi->peer_vi), once(vi->peer_key), once(vi->send_next),
         once(vi->receive_next)});
  }
  const auto* goodbye = reinterpret_cast<const state::Goodbye*>(base + at.goodbyes);
  const std::uint32_t goodbyes = std::min(once(root->goodbyes.fresh), limits.goodbyes);
  for (std::uint32_t g = 0; g < goodbyes; ++g, ++goodbye) {
    if (once(goodbye->in_use) == 0) continue;
    add({once(goodbye->address), once(goodbye->vi), once(goodbye->key), once(goodbye->psn),
         once(goodbye->ack)});
  }
  return count;
}

std::optional<Stack::Remains> Stack::connection(const void* segment, const StackLimits& limits,
                                               std::uint32_t i, std::uint64_t key) {
  if (i >= limits.vis) return std::nullopt;
  const auto* base = static_cast<const std::byte*>(segment);
  const Vi& vi = reinterpret_cast<const Vi*>(base + parts(limits).vis)[i];
  if (once(vi.session) == kNone || once(vi.state) != vip::kConnected ||
      once(vi.local_key) != key) {
    return std::nullopt;
  }
  return Remains{once(vi.peer_address), once(vi.peer_vi), once(vi.peer_key), once(vi.send_next),
                 once(vi.receive_next)};
}

std::uint64_t Stack::beats(const void* segment, const StackLimits& limits) {
  const auto* base = static_cast<const std::byte*>(segment);
  return once(reinterpret_cast<const state::Root*>(base + parts(limits).root)->beats);
}

// ---------------------------------------------------------------------------- keep-alive

// One probe for each peer host, not for each VI: the cost does not grow with idle connections. The
// VIs take turns, also while the peer is heard, so that a connection of which only the peer knows
// that it is over is found some time.
void Stack::peer_timeout(std::uint32_t p) {
  state::Peer& peer = peers_[p];
  ++root_->beats;
  // While nobody drove us, nobody could be heard: that time is not the peer's silence.
  const std::uint64_t late = now_ - std::min(now_, peer.due);
  peer.last_heard = std::min(now_, peer.last_heard + late);
  if (peer.vouched != 0) peer.vouched = std::min(now_, peer.vouched + late);
  const std::uint64_t silence = now_ - peer.last_heard;
  if (silence >= limits_.peer_timeout_ns && !is_excused(peer)) {
    while (peer.in_use && peer.vis != kNone) {
      const bool last = peer.count == 1;
      end_connection(peer.vis, End::kLost, vip::kConnectionLost);
      if (last) return;
    }
    return;
  }
  const ViIndex probed = probe(p);
  if (silence >= limits_.keepalive_ns && probed != kNone) ask_whether_stopped(probed);
  const std::uint64_t end = peer.last_heard + limits_.peer_timeout_ns;
  const std::uint64_t next = now_ + limits_.keepalive_ns;
  watch_peer(p, end > now_ ? std::min(next, end) : next);
}

void Stack::watch_peer(std::uint32_t p, std::uint64_t until) {
  peers_[p].due = until;
  wheel_.arm(peer_timer(p), until);
}

// Returns the VI whose turn it was.
Stack::ViIndex Stack::probe(std::uint32_t p) {
  state::Peer& peer = peers_[p];
  for (unsigned n = 0; n < kProbeTries; ++n) {
    const ViIndex i = peer.probe_next != kNone ? peer.probe_next : peer.vis;
    const Vi& vi = vis_[i];
    peer.probe_next = vi.peer_next;
    // The peer need not know of a connection that is being made.
    if (vi.state != vip::kConnected) continue;
    ++root_->counters.probes_sent;
    send_short(Type::kProbe, vi.peer_address, vi.peer_vi, vi.peer_key, vi.send_next,
               vi.receive_next, 0);
    return i;
  }
  return kNone;
}

void Stack::on_probe(const wire::Decoded& frame) {
  const Vi* vi = vi_for(frame, true);
  if (vi == nullptr) {
    if (frame.header.type == Type::kProbe) send_reset(frame);
    return;
  }
  if (frame.header.type == Type::kProbe) {
    send_short(Type::kProbeAck, vi->peer_address, vi->peer_vi, vi->peer_key, vi->send_next,
               vi->receive_next, 0);
  }
}

}  // namespace viaduct
