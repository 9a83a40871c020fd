#include "vipl/session/session.h"

#include <pthread.h>

#include <cstring>

#include "vipl/session/reattach.h"
#include "vipl/api/discovery.h"
#include "vipl/process/family.h"
#include "vipl/process/idle.h"
#include "vipl/process/lock.h"
#include "vipl/process/sys.h"
#include "vipl/session/agent_monitor.h"

namespace viaduct::vipl {

constinit Session g_sessions[kMaxSessions];

std::atomic<std::uint32_t>& Notification::sleepers(const Session& session) const {
  if (object.is(Kind::kCq)) return session.view.cq(object.index()).sleepers;
  layout::Vi& vi = session.view.vi(object.index());
  return receive ? vi.receive.sleepers : vi.send.sleepers;
}

void Session::wake_driver(const layout::View& at) {
  // Of several threads that ring, one makes the system call.
  if (at.header().driver_sleeps.exchange(0) == 0) return;
  const std::uint64_t one = 1;
  if (at.base() == desk.base()) {
    sys::write(bell, &one, sizeof one);
  } else {
    for (const int poke : pokes) sys::write(poke, &one, sizeof one);
  }
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
  std::atomic<std::uint32_t>& word = view.alert(member);
  if (word.exchange(1) == 0) sys::futex_wake(word);
}

namespace registry {
namespace {

std::atomic<std::uint32_t> g_lock;
std::uint32_t g_next;  // where to look for a free session first
bool g_prepared;

// Those that the first process of a family may have held when it ended.
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
  if (s.desk.mapped()) sys::unmap(s.desk.base(), s.desk_bytes);
  s.view_bytes = 0;
  s.view = s.desk = layout::View();
}

void release_handlers(Session& s) {
  if (s.notifications.entries != nullptr) {
    sys::unmap(s.notifications.entries, Session::Notifications::kBytes);
  }
  if (s.discovery != nullptr) sys::unmap(s.discovery, sizeof(Discovery));
  s.notifications = {};
  s.discovery = nullptr;
}

void release_memory(Session& s) {
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

void close_descriptors(Session& s) {
  for (int* const fd : {&s.socket, &s.bell, &s.chime, &s.home, &s.umem, &s.desk_socket, &s.pokes[0],
                        &s.pokes[1]}) {
    if (*fd >= 0) sys::close(*fd);
    *fd = -1;
  }
  adrift::end(s);
}

void set_free(Session& s) {
  if (s.driver != nullptr) Driver::destroy(s.driver, false);
  s.driver = nullptr;
  release_memory(s);
  close_descriptors(s);
  // Not before: who is inside makes handles of it.
  ++s.generation;
  s.state = Session::State::kFree;
}

// --- fork. The child shares the parent's descriptors and segments: it lets go of them quietly, for
// the parent's sessions go on. What it needs to attach is in its copy of the parent's own memory.

// What the child will have a copy of: of the queues that are ours, what was posted so far.
void note_fork(Session& s) {
  s.family.parent = s.family.id;
  s.family.forks = s.view.header().forks.fetch_add(1) + 1;
  if (s.family.posted == nullptr) {
    s.family.posted = static_cast<std::uint32_t(*)[2]>(sys::map(posted_bytes(s), -1));
  }
  for (std::uint32_t vi = 0; s.family.posted != nullptr && vi < s.family.vis; ++vi) {
    const layout::Vi& shared = s.view.vi(vi);
    if (shared.send.owner.load(std::memory_order_relaxed) != s.member) continue;
    s.family.posted[vi][0] = shared.send.posted.load(std::memory_order_relaxed);
    s.family.posted[vi][1] = shared.receive.posted.load(std::memory_order_relaxed);
  }
}

void before_fork() {
  Lock::acquire(g_lock);
  for (Session& s : g_sessions) {
    if (s.state == Session::State::kOpen && !s.over()) note_fork(s);
  }
}

void after_fork_in_parent() { Lock::release(g_lock); }

void after_fork_in_child() {
  g_lock.store(0);
  for (Session& s : g_sessions) {
    if (s.state == Session::State::kFree || s.state == Session::State::kForked) continue;
    const bool open = s.state == Session::State::kOpen && !s.lost.load();
    s.key.store(0);
    if (s.driver != nullptr) Driver::destroy(s.driver, true);
    s.driver = nullptr;
    if (open || s.state == Session::State::kAttaching) {
      release_handlers(s);
      release_segments(s);
      close_descriptors(s);
      s.state = Session::State::kForked;
    } else {
      set_free(s);
    }
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
  s.member = s.desk_member = 0;
  s.family = {};
  s.family.secret = hello.answer.family;
  s.family.id = s.driver != nullptr ? s.driver->program_id() : hello.answer.program_id;
  s.descriptors = static_cast<VIP_DESCRIPTOR**>(sys::map(descriptor_bytes(s), -1));
  s.attributes = static_cast<VIP_VI_ATTRIBUTES*>(sys::map(attribute_bytes(s), -1));
  s.own_vis = static_cast<std::atomic<std::uint64_t>*>(sys::map(own_vi_bytes(s), -1));
  return s.descriptors != nullptr && s.attributes != nullptr && s.own_vis != nullptr &&
         s.regions.create();
}

Session* find_free() {
  for (std::uint32_t i = 0; i < kMaxSessions; ++i) {
    const std::uint32_t number = (g_next + i) % kMaxSessions;
    if (g_sessions[number].state != Session::State::kFree) continue;
    g_next = (number + 1) % kMaxSessions;
    g_sessions[number].number = number;
    return &g_sessions[number];
  }
  // Who opens so many has no use for those of his parent.
  for (Session& s : g_sessions) {
    if (s.state != Session::State::kForked) continue;
    set_free(s);
    return &s;
  }
  return nullptr;
}

// What a session begins with; everything else is set by then.
void begin(Session& s) {
  s.adrift = {0, 0, -1};
  s.desk_number.store(0);
  s.desk_lock.store(0);
  s.lost.store(false);
  s.desk_lost.store(false);
  s.lock.store(0);
  s.own_errors.count = 0;
  s.notify_lock.store(0);
  s.has_caller.store(false);
  s.caller.store(nullptr);
  s.pollers.clear();
  s.discoverer.store(0);
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
  s->home = s->umem = s->desk_socket = s->pokes[0] = s->pokes[1] = -1;
  s->view_bytes = 0;
  s->agent = hello.agent;
  s->adrift_ns = std::uint64_t{hello.answer.adrift_ms} * 1'000'000;
  begin(*s);
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
  // Threads that are made from now on have it from these.
  sys::shorten_slice(sys::thread());
  sys::shorten_slice(sys::process());
  s->error_handler = nullptr;
  s->error_context = nullptr;
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

void wake_at_desk(Session& s) {
  for (std::uint32_t i = 0; i < layout::kCommands; ++i) {
    layout::Command& command = s.desk.command(i);
    if (command.owner.load() == 1 + s.desk_member) s.wake(command.sleepers);
  }
}

void lose_desk(Session& s) {
  s.desk_lost.store(true);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  wake_at_desk(s);
}

void lose(Session& s) {
  // From then on whatever is posted is given back as flushed.
  if (s.driver != nullptr) s.driver->halt();
  s.lost.store(true);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  // Others of a family have sleepers of their own.
  for (std::uint32_t i = 0; i < layout::kCommands; ++i) {
    layout::Command& command = s.view.command(i);
    if (command.owner.load() == 1 + s.member) s.wake(command.sleepers);
  }
  for (std::uint32_t i = 0; i < s.capacity.vis; ++i) {
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
  // Who sleeps on the port or in a command at the desk looks too.
  if (s.driver == nullptr && s.view_bytes == 0) return s.alert();
  wake_at_desk(s);
  if (s.driver == nullptr) return s.alert();
  // As odd as it was, but another number for who is about to sleep on it.
  s.desk_number.fetch_add(2);
  sys::futex_wake(s.desk_number);
  s.driver->wake_watcher();
  s.alert();
}

VIP_RETURN attach(std::uint32_t number, std::uint32_t key) {
  Session& s = g_sessions[number];
  {
    Lock lock(g_lock);
    if (s.key.load() == (Session::kOpen | key)) return VIP_SUCCESS;
    if (s.state != Session::State::kForked || s.nic_part() != key) return VIP_INVALID_PARAMETER;
    s.state = Session::State::kAttaching;
  }
  Hello hello;
  VIP_RETURN result = say_attach(s, hello);
  if (result == VIP_SUCCESS && !join_family(s, hello)) result = VIP_ERROR_RESOURCE;
  Lock lock(g_lock);
  if (result == VIP_SUCCESS) begin(s);
  if (result == VIP_SUCCESS && !watcher::start()) result = VIP_ERROR_RESOURCE;
  if (result != VIP_SUCCESS) {
    release_segments(s);
    close_descriptors(s);
    s.state = Session::State::kForked;
    return result;
  }
  s.family.id = s.family.joined;
  s.state = Session::State::kOpen;
  s.key.store(Session::kOpen | key, std::memory_order_release);
  return VIP_SUCCESS;
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
