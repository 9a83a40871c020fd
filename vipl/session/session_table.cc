#include "vipl/session/session_table.h"

#include "vipl/granted/admission.h"
#include "vipl/process/lock.h"
#include "vipl/process/sys.h"
#include "vipl/session/discovery_answers.h"
#include "vipl/session/reattach.h"
#include "vipl/session/thread_registry.h"

namespace viaduct::vipl {

constinit Session g_sessions[kMaxSessions] = {};

namespace registry {

constinit LockWord g_lock;

namespace {

// ns, of the process's first thread before it was shortened; 0: it was not.
std::uint64_t g_first_slice VIADUCT_GUARDED_BY(g_lock) = 0;

// Releases the locks that the first process of a family may have held when it ended.
void release_locks(layout::Vi& vi) {
  Lock::release_of(vi.send.lock, 0);
  Lock::release_of(vi.receive.lock, 0);
}

std::size_t descriptor_bytes(const Session& s) { return s.capacity.slots * sizeof(void*); }
std::size_t attribute_bytes(const Session& s) { return s.capacity.vis * sizeof(VIP_VI_ATTRIBUTES); }
std::size_t own_vi_bytes(const Session& s) { return s.own_vi_words() * sizeof s.own_vis[0]; }
std::size_t posted_bytes(const Session& s) { return s.capacity.vis * sizeof s.family.posted[0]; }

void release_segments(Session& s) {
  if (s.view_bytes != 0 && s.view.mapped()) sys::unmap(s.view.base(), s.view_bytes);
  if (s.control_session.mapped()) sys::unmap(s.control_session.base(), s.control_bytes);
  s.view_bytes = 0;
  s.view = s.control_session = layout::View();
}

// No thread is inside. A lock that seems to be held is so by a thread that a forked child does not have.
void has_no_threads([[maybe_unused]] const Session& s) VIADUCT_ASSERT_CAPABILITY(s.notify_lock, s.discoverer) {}

void release_handlers(Session& s) {
  has_no_threads(s);
  if (s.notifications.entries != nullptr) {
    sys::unmap(s.notifications.entries, Session::Notifications::kBytes);
  }
  if (s.discovery != nullptr) sys::unmap(s.discovery, sizeof(Discovery));
  s.notifications = {};
  s.discovery = nullptr;
}

void release_memory(Session& s) VIADUCT_REQUIRES(g_lock) {
  s.regions.destroy();
  release_handlers(s);
  if (s.family.posted != nullptr) sys::unmap(s.family.posted, posted_bytes(s));
  s.family = {};
  if (s.descriptors != nullptr) sys::unmap(s.descriptors, descriptor_bytes(s));
  if (s.attributes != nullptr) sys::unmap(s.attributes, attribute_bytes(s));
  if (s.own_vis != nullptr) sys::unmap(s.own_vis, own_vi_bytes(s));
  s.descriptors = nullptr;
  s.attributes = nullptr;
  s.own_vis = nullptr;
  release_segments(s);
}

void close_descriptors(Session& s) VIADUCT_REQUIRES(g_lock) {
  for (int* const fd : {&s.socket, &s.agent_wake, &s.poll_wake, &s.granted_segment, &s.umem, &s.control_socket_fd, &s.driver_wakes[0],
                        &s.driver_wakes[1]}) {
    if (*fd >= 0) sys::close(*fd);
    *fd = -1;
  }
  reattach::end(s);
}

void wake_for_agent(Session& s) {
  for (std::uint32_t i = 0; i < layout::kCommands; ++i) {
    layout::Command& command = s.control_session.command(i);
    if (command.owner.load() == 1 + s.control_member) s.wake(command.sleepers);
  }
}

}  // namespace

Session& at(std::uint32_t number) { return g_sessions[number]; }

bool make_memory(Session& s) {
  s.descriptors = static_cast<VIP_DESCRIPTOR**>(sys::map(descriptor_bytes(s), -1));
  s.attributes = static_cast<VIP_VI_ATTRIBUTES*>(sys::map(attribute_bytes(s), -1));
  s.own_vis = static_cast<std::atomic<std::uint64_t>*>(sys::map(own_vi_bytes(s), -1));
  return s.descriptors != nullptr && s.attributes != nullptr && s.own_vis != nullptr &&
         s.regions.create();
}

void note_posted(Session& s) {
  if (s.family.posted == nullptr) {
    s.family.posted = static_cast<std::uint32_t(*)[2]>(sys::map(posted_bytes(s), -1));
  }
  for (std::uint32_t vi = 0; s.family.posted != nullptr && vi < s.made_vis(); ++vi) {
    const layout::Vi& shared = s.view.vi(vi);
    if (shared.send.owner.load(std::memory_order_relaxed) != s.member) continue;
    s.family.posted[vi][0] = shared.send.posted.load(std::memory_order_relaxed);
    s.family.posted[vi][1] = shared.receive.posted.load(std::memory_order_relaxed);
  }
}

void set_forked(Session& s) {
  release_handlers(s);
  release_segments(s);
  close_descriptors(s);
  s.state = Session::State::kForked;
}

void shorten_slices() {
  const std::uint64_t had = sys::shorten_slice(sys::process());
  if (had != 0) g_first_slice = had;
  if (sys::thread() != sys::process()) sys::shorten_slice(sys::thread());
}

void set_free(Session& s) {
  if (s.driver != nullptr) Driver::destroy(s.driver, false);
  s.driver = nullptr;
  release_memory(s);
  close_descriptors(s);
  // The generation changes only now, as threads that were inside made handles of it.
  ++s.generation;
  s.state = Session::State::kFree;
  for (const Session& each : g_sessions) {
    if (each.state != Session::State::kFree) return;
  }
  sys::restore_slice(sys::process(), g_first_slice);
  g_first_slice = 0;
}

int descriptors(const Session& s, int* fds, int most) {
  int count = 0;
  const auto add = [&](int fd) {
    if (fd < 0) return;
    if (count < most) fds[count] = fd;
    ++count;
  };
  for (const int fd : {s.socket, s.agent_wake, s.poll_wake, s.granted_segment, s.umem, s.control_socket_fd, s.driver_wakes[0],
                       s.driver_wakes[1]}) {
    add(fd);
  }
  if (s.driver == nullptr) return count;
  int its[Driver::kDescriptors];
  s.driver->descriptors(its);
  for (const int fd : its) add(fd);
  s.driver->attached_processes().descriptors(add);
  return count;
}

void lose_control_session(Session& s) {
  s.control_lost.store(true);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  wake_for_agent(s);
}

void lose(Session& s) {
  // From halt() on whatever is posted is given back as flushed.
  if (s.driver != nullptr) s.driver->halt();
  // Attached processes are told here and now, however long the end of the session takes.
  if (s.driver != nullptr) admission::end_all(*s.driver);
  s.lost.store(true);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  // Only sleepers of this process are woken: other processes of the family have their own.
  for (std::uint32_t i = 0; i < layout::kCommands; ++i) {
    layout::Command& command = s.view.command(i);
    if (command.owner.load() == 1 + s.member) s.wake(command.sleepers);
  }
  // Where possible only VIs that were made are looked at: other VIs have no page of the segment yet, and a look would
  // make one.
  const std::uint32_t vis = s.view_bytes != 0 ? s.capacity.vis : s.made_vis();
  for (std::uint32_t i = 0; i < vis; ++i) {
    layout::Vi& vi = s.view.vi(i);
    if (s.view_bytes != 0) release_locks(vi);
    if (vi.send.owner.load() != s.member) continue;
    s.wake(vi.send.sleepers);
    s.wake(vi.receive.sleepers);
  }
  for (std::uint32_t i = 0; i < s.capacity.cqs; ++i) {
    layout::Cq& cq = s.view.cq(i);
    if (s.view_bytes != 0) Lock::release_of(cq.lock, 0);
    if (cq.owner.load() == s.member) s.wake(cq.sleepers);
  }
  // Threads that sleep on the port or in a command at the agent must look too.
  if (s.driver == nullptr && s.view_bytes == 0) return s.alert();
  wake_for_agent(s);
  if (s.driver == nullptr) return s.alert();
  // The number stays odd or even, but changes: a thread that is about to sleep on it does not.
  s.control_epoch.fetch_add(2);
  sys::futex_wake(s.control_epoch);
  s.driver->wake_port_watcher();
  s.alert();
}

bool reap() {
  bool left = false;
  for (Session& s : g_sessions) {
    if (s.state != Session::State::kClosed) continue;
    if (thread_registry::anyone_inside(s.number)) {
      left = true;
    } else {
      set_free(s);
    }
  }
  return left;
}

}  // namespace registry
}  // namespace viaduct::vipl
