#include "kagent/stack/tables.h"

#include <algorithm>

namespace viaduct {

using state::kBuckets;
using state::kNone;
using state::Vi;

namespace {

std::uint32_t key_bucket_count(const StackLimits& limits) {
  std::uint32_t n = 64;
  while (n < limits.vis) n *= 2;
  return n;
}

// How many timers there are: one for each number that Timers gives.
std::size_t timer_count(const StackLimits& limits) {
  return std::size_t{limits.vis} + limits.requests + limits.goodbyes + limits.peers +
         std::size_t{limits.sessions} * layout::kCommands + 1;
}

}  // namespace

Tables::Parts Tables::parts(const StackLimits& limits) {
  Parts p{};
  std::size_t at = 0;
  const auto add = [&at]<class T>(T*, std::size_t count) {
    const std::size_t here = at;
    at = (at + sizeof(T) * count + 63) & ~std::size_t{63};
    return here;
  };
  const std::size_t vis = limits.vis;
  p.root = add(static_cast<state::Root*>(nullptr), 1);
  p.sessions = add(static_cast<state::Session*>(nullptr), limits.sessions);
  p.programs = add(static_cast<state::Program*>(nullptr),
                   std::size_t{limits.sessions} + limits.members);
  p.vis = add(static_cast<Vi*>(nullptr), vis);
  p.cqs = add(static_cast<state::Cq*>(nullptr), limits.cqs);
  p.regions = add(static_cast<state::Region*>(nullptr), limits.regions);
  p.ptags = add(static_cast<state::Ptag*>(nullptr), limits.ptags);
  p.peers = add(static_cast<state::Peer*>(nullptr), limits.peers);
  p.requests = add(static_cast<state::Request*>(nullptr), limits.requests);
  p.goodbyes = add(static_cast<state::Goodbye*>(nullptr), limits.goodbyes);
  p.claims = add(static_cast<state::Claim*>(nullptr), std::size_t{limits.sessions} * limits.claims);
  p.held = add(static_cast<Frame*>(nullptr), vis * state::kWindow);
  p.pendings = add(static_cast<state::Pending*>(nullptr),
                   std::size_t{limits.sessions} * layout::kCommands);
  p.attempts = add(static_cast<state::Attempt*>(nullptr), vis);
  p.delays = add(static_cast<state::Delay*>(nullptr), vis);
  p.in_flight = add(static_cast<state::InFlight*>(nullptr), vis * state::kWindow);
  p.resent_marks = add(static_cast<std::uint32_t*>(nullptr), vis * state::kWindow);
  p.responses = add(static_cast<state::Response*>(nullptr), vis * state::kMaxReads);
  p.key_buckets = add(static_cast<std::uint32_t*>(nullptr), key_bucket_count(limits));
  p.peer_buckets = add(static_cast<std::uint32_t*>(nullptr), kBuckets);
  p.request_buckets = add(static_cast<std::uint32_t*>(nullptr), kBuckets);
  p.goodbye_buckets = add(static_cast<std::uint32_t*>(nullptr), kBuckets);
  p.wheel = add(static_cast<TimerWheel::State*>(nullptr), 1);
  p.timers = add(static_cast<TimerWheel::Entry*>(nullptr), timer_count(limits));
  p.history = add(static_cast<state::History*>(nullptr), 1);
  p.views = add(static_cast<layout::View*>(nullptr),
                std::size_t{limits.sessions} + limits.members);
  p.open_sessions = add(static_cast<std::uint32_t*>(nullptr), limits.sessions);
  p.total = at;
  return p;
}

Tables::Tables(void* segment, const StackLimits& its_limits, std::uint16_t its_ether_type,
               const MacAddress& its_address, const StackAddresses& its_addresses,
               std::uint32_t port_mtu, std::uint32_t lendable, std::uint64_t its_now)
    : limits(its_limits), now(its_now), address(its_address), addresses(its_addresses),
      mtu(port_mtu), ether_type(its_ether_type), held_limit(std::min(its_limits.held, lendable)),
      key_bucket_mask(key_bucket_count(its_limits) - 1) {
  const Parts p = parts(limits);
  auto* base = static_cast<std::byte*>(segment);
  const auto part = [base]<class T>(T*& out, std::size_t offset) {
    out = reinterpret_cast<T*>(base + offset);
    return out;
  };
  const auto pool = [&]<class T>(Pool<T>& out, std::size_t offset, state::PoolHead& head,
                                 std::uint32_t capacity) {
    T* items = nullptr;
    out.attach(part(items, offset), &head, capacity);
    out.reset();
  };
  part(root, p.root);
  part(sessions, p.sessions);
  part(programs, p.programs);
  members.attach(programs + limits.sessions, &root->members, limits.members);
  members.reset();
  pool(vis, p.vis, root->vis, limits.vis);
  pool(cqs, p.cqs, root->cqs, limits.cqs);
  pool(regions, p.regions, root->regions, limits.regions);
  pool(ptags, p.ptags, root->ptags, limits.ptags);
  pool(peers, p.peers, root->peers, limits.peers);
  pool(requests, p.requests, root->requests, limits.requests);
  pool(goodbyes, p.goodbyes, root->goodbyes, limits.goodbyes);
  pool(claims, p.claims, root->claims, limits.sessions * limits.claims);
  part(held_frames, p.held);
  part(pendings, p.pendings);
  part(attempts, p.attempts);
  part(delays, p.delays);
  part(in_flight, p.in_flight);
  part(resent_marks, p.resent_marks);
  part(responses, p.responses);
  const auto buckets = [&](std::uint32_t*& out, std::size_t offset, std::uint32_t count) {
    part(out, offset);
    for (std::uint32_t i = 0; i < count; ++i) out[i] = kNone;
  };
  buckets(key_buckets, p.key_buckets, key_bucket_count(limits));
  buckets(peer_buckets, p.peer_buckets, kBuckets);
  buckets(request_buckets, p.request_buckets, kBuckets);
  buckets(goodbye_buckets, p.goodbye_buckets, kBuckets);
  TimerWheel::State* wheel_state = nullptr;
  TimerWheel::Entry* entries = nullptr;
  wheel.attach(part(wheel_state, p.wheel), part(entries, p.timers));
  wheel.reset(now);

  root->listeners = root->listeners_tail = kNone;
  root->live_requests = root->done_requests = {kNone, kNone};
  root->ready_head = root->ready_tail = kNone;
  for (std::uint32_t s = 0; s < limits.sessions; ++s) {
    sessions[s].ready_head = sessions[s].ready_tail = kNone;
  }
  root->ack_head = kNone;
  root->ack_due = TimerWheel::kNever;
  root->peer_attempts = kNone;

  part(history, p.history);
  part(views, p.views);
  part(open_sessions, p.open_sessions);
}

StackUsage Tables::usage() const {
  return {open_count,   vis.used(),      cqs.used(),      regions.used(),
          ptags.used(), peers.used(),    requests.used(), goodbyes.used(),
          root->held,   root->connected, claims.used(),   members.used()};
}

}  // namespace viaduct
