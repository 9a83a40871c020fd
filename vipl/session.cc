#include "vipl/session.h"

#include <pthread.h>

#include <cstring>

#include "vipl/adrift.h"
#include "vipl/discovery.h"
#include "vipl/idle.h"
#include "vipl/lock.h"
#include "vipl/sys.h"
#include "vipl/watcher.h"

namespace viaduct::vipl {

constinit Session g_sessions[kMaxSessions];

std::atomic<std::uint32_t>& Notification::sleepers(const Session& session) const {
  if (object.is(Kind::kCq)) return session.view.cq(object.index()).sleepers;
  layout::Vi& vi = session.view.vi(object.index());
  return receive ? vi.receive.sleepers : vi.send.sleepers;
}

void Session::wake_agent() {
  // Of several threads that ring, one makes the system call.
  if (desk.header().driver_sleeps.exchange(0) == 0) return;
  const std::uint64_t one = 1;
  sys::write(bell, &one, sizeof one);
}

void Session::wake(std::atomic<std::uint32_t>& sleepers) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const std::uint32_t who = layout::take_waiting(sleepers);
  if ((who & layout::kSleeper) != 0) sys::futex_wake(sleepers);
  if ((who & layout::kSleeper) != 0 && driver != nullptr) driver->wake_watcher();
  if ((who & layout::kCaller) != 0) alert();
  if ((who & layout::kPoller) != 0) pollers.wake();
}

void Session::alert() {
  std::atomic<std::uint32_t>& word = view.header().alert;
  if (word.exchange(1) == 0) sys::futex_wake(word);
}

