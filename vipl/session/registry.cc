#include "vipl/session/registry.h"

#include <pthread.h>

#include "vipl/process/family.h"
#include "vipl/process/idle.h"
#include "vipl/process/lock.h"
#include "vipl/process/sys.h"
#include "vipl/process/thread.h"
#include "vipl/session/agent_monitor.h"
#include "vipl/session/callback_thread.h"
#include "vipl/session/debug_log.h"
#include "vipl/session/handshake.h"
#include "vipl/session/session_table.h"
#include "vipl/session/thread_registry.h"
#include "xdp/clock.h"

namespace viaduct::vipl::registry {
namespace {

std::uint32_t g_next VIADUCT_GUARDED_BY(g_lock);  // where to look for a free session first
bool g_prepared VIADUCT_GUARDED_BY(g_lock);

// --- fork. The child shares the parent's descriptors and segments: it lets go of them quietly, for
// the parent's sessions go on. To attach it needs only its copy of the parent's own memory.

// Notes what the child will have a copy of: what was posted so far on the queues that are ours.
void note_fork(Session& s) VIADUCT_REQUIRES(g_lock) {
  s.family.parent = s.family.id;
  s.family.forks = s.view.header().forks.fetch_add(1) + 1;
  note_posted(s);
}

void before_fork() VIADUCT_ACQUIRE(g_lock) {
  Lock::acquire(g_lock);
  for (Session& s : g_sessions) {
    if (s.state == Session::State::kOpen && !s.over()) note_fork(s);
  }
}

void after_fork_in_parent() VIADUCT_RELEASE(g_lock) { Lock::release(g_lock); }

void after_fork_in_child() VIADUCT_RELEASE(g_lock) {
  for (Session& s : g_sessions) {
    s.finisher.forget();
    if (s.state == Session::State::kFree || s.state == Session::State::kForked) continue;
    const bool open = s.state == Session::State::kOpen && !s.lost.load();
    s.key.store(0);
    if (s.driver != nullptr) Driver::destroy(s.driver, true);
    s.driver = nullptr;
    if (open || s.state == Session::State::kAttaching) {
      set_forked(s);
    } else {
      set_free(s);
    }
  }
  thread_registry::forget_other_threads();
  agent_monitor::forget();
  Lock::release(g_lock);
}

bool prepare() VIADUCT_REQUIRES(g_lock) {
  if (g_prepared) return true;
  look_at_processors();
  thread_registry::prepare();
  g_prepared = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
  return g_prepared;
}

// The segment that the stack's driver serves: the agent's own, or one of the program's.
bool map_view(Hello& hello, Session& s) VIADUCT_REQUIRES(g_lock) {
  if (hello.granted()) {
    s.granted_segment = hello.granted_segment = sys::out_of_the_way(hello.granted_segment);
    s.umem = sys::duplicate(hello.umem);
    s.driver = Driver::make(hello, s.control_session, s.pollers);
    hello.port = hello.umem = hello.trains = hello.train_guard = -1;  // the driver has taken them over
    hello.granted_segment = -1;               // the session's memory has it
    if (s.driver == nullptr) return false;
    s.view = s.driver->segment();
    s.capacity = s.driver->capacity();
  } else {
    s.view = s.control_session;
    s.capacity = hello.answer.capacity;
  }
  s.member = s.control_member = 0;
  s.family = {};
  s.family.secret = hello.answer.family;
  s.family.id = s.driver != nullptr ? s.driver->program_id() : hello.answer.program_id;
  return make_memory(s);
}

Session* find_free() VIADUCT_REQUIRES(g_lock) {
  for (std::uint32_t i = 0; i < kMaxSessions; ++i) {
    const std::uint32_t number = (g_next + i) % kMaxSessions;
    if (g_sessions[number].state != Session::State::kFree) continue;
    g_next = (number + 1) % kMaxSessions;
    g_sessions[number].number = number;
    return &g_sessions[number];
  }
  // All numbers are taken: reuse a session of the parent's to which this process has not attached.
  for (Session& s : g_sessions) {
    if (s.state != Session::State::kForked) continue;
    set_free(s);
    return &s;
  }
  return nullptr;
}

// Sets the first values of a session; everything else has been set before.
void begin(Session& s) VIADUCT_REQUIRES(g_lock) {
  s.reattach = {0, 0, -1};
  s.control_epoch.store(0);
  s.control_lock.store(0);
  s.lost.store(false);
  s.control_lost.store(false);
  s.lock.store(0);
  {
    const Lock own(s.lock);
    s.own_errors.count = 0;
  }
  s.regions.unlock();
  s.notify_lock.store(0);
  s.has_callback_thread.store(false);
  s.callback_thread.store(nullptr);
  s.pollers.clear();
  s.discoverer.store(0);
}

// All sessions are taken, but threads are about to leave some of them that are closed.
bool crowded() {
  Lock held(g_lock);
  return reap() && find_free() == nullptr;
}

bool all_free() {
  Lock held(g_lock);
  for (const Session& s : g_sessions) {
    if (s.state != Session::State::kFree && s.state != Session::State::kForked) return false;
  }
  return true;
}

// VipCloseNic without freeing the session.
bool end(Session& s, std::uint32_t number, std::uint32_t key) {
  {
    Lock held(g_lock);
    if (s.key.load() != (Session::kOpen | key)) return false;
    s.key.store(0);
    s.state = Session::State::kClosed;
    lose(s);
  }
  s.finisher.stop();
  // The stack of a granted session tells its peers itself.
  if (s.driver != nullptr) s.driver->finish();
  {
    Lock held(g_lock);
    // For the agent the session ends now. The descriptors are closed when no thread is inside: a thread inside may be
    // about to write to the agent wake, whose number may then belong to another file.
    sys::shutdown(s.socket, SHUT_RDWR);
    thread_registry::barrier();
    agent_monitor::look_again();
  }
  // The thread that calls handlers takes back descriptors, which belong to the program again when we return. It
  // leaves the session at once; while it is in a handler it is not inside.
  const ThreadRecord* const caller = s.callback_thread.load();
  constexpr int kYields = 100;
  const bool waits = caller != nullptr && caller != thread_registry::t_record;
  for (int i = 0; waits && thread_registry::inside(*caller, number); ++i) {
    if (i < kYields) {
      sys::yield();
    } else {
      nap();
    }
  }
  return true;
}

}  // namespace

VIP_RETURN open(Hello& hello, Session*& session) {
  constexpr int kNaps = 100;
  for (int i = 0; i < kNaps && crowded(); ++i) nap();
  Lock held(g_lock);
  reap();
  Session* const s = prepare() ? find_free() : nullptr;
  if (s == nullptr) {
    explain("this process has all %u NIC handles open", kMaxSessions);
    for (const int fd : {hello.socket, hello.segment, hello.agent_wake, hello.poll_wake, hello.port,
                         hello.umem, hello.granted_segment, hello.trains, hello.train_guard}) {
      if (fd >= 0) sys::close(fd);
    }
    return VIP_ERROR_RESOURCE;
  }
  s->socket = hello.socket;
  s->agent_wake = hello.agent_wake;
  s->poll_wake = hello.poll_wake;
  s->granted_segment = s->umem = s->control_socket_fd = s->driver_wakes[0] = s->driver_wakes[1] = -1;
  s->view_bytes = 0;
  s->agent = hello.agent;
  s->reattach_ns = hello.answer.reattach_ms * kNsPerMs;
  begin(*s);
  const bool mapped = map_control_session(hello, *s) && map_view(hello, *s);
  for (const int fd : {hello.segment, hello.granted_segment, hello.port, hello.umem, hello.trains, hello.train_guard}) {
    if (fd >= 0) sys::close(fd);
  }
  if (!mapped) {
    set_free(*s);
    return VIP_ERROR_RESOURCE;
  }
  s->nic = hello.answer.nic;
  s->nic.name[sizeof s->nic.name - 1] = '\0';
  s->max_descriptors = most_descriptors(s->nic);
  s->spin_ns = spin_time(hello.answer.busy_poll_us);
  s->spin_times.clear();
  shorten_slices();
  callback_thread::set_error_handler(*s, nullptr, nullptr);
  s->state = Session::State::kOpen;
  if (!agent_monitor::start()) {
    explain("cannot start the thread that watches the agent");
    set_free(*s);
    return VIP_ERROR_RESOURCE;
  }
  s->key.store(Session::kOpen | s->nic_part(), std::memory_order_release);
  session = s;
  return VIP_SUCCESS;
}

bool close(std::uint32_t number, std::uint32_t key) {
  Session& s = g_sessions[number];
  const void* const callback_threads_argument = s.handle();
  // This thread is inside the session meanwhile, so that no other thread frees the session.
  ThreadRecord* const self = thread_registry::record();
  if (self == nullptr) return false;
  const std::uint32_t outer = thread_registry::enter(*self, number);
  const bool closed = end(s, number, key);
  thread_registry::leave(*self, outer);
  if (!closed) return false;
  // Usually all threads are out at once. If they are not, the agent monitor frees the session.
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    {
      Lock held(g_lock);
      if (!reap()) break;
    }
    sys::yield();
  }
  await_thread_end(callback_threads_argument);
  if (all_free()) agent_monitor::await_end();
  return true;
}

VIP_RETURN attach(std::uint32_t number, std::uint32_t key) {
  Session& s = g_sessions[number];
  {
    Lock held(g_lock);
    if (s.key.load() == (Session::kOpen | key)) return VIP_SUCCESS;
    if (s.state != Session::State::kForked || s.nic_part() != key) return VIP_INVALID_PARAMETER;
    s.state = Session::State::kAttaching;
  }
  Hello hello;
  VIP_RETURN result = say_attach(s, hello);
  if (result == VIP_SUCCESS && !join_family(s, hello)) result = VIP_ERROR_RESOURCE;
  Lock held(g_lock);
  if (result == VIP_SUCCESS) begin(s);
  if (result == VIP_SUCCESS && !agent_monitor::start()) result = VIP_ERROR_RESOURCE;
  if (result != VIP_SUCCESS) {
    set_forked(s);
    return result;
  }
  s.family.id = s.family.joined;
  s.state = Session::State::kOpen;
  s.key.store(Session::kOpen | key, std::memory_order_release);
  return VIP_SUCCESS;
}

}  // namespace viaduct::vipl::registry
