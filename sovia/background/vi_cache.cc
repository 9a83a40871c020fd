#include "sovia/background/vi_cache.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "sovia/process/clock.h"
#include "sovia/process/counters.h"
#include "sovia/process/units.h"
#include "xdp/mutex.h"

namespace viaduct::sovia::background {
namespace {

constexpr std::uint64_t kUntakenNs = 2'000 * kMs;  // for an offered VI, until its connection is accepted
constexpr std::uint64_t kTrimNs = 100 * kMs;     // without being used
constexpr std::size_t kMostArrivals = 8;         // before the first TRUST few packets can come

void free_vi(CachedVi* vi) VIADUCT_REQUIRES(engine::g_turn) {
  vi->vi.destroy();
  engine::count_lanes(-1);
  delete vi;
}

}  // namespace

HelloFlow hello_flow(const Flow& flow) {
  return {static_cast<std::uint8_t>(flow.ipv6 ? 6 : 4), 0, 0, 0, flow.local, flow.remote};
}

CachedVi::CachedVi(LaneEndpoint& end)
    : vi(end.vi), role(end.role), since(now_ns()), peer_(end.peer),
      outstanding_(end.lane.ring.outstanding()), peer_parked_(end.lane.control.peer_parked()) {
  std::memcpy(host_, end.host, sizeof host_);
  vi.receives.told = this;
}

// Between connections only PARK, and then WAKEUP and its followers, may come. After any other packet the VI is lost.
void CachedVi::arrived(const ProcessNic::Arrival& arrival) {
  const PacketType type = type_of(arrival.immediate);
  const bool parks = !arrival.lost && !peer_parked_ && type == PacketType::kPark;
  const bool wakes = !arrival.lost && peer_parked_ && !offered_ && role == Role::kAccepted &&
                     type == PacketType::kWakeup && arrival.bytes == sizeof(Hello);
  if (parks) {
    peer_parked_ = vi.transport().post_receive(arrival.place);
    lost_ = !peer_parked_;
  } else if (wakes) {
    Hello hello;
    std::memcpy(&hello, vi.transport().received(arrival.place), sizeof hello);
    flow_ = hello.flow;
    arrivals_.push_back(arrival);
    offered_ = true;
  } else if (offered_ && !arrival.lost && arrivals_.size() < kMostArrivals) {
    arrivals_.push_back(arrival);
  } else {
    lost_ = true;
  }
  // No need to wake the thread for PARK: it asks the VI cache when it wants a VI.
  if (parks) return;
  requests().offered.store(true);
  poke();
}

bool CachedVi::is_ready() {
  if (outstanding_ != 0) outstanding_ -= std::min<std::size_t>(outstanding_, vi.transport().completed());
  return outstanding_ == 0 && peer_parked_ && !lost_;
}

bool CachedVi::is_offered_for(const Flow& flow) const {
  return offered_ && !lost_ && flow_.family == (flow.ipv6 ? 6 : 4) && flow_.near == flow.remote &&
         flow_.far == flow.local;
}

bool CachedVi::leads_to_peer_of(const Task& task) const {
  return role == task.role && peer_ == task.peer;
}

bool CachedVi::leads_to(const Way& way) const {
  return std::memcmp(host_, way.peer, sizeof host_) == 0;
}

void CachedVi::pass_on(LaneOwner& to) {
  for (ProcessNic::Arrival& arrival : arrivals_) to.arrived(arrival);
}

void CachedVi::trim() {
  if (trimmed_ || offered_ || !is_ready()) return;
  trimmed_ = true;
  vi.trim();
}

bool ViCache::put(LaneEndpoint& end) {
  if (!has_room() || end.role == Role::kNeither) return false;
  {
    const LockGuard guard(end.lane.lock());
    if (!end.lane.park()) return false;
  }
  auto* const vi = new (std::nothrow) CachedVi(end);
  if (vi == nullptr) return false;
  vis_.push_back(vi);
  counters::add(Counter::kLanesCached);
  return true;
}

CachedVi* ViCache::take(const Task& task, const Way& way) {
  // The memory of the VI parked last is the likeliest to be in the processor's cache still.
  for (std::size_t i = vis_.size(); i-- > 0;) {
    if (vis_[i]->leads_to_peer_of(task) && vis_[i]->leads_to(way) && vis_[i]->is_ready()) return remove(i);
  }
  return nullptr;
}

CachedVi* ViCache::take_offered(const Task& task, const Way& way) {
  for (std::size_t i = 0; i < vis_.size(); ++i) {
    if (is_offered(*vis_[i], task) && vis_[i]->leads_to(way) && vis_[i]->is_ready()) return remove(i);
  }
  return nullptr;
}

CachedVi* ViCache::remove(std::size_t index) {
  CachedVi* const vi = vis_[index];
  vis_.erase(vis_.begin() + static_cast<std::ptrdiff_t>(index));
  return vi;
}

bool ViCache::is_offered(const Task& task) const {
  return std::any_of(vis_.begin(), vis_.end(),
                     [&](const CachedVi* vi) { return is_offered(*vi, task); });
}

bool ViCache::is_offered(const CachedVi& vi, const Task& task) {
  return vi.is_offered_for(task.flow) && vi.leads_to_peer_of(task);
}

bool ViCache::may_be_offered(const Task& task) const {
  if (task.role != Role::kAccepted) return false;
  return std::any_of(vis_.begin(), vis_.end(), [&](CachedVi* vi) {
    return !vi->is_offered() && !vi->is_lost() && vi->leads_to_peer_of(task);
  });
}

bool ViCache::has_offers() const {
  return std::any_of(vis_.begin(), vis_.end(), [](CachedVi* vi) { return vi->is_offered(); });
}

void ViCache::free_at(std::size_t index) {
  CachedVi* const vi = remove(index);
  engine::pause();
  free_vi(vi);
  engine::go_on();
}

std::uint64_t ViCache::tidy(std::uint64_t now) {
  std::uint64_t due = kNever;
  for (std::size_t i = 0; i < vis_.size();) {
    CachedVi& vi = *vis_[i];
    const std::uint64_t until = vi.since + (vi.is_offered() ? kUntakenNs : kKeptNs);
    if (vi.is_lost() || now >= until) {
      free_at(i);
      continue;
    }
    if (now >= vi.since + kTrimNs) {
      vi.trim();
      due = std::min(due, until);
    } else {
      due = std::min(due, vi.since + kTrimNs);
    }
    ++i;
  }
  return due;
}

bool ViCache::free_oldest() {
  if (vis_.empty()) return false;
  free_at(0);
  return true;
}

void ViCache::clear() {
  while (free_oldest()) continue;
}

}  // namespace viaduct::sovia::background