namespace registry {
namespace {

std::atomic<std::uint32_t> g_lock;
std::uint32_t g_next;  // where to look for a free session first
bool g_prepared;

std::size_t descriptor_bytes(const Session& s) { return s.capacity.slots * sizeof(void*); }
std::size_t attribute_bytes(const Session& s) { return s.capacity.vis * sizeof(VIP_VI_ATTRIBUTES); }

void release_memory(Session& s) {
  s.regions.destroy();
  if (s.notifications.entries != nullptr) {
    sys::unmap(s.notifications.entries, Session::Notifications::kBytes);
  }
  if (s.discovery != nullptr) sys::unmap(s.discovery, sizeof(Discovery));
  s.notifications = {};
  s.discovery = nullptr;
  if (s.descriptors != nullptr) sys::unmap(s.descriptors, descriptor_bytes(s));
  if (s.attributes != nullptr) sys::unmap(s.attributes, attribute_bytes(s));
  if (s.desk.mapped()) sys::unmap(s.desk.base(), s.desk_bytes);
  s.descriptors = nullptr;
  s.attributes = nullptr;
  s.view = s.desk = layout::View();
}

void close_descriptors(Session& s) {
  if (s.socket >= 0) sys::close(s.socket);
  if (s.bell >= 0) sys::close(s.bell);
  if (s.chime >= 0) sys::close(s.chime);
  if (s.home >= 0) sys::close(s.home);
  if (s.umem >= 0) sys::close(s.umem);
  s.socket = s.bell = s.chime = s.home = s.umem = -1;
  adrift::end(s);
}

// forked: in the child, where what belongs to the parent is left alone.
void set_free(Session& s, bool forked = false) {
  if (s.driver != nullptr) Driver::destroy(s.driver, forked);
  s.driver = nullptr;
  release_memory(s);
  close_descriptors(s);
  // Not before: who is inside makes handles of it.
  ++s.generation;
  s.state = Session::State::kFree;
}

// --- fork. The child shares the parent's descriptors and segments: it lets go of them quietly, for
// the parent's sessions go on.

void before_fork() { Lock::acquire(g_lock); }
void after_fork_in_parent() { Lock::release(g_lock); }
void after_fork_in_child() {
  g_lock.store(0);
  for (Session& s : g_sessions) {
    if (s.state == Session::State::kFree) continue;
    s.key.store(0);
    set_free(s, true);
  }
  presence::forget_other_threads();
  watcher::forget();
}

bool prepare() {
  if (g_prepared) return true;
  look_at_processors();
  presence::prepare();
  g_prepared = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
  return g_prepared;
}

bool plausible(const control::HelloAnswer& answer) {
  const layout::Capacity& c = answer.capacity;
  return c.vis <= 0xffff && c.cqs <= 0xffff && c.slots <= layout::kMaxSlots &&
         c.vis + c.cqs <= layout::kMostBits &&
         layout::Offsets(c).total == answer.segment_bytes;
}

bool map_desk(const Hello& hello, Session& s) {
  void* const base = map_segment(hello);
  if (base == nullptr) return false;
  s.desk = layout::View(base, hello.answer.capacity);
  s.desk_bytes = hello.answer.segment_bytes;
  return true;
}

// The segment that the stack's driver serves: the agent's own, or one of the program's.
bool map_view(Hello& hello, Session& s) {
  if (hello.granted()) {
    s.home = hello.home = sys::out_of_the_way(hello.home);
    s.umem = sys::duplicate(hello.umem);
    s.driver = Driver::make(hello, s.desk, s.pollers);
    hello.port = hello.umem = -1;  // it has taken them over
    hello.home = -1;               // and this is the session's
    if (s.driver == nullptr) return false;
    s.view = s.driver->segment();
    s.capacity = s.driver->capacity();
  } else {
    s.view = s.desk;
    s.capacity = hello.answer.capacity;
  }
  s.descriptors = static_cast<VIP_DESCRIPTOR**>(sys::map(descriptor_bytes(s), -1));
  s.attributes = static_cast<VIP_VI_ATTRIBUTES*>(sys::map(attribute_bytes(s), -1));
  return s.descriptors != nullptr && s.attributes != nullptr && s.regions.create();
}

Session* find_free() {
  for (std::uint32_t i = 0; i < kMaxSessions; ++i) {
    const std::uint32_t number = (g_next + i) % kMaxSessions;
    if (g_sessions[number].state != Session::State::kFree) continue;
    g_next = (number + 1) % kMaxSessions;
    g_sessions[number].number = number;
    return &g_sessions[number];
  }
  return nullptr;
}

// All sessions are taken, but threads are about to leave some of them that are closed.
bool crowded() {
  Lock lock(g_lock);
  return reap() && find_free() == nullptr;
}

// VipCloseNic without freeing the session.
bool end(Session& s, std::uint32_t number, std::uint32_t key) {
  {
    Lock lock(g_lock);
    if (s.key.load() != (Session::kOpen | key)) return false;
    s.key.store(0);
    s.state = Session::State::kClosed;
    lose(s);
  }
  // A granted session says its goodbyes itself.
  if (s.driver != nullptr) s.driver->finish();
  {
    Lock lock(g_lock);
    // For the agent the session ends now. The descriptors are closed when nobody is inside: who is
    // may be about to write to the bell, and its number may then be another file's.
    sys::shutdown(s.socket, SHUT_RDWR);
    presence::barrier();
    watcher::look_again();
  }
  // The thread that calls handlers takes descriptors back, which are the program's again when we
  // return. It leaves at once; while it is in a handler it is not inside.
  const ThreadRecord* const caller = s.caller.load();
  constexpr int kYields = 100;
  const bool waits = caller != nullptr && caller != presence::t_record;
  for (int i = 0; waits && presence::inside(*caller, number); ++i) {
    if (i < kYields) {
      sys::yield();
    } else {
      nap();
    }
  }
  return true;
}

}  // namespace

std::atomic<std::uint32_t>& lock() { return g_lock; }

void* map_segment(const Hello& hello) {
  const control::HelloAnswer& answer = hello.answer;
  if (!plausible(answer)) {
    explain("the agent's answer makes no sense");
    return nullptr;
  }
  const int seals = sys::get_seals(hello.segment);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 ||
      sys::seek_end(hello.segment) != static_cast<long>(answer.segment_bytes)) {
    explain("the agent's segment is not sealed or has another size than announced");
    return nullptr;
  }
  void* const base = sys::map(answer.segment_bytes, hello.segment);
  if (base == nullptr) {
    explain("no memory to map a segment of %llu bytes",
            static_cast<unsigned long long>(answer.segment_bytes));
    return nullptr;
  }
  const layout::Header& header = layout::View(base, answer.capacity).header();
  if (header.magic != layout::kMagic || header.version != layout::kLayoutVersion ||
      header.bytes != answer.segment_bytes ||
      std::memcmp(&header.capacity, &answer.capacity, sizeof answer.capacity) != 0) {
    explain("the agent's segment is of another version than this library");
    sys::unmap(base, answer.segment_bytes);
    return nullptr;
  }
  return base;
}

