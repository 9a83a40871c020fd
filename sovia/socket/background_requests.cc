#include "sovia/socket/background_requests.h"

#include <string.h>

#include <utility>

#include "sovia/process/libc.h"
#include "sovia/process/options.h"
#include "sovia/process/own_descriptors.h"
#include "sovia/socket/socket_route.h"

namespace viaduct::sovia::background {
namespace {

// Under the lock.
bool started() { return requests().start != nullptr && requests().start(); }

}  // namespace

Requests& requests() {
  static Requests& made = *new Requests;
  return made;
}

void poke() {
  if (!requests().idle.exchange(false)) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = libc::write(requests().poke.load(), &one, sizeof one);
}

void prepare(int fd) {
  Task task;
  task.flow_known = flow_of(fd, task.flow);
  if (!task.flow_known || is_loopback(task.flow)) return;
  {
    const std::scoped_lock guard(requests().lock);
    if (!started()) return;
    requests().tasks.push_back(std::move(task));
  }
  poke();
}

Reason ask(SocketRoute& socket, int fd) {
  Task task;
  task.flow_known = flow_of(fd, task.flow);
  task.fd = fd;
  if (task.flow_known && is_loopback(task.flow) && options().local == 0) return Reason::kLocal;
  // Both ends know the listener's port; the lower one is usually it.
  const auto number = [](const FlowEnd& end) { return end.port[0] << 8 | end.port[1]; };
  const bool mine = task.flow_known && number(task.flow.local) < number(task.flow.remote);
  memcpy(&task.port, mine ? task.flow.local.port : task.flow.remote.port, sizeof task.port);
  task.route = &socket;
  task.socket = socket.reference();
  {
    const std::scoped_lock guard(requests().lock);
    if (!started()) return Reason::kResources;
    requests().tasks.push_back(std::move(task));
  }
  poke();
  return Reason::kNone;
}

bool cancel(const SocketRoute& socket) {
  std::unique_lock guard(requests().lock);
  for (std::size_t i = 0; i < requests().tasks.size(); ++i) {
    if (requests().tasks[i].route != &socket) continue;
    const Task dropped = std::move(requests().tasks[i]);
    requests().tasks[i] = std::move(requests().tasks.back());
    requests().tasks.pop_back();
    guard.unlock();
    return true;
  }
  // While the NIC is being opened one need not wait for it.
  if (requests().at_work == &socket) {
    requests().cancelled = true;
    return true;
  }
  for (BackgroundLane* const lane : requests().lanes) {
    if (&lane->route != &socket || lane->stage != BackgroundLane::Stage::kAsking) continue;
    lane->cancelled.store(true);
    return true;
  }
  return false;
}

void look_at(BackgroundLane& lane) {
  {
    if (lane.queued.exchange(true)) return;
    const std::scoped_lock guard(requests().lock);
    lane.next_queued = requests().queue;
    requests().queue = &lane;
  }
  poke();
}

void watch_fall(SocketRoute& socket, int fd) {
  bool started;
  {
    const std::scoped_lock guard(requests().lock);
    started = background::started();
    if (started) requests().fallen.push_back({socket.reference(), fd});
  }
  if (started) {
    poke();
  } else if (fd >= 0) {
    own_descriptors::release(fd);
    libc::close(fd);
  }
}

void hurry() {
  std::atomic<bool>& hurries = requests().hurries;
  if (!hurries.load(std::memory_order_relaxed) && !hurries.exchange(true)) poke();
}

void flush_later(BackgroundLane& lane) {
  if (lane.holding.load(std::memory_order_relaxed) || lane.holding.exchange(true)) return;
  const std::uint64_t at = now_ns() + options().combine_us * 1000;
  std::uint64_t before = requests().flush_at.load();
  while (at < before && !requests().flush_at.compare_exchange_weak(before, at)) continue;
  if (at < before) poke();
}

}  // namespace viaduct::sovia::background
