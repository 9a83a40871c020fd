#include "sovia/background/requests.h"

#include <string.h>

#include <utility>

#include "sovia/background/lane_family.h"
#include "sovia/lane/engine.h"
#include "sovia/lane/listener.h"
#include "sovia/process/once.h"
#include "sovia/process/options.h"
#include "sovia/process/own_descriptors.h"
#include "sovia/process/wake_event.h"
#include "sovia/socket/fork_handoff.h"
#include "sovia/socket/socket.h"
#include "xdp/mutex.h"

namespace viaduct::sovia::background {
namespace {

bool started() VIADUCT_REQUIRES(requests().lock) { return requests().start != nullptr && requests().start(); }

}  // namespace

Requests& requests() {
  return once([]() -> Requests& { return *new Requests; });
}

bool ensure_thread() {
  const LockGuard guard(requests().lock);
  return started();
}

void poke() {
  if (requests().idle.exchange(false)) wake_event::ring(requests().poke.load());
}

void prepare(int fd) {
  Task task;
  task.flow_known = flow_of(fd, task.flow);
  if (!task.flow_known || is_loopback(task.flow)) return;
  {
    const LockGuard guard(requests().lock);
    if (!started()) return;
    requests().tasks.push_back(std::move(task));
  }
  poke();
}

std::uint32_t calls_before_lane(int fd, Role role) {
  if (!requests().knows_any.load(std::memory_order_relaxed)) return PeerHistory::kAsUsual;
  Flow flow;
  if (!flow_of(fd, flow)) return PeerHistory::kAsUsual;
  const LockGuard guard(requests().lock);
  return requests().known.calls_before_lane(peer_of(flow, role), now_ns());
}

Reason ask(Socket& socket, int fd, Role role) {
  Task task;
  task.flow_known = flow_of(fd, task.flow);
  task.fd = fd;
  if (task.flow_known && is_loopback(task.flow) && options().local == 0) return Reason::kLocal;
  if (options().route == kRouteKernel) return Reason::kChosen;
  const bool begins = options().route == kRouteAuto && engine::nic() == nullptr && was_shared(socket);
  if (begins && !lane_family::child_may_begin()) return Reason::kOthersTry;
  task.role = role;
  if (task.flow_known) task.peer = peer_of(task.flow, role);
  task.asker = &socket;
  task.socket = socket.reference();
  {
    const LockGuard guard(requests().lock);
    if (!started()) return Reason::kResources;
    requests().tasks.push_back(std::move(task));
  }
  poke();
  return Reason::kNone;
}

bool cancel(const Socket& socket) {
  Task dropped;  // goes when the lock is free
  const LockGuard guard(requests().lock);
  std::vector<Task>& tasks = requests().tasks;
  for (Task& task : tasks) {
    if (task.asker != &socket) continue;
    dropped = std::move(task);
    if (&task != &tasks.back()) task = std::move(tasks.back());
    tasks.pop_back();
    if (dropped.flow_known && socket.closed()) requests().learn(dropped.peer, false);
    return true;
  }
  // The thread may take long over this socket's task, as it opens the NIC. The caller need not wait: the thread drops
  // the task afterwards.
  if (requests().at_work == &socket) {
    requests().cancelled = true;
    return true;
  }
  bool any = false;
  for (BackgroundLane* const lane : requests().lanes) {
    if (&lane->asker != &socket || lane->stage != BackgroundLane::Stage::kAsking) continue;
    lane->cancelled.store(true);
    any = true;
  }
  return any;
}

void look_at(BackgroundLane& lane) {
  {
    if (lane.queued.exchange(true)) return;
    const LockGuard guard(requests().lock);
    lane.next_queued = requests().queue;
    requests().queue = &lane;
  }
  poke();
}

void watch_fall(Socket& socket, int fd) {
  bool started;
  {
    const LockGuard guard(requests().lock);
    started = background::started();
    if (started) requests().fallen.push_back({socket.reference(), fd});
  }
  if (started) {
    poke();
  } else {
    own_descriptors::close(fd);
  }
}

void hurry() {
  if (listener::hurry()) poke();
}

void flush_later(BackgroundLane& lane) {
  if (lane.holding.load(std::memory_order_relaxed) || lane.holding.exchange(true)) return;
  const std::uint64_t at = now_ns() + options().combine_us * 1000;
  std::uint64_t before = requests().flush_at.load();
  while (at < before && !requests().flush_at.compare_exchange_weak(before, at)) continue;
  if (at < before) poke();
}

}  // namespace viaduct::sovia::background