Session& at(std::uint32_t number) { return g_sessions[number]; }

VIP_RETURN open(Hello& hello, Session*& session) {
  constexpr int kNaps = 100;
  for (int i = 0; i < kNaps && crowded(); ++i) nap();
  Lock lock(g_lock);
  reap();
  Session* const s = prepare() ? find_free() : nullptr;
  if (s == nullptr) {
    explain("this process has all %u NIC handles open", kMaxSessions);
    for (const int fd : {hello.socket, hello.segment, hello.bell, hello.chime, hello.port,
                         hello.umem, hello.home}) {
      if (fd >= 0) sys::close(fd);
    }
    return VIP_ERROR_RESOURCE;
  }
  s->socket = hello.socket;
  s->bell = hello.bell;
  s->chime = hello.chime;
  s->home = s->umem = -1;
  s->agent = hello.agent;
  s->adrift_ns = std::uint64_t{hello.answer.adrift_ms} * 1'000'000;
  s->adrift = {0, 0, -1};
  s->desk_number.store(0);
  s->desk_lock.store(0);
  const bool mapped = map_desk(hello, *s) && map_view(hello, *s);
  for (const int fd : {hello.segment, hello.home, hello.port, hello.umem}) {
    if (fd >= 0) sys::close(fd);
  }
  if (!mapped) {
    set_free(*s);
    return VIP_ERROR_RESOURCE;
  }
  s->nic = hello.answer.nic;
  s->nic.name[sizeof s->nic.name - 1] = '\0';
  const std::uint32_t most = s->nic.max_descriptors;
  s->max_descriptors = most != 0 && most < layout::kRingEntries ? most : layout::kRingEntries;
  s->spin_ns = spin_time(hello.answer.busy_poll_us);
  s->error_handler = nullptr;
  s->error_context = nullptr;
  s->lost.store(false);
  s->lock.store(0);
  s->own_errors.count = 0;
  s->notify_lock.store(0);
  s->has_caller.store(false);
  s->caller.store(nullptr);
  s->pollers.clear();
  s->discoverer.store(0);
  s->state = Session::State::kOpen;
  if (!watcher::start()) {
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
  // Inside, so that nobody frees it before we are done.
  ThreadRecord* const self = presence::record();
  if (self == nullptr) return false;
  const std::uint32_t outer = presence::enter(*self, number);
  const bool closed = end(s, number, key);
  presence::leave(*self, outer);
  if (!closed) return false;
  // Usually everybody is out at once. If not, the watcher frees the session.
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    {
      Lock lock(g_lock);
      if (!reap()) break;
    }
    sys::yield();
  }
  return true;
}

void lose(Session& s) {
  // From then on whatever is posted is given back as flushed.
  if (s.driver != nullptr) s.driver->halt();
  s.lost.store(true);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (std::uint32_t i = 0; i < layout::kCommands; ++i) s.wake(s.view.command(i).sleepers);
  for (std::uint32_t i = 0; i < s.capacity.vis; ++i) {
    s.wake(s.view.vi(i).send.sleepers);
    s.wake(s.view.vi(i).receive.sleepers);
  }
  for (std::uint32_t i = 0; i < s.capacity.cqs; ++i) s.wake(s.view.cq(i).sleepers);
  // Who sleeps on the port or in a command at the desk looks too.
  if (s.driver == nullptr) return s.alert();
  for (std::uint32_t i = 0; i < layout::kCommands; ++i) s.wake(s.desk.command(i).sleepers);
  // As odd as it was, but another number for who is about to sleep on it.
  s.desk_number.fetch_add(2);
  sys::futex_wake(s.desk_number);
  s.driver->wake_watcher();
  s.alert();
}

bool reap() {
  bool left = false;
  for (Session& s : g_sessions) {
    if (s.state != Session::State::kClosed) continue;
    if (presence::anyone_inside(s.number)) {
      left = true;
    } else {
      set_free(s);
    }
  }
  return left;
}

}  // namespace registry
}  // namespace viaduct::vipl
