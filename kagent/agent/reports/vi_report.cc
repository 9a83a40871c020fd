#include "kagent/agent/reports/vi_report.h"

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "kagent/stack/tables.h"

namespace viaduct {
namespace {

// Reads shared memory just once: another process may be writing to it.
template <class T>
T once(const T& shared) {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<T>(once(reinterpret_cast<const std::underlying_type_t<T>&>(shared)));
  } else {
    return __atomic_load_n(&shared, __ATOMIC_RELAXED);
  }
}

void copy(const MacAddress& from, std::uint8_t* to) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = once(from[i]);
}

template <class T>
const T* table(const void* segment, std::size_t at) {
  return reinterpret_cast<const T*>(static_cast<const std::byte*>(segment) + at);
}

std::uint64_t since(std::uint64_t then, std::uint64_t now) {
  return then == 0 ? ~0ull : now - std::min(then, now);
}

// A mark that tells two connections apart, and says nothing of their keys that would help to guess them.
std::uint16_t mark_of(std::uint64_t local_key, std::uint64_t peer_key) {
  return static_cast<std::uint16_t>((local_key ^ peer_key) * 0x9e3779b97f4a7c15ull >> 48);
}

void describe(const state::Vi& vi, std::uint64_t now, report::Vi& out) {
  out.generation = once(vi.generation);
  out.reliability = once(vi.reliability);
  out.state = static_cast<std::uint8_t>(once(vi.state));
  out.max_transfer = once(vi.max_transfer);
  out.heard_ns = out.sent_ns = ~0ull;
  if (out.state != vip::kConnected) return;
  out.losses = static_cast<std::uint8_t>(once(vi.tx.losses));
  out.path = static_cast<std::uint8_t>(once(vi.tx.path));
  copy(vi.link.peer_address, out.peer);
  out.peer_vi = once(vi.link.peer_vi);
  out.payload = once(vi.link.payload);
  out.next_psn = once(vi.tx.send_next);
  out.awaited_psn = once(vi.rx.receive_next);
  out.window = once(vi.tx.congestion_window);
  out.peer_window = once(vi.tx.peer_window);
  out.resends = once(vi.tx.resends);
  out.connection = mark_of(once(vi.link.local_key), once(vi.link.peer_key));
  out.held_frames = once(vi.rx.held_count);
  out.sent_ns = since(once(vi.tx.sent_time), now);
  if (out.reliability == vip::kUnreliable) return;
  // Both change while a granted program sends.
  out.in_flight = std::min(out.next_psn - once(vi.tx.send_una), state::kWindow);
  out.timeouts = once(vi.tx.timeouts);
  out.rtt_ns = once(vi.tx.smoothed_rtt);
  out.rtt_variation_ns = once(vi.tx.rtt_variation);
  out.least_rtt_ns = once(vi.tx.least_rtt);
}

}  // namespace

std::uint32_t read_vis(const void* segment, const StackLimits& limits, std::uint32_t from, std::uint64_t now,
                       const Own& own, std::vector<report::Vi>& out) {
  const Tables::Parts at = Tables::parts(limits);
  const std::uint32_t fresh = once(table<state::Root>(segment, at.root)->vis.fresh);
  const std::uint32_t end = std::min(fresh, limits.vis);
  const auto* const vis = table<state::Vi>(segment, at.vis);
  const auto* const peers = table<state::Peer>(segment, at.peers);
  std::uint32_t i = from;
  for (std::uint32_t looked = 0; i < end && looked < report::kVisLooked; ++i, ++looked) {
    const std::uint32_t session = once(vis[i].session);
    if (session == state::kNone) continue;
    if (out.size() >= report::kVisOfPage) return i;
    report::Vi record{};
    if (!own({session, once(vis[i].program)}, record)) continue;
    record.vi = i;
    describe(vis[i], now, record);
    const std::uint32_t peer = once(vis[i].link.peer);
    if (record.state == vip::kConnected && peer < limits.peers) {
      copy(peers[peer].host, record.peer_host);
      record.heard_ns = since(once(peers[peer].last_heard), now);
    }
    out.push_back(record);
  }
  return i < end ? i : 0;
}

void read_holdings(const void* segment, const StackLimits& limits, std::uint32_t session, report::Session& out) {
  const auto& held = table<state::Session>(segment, Tables::parts(limits).sessions)[session];
  out.vis = once(held.vis);
  out.cqs = once(held.cqs);
  out.regions = once(held.regions);
  out.registered_bytes = once(held.registered_bytes);
}

void read_counters(const void* segment, const StackLimits& limits, report::Session& out) {
  const auto& root = *table<state::Root>(segment, Tables::parts(limits).root);
  out.counted = 1;
  out.connected = once(root.connected);
  out.messages_sent = once(root.counters.messages_sent);
  out.messages_received = once(root.counters.messages_received);
  out.bytes_sent = once(root.counters.bytes_sent);
  out.bytes_received = once(root.counters.bytes_received);
  out.data_frames_sent = once(root.counters.data_frames_sent);
  out.retransmissions = once(root.counters.retransmissions);
  out.retransmission_timeouts = once(root.counters.retransmission_timeouts);
  out.connections_lost = once(root.counters.connections_lost);
}

}  // namespace viaduct
