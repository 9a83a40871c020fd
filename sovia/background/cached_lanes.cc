#include "sovia/background/cached_lanes.h"

#include <algorithm>
#include <new>
#include <utility>

#include "sovia/background/background_state.h"
#include "sovia/lane/engine.h"
#include "sovia/process/clock.h"
#include "sovia/process/counters.h"
#include "xdp/mutex.h"

namespace viaduct::sovia::background {
namespace {

constexpr std::uint64_t kParkNs = 1'000 * kMs;  // for the peer's program to close too
constexpr int kMostForCache = 4;                // VIs being made for connections that have ended
constexpr int kMostToPark = 64;                 // lanes of closed sockets that wait for the peer

// Options for a lane on a cached VI: lanes of messages have VIs of another kind, which are not cached.
LaneOptions options_without_messages(const SocketModes& modes) {
  LaneOptions lane = lane_options(modes);
  lane.messages = false;
  return lane;
}

// A task for a lane end that has asked for a new VI already. It is needed when the peer offers a cached VI only after
// that request.
Task task_of(LaneEndpoint& end) {
  Task task;
  task.socket = end.socket->reference();
  task.asker = task.socket.get();
  task.flow = end.tcp;
  task.flow_known = true;
  task.fd = end.fd;
  task.role = end.role;
  task.peer = end.peer;
  return task;
}

bool carries_messages(LaneEndpoint& end) {
  const LockGuard guard(end.lane.lock());
  return end.lane.remote.carries_messages();
}

}  // namespace

CachedVi* take_from_cache(const Task& task, const Way& way) {
  if (state().vi_cache.empty() || task.socket->modes.carries_messages()) return nullptr;
  engine::turn();  // PARK may have come
  if (task.role == Role::kCaller) return state().vi_cache.take(task, way);
  return state().vi_cache.take_offered(task, way);
}

LaneEndpoint* end_on_cached(Task& task, CachedVi& vi) {
  Socket& socket = *task.socket;
  engine::pause();
  auto* const end =
      new (std::nothrow) LaneEndpoint(socket.reference(), socket, vi.vi, options_without_messages(socket.modes));
  if (end == nullptr) {
    vi.vi.destroy();
    engine::count_lanes(-1);
  } else {
    end->connected = true;
    vi.pass_on(*end);
  }
  engine::go_on();
  delete &vi;
  counters::add(Counter::kLanesFromCache);
  return end;
}

bool awaits_offer(const Task& task) {
  if (task.wait_until != 0 || !task.flow_known || task.socket->modes.carries_messages()) return false;
  return state().vi_cache.may_be_offered(task) && !state().vi_cache.is_offered(task);
}

void match_offers() {
  if (!state().vi_cache.has_offers()) return;
  const LockGuard guard(requests().lock);
  for (std::size_t i = 0; i < requests().awaiting.size();) {
    Task& waiting = requests().awaiting[i];
    if (!state().vi_cache.is_offered(waiting)) {
      ++i;
      continue;
    }
    requests().tasks.push_back(std::move(waiting));
    if (i + 1 != requests().awaiting.size()) waiting = std::move(requests().awaiting.back());
    requests().awaiting.pop_back();
  }
  for (LaneEndpoint* const end : state().ends) {
    if (end->stage != LaneEndpoint::Stage::kAsking || end->connected || end->cancelled) continue;
    Task task = task_of(*end);
    if (task.socket->modes.carries_messages() || !state().vi_cache.is_offered(task)) continue;
    task.wait_until = 1;
    end->cancelled.store(true);
    end->replaced = true;
    requests().tasks.push_back(std::move(task));
  }
}

bool goes_to_cache(LaneEndpoint& end, std::uint64_t now) {
  if (end.replaced || end.role == Role::kNeither || carries_messages(end)) return false;
  if (end.fills_cache) return true;
  const auto known = state().no_peer.find(end.peer);
  if (known == state().no_peer.end() || known->second.answered_at == 0) return false;
  const auto count = std::count_if(state().ends.begin(), state().ends.end(),
                                   [](const LaneEndpoint* each) { return each->fills_cache; });
  end.fills_cache = count < kMostForCache && state().vi_cache.has_room();
  end.give_up_at = std::min(end.give_up_at, now + kParkNs);
  return end.fills_cache;
}

bool awaits_end(LaneEndpoint& end, std::uint64_t now) {
  if (end.role == Role::kNeither || end.lane.remote.carries_messages() || !state().vi_cache.has_room()) return false;
  if (end.lane.control.broken() || !end.lane.greeting.may_start()) return false;
  if (end.lane.control.receiving() == Lane::State::kEnded) return false;
  if (end.park_until == 0) {
    const auto count = std::count_if(state().ends.begin(), state().ends.end(),
                                     [](const LaneEndpoint* each) { return each->park_until != 0; });
    end.park_until = count < kMostToPark ? now + kParkNs : now;
  }
  return now < end.park_until;
}

}  // namespace viaduct::sovia::background
