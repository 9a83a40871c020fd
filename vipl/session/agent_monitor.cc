#include "vipl/session/agent_monitor.h"

#include <cstring>

#include "vipl/session/debug_log.h"
#include "vipl/granted/admission.h"
#include "vipl/granted/local_path.h"
#include "vipl/session/callback_thread.h"
#include "vipl/process/lock.h"
#include "vipl/session/message.h"
#include "vipl/session/reattach.h"
#include "vipl/process/sys.h"
#include "vipl/process/thread.h"
#include "vipl/session/session_table.h"

namespace viaduct::vipl::agent_monitor {
namespace {

constexpr int kReapEveryMs = 20;  // while closed sessions wait for threads to leave them

bool g_running VIADUCT_GUARDED_BY(registry::g_lock);
int g_agent_wake VIADUCT_GUARDED_BY(registry::g_lock) = -1;

// `port_is_left`: the port is still there, so that its peers can be told.
void lose(Session& s, bool port_is_left = false) VIADUCT_REQUIRES(registry::g_lock) {
  explain(s.view_bytes == 0 ? "the agent of %s disappeared; the session is lost"
                            : "the process that opened %s ended; the session is lost", s.nic.name);
  registry::lose(s);
  if (s.driver != nullptr) s.driver->lose(port_is_left);
  callback_thread::raise(s, nullptr, VIP_RESOURCE_NIC, VIP_ERROR_CATASTROPHIC, 0);
}

// The kind of a watched descriptor, and its session.
struct Watched {
  enum class What : std::uint8_t { kSocket, kControlSession, kLink } what;
  std::uint8_t number;   // session
  std::uint16_t attached_process;   // kLink
  std::uint32_t key;
};

constexpr std::size_t kMostWatched = 1 + 2 * kMaxSessions + 8 * AttachedProcesses::kMost;
// Of the thread alone, so that it can sleep in poll() without the lock.
pollfd g_fds[kMostWatched];
Watched g_watched[kMostWatched];

void watch(std::size_t& count, int fd, const Watched& watched) {
  if (fd < 0 || count == kMostWatched) return;
  g_fds[count] = {fd, POLLIN | POLLRDHUP, 0};
  g_watched[count++] = watched;
}

void watch(std::size_t& count, Session& s) VIADUCT_REQUIRES(registry::g_lock) {
  const auto number = static_cast<std::uint8_t>(s.number);
  const std::uint32_t key = s.key.load();
  watch(count, reattach::is(s) ? s.reattach.socket : s.socket, {Watched::What::kSocket, number, 0, key});
  if (!s.control_lost.load()) watch(count, s.control_socket_fd, {Watched::What::kControlSession, number, 0, key});
  if (s.driver == nullptr) return;
  const AttachedProcesses& attached_processes = s.driver->attached_processes();
  for (std::uint32_t i = 0; i < attached_processes.end(); ++i) {
    watch(count, attached_processes.link(i), {Watched::What::kLink, number, static_cast<std::uint16_t>(i), key});
  }
}

// Reads a message from the agent of a granted session: a process wants to attach, or another program of
// this host is reached through memory. False: there is none, and so the agent has gone.
bool hear_agent(Session& s, short events) VIADUCT_REQUIRES(registry::g_lock) {
  if (s.driver == nullptr || (events & POLLIN) == 0) return false;
  control::LocalPeer message;
  const control::MessageHead& head = message.head;
  int fd = -1;
  unsigned count = 1;
  const long bytes = receive_message(s.socket, &message, sizeof message, &fd, count, MSG_DONTWAIT);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  const bool has_head = bytes >= static_cast<long>(sizeof head) && head.magic == control::kMagic;
  const bool whole = bytes == sizeof message;
  MacAddress address;
  std::memcpy(address.data(), message.address, address.size());
  switch (has_head ? static_cast<control::Kind>(head.kind) : control::Kind::kHello) {
    case control::Kind::kNewcomer:
      if (bytes != sizeof head || count != 1) break;
      s.driver->attached_processes().add(sys::out_of_the_way(fd));
      return true;
    case control::Kind::kLocalPeer:
      if (!whole || count != 1) break;
      local_path::add(*s.driver, address, message.program, fd, message.end);
      return true;
    case control::Kind::kLocalEnd:
      if (!whole || count != 0) break;
      local_path::end(*s.driver, address);
      return true;
    default:
      break;
  }
  if (fd >= 0) sys::close(fd);
  return false;
}

// Looks at what poll() said of a descriptor. Anything but silence on a socket is the other side's end, unless
// hear_agent() finds a message.
void judge(const pollfd& polled, const Watched& watched) VIADUCT_REQUIRES(registry::g_lock) {
  if (polled.revents == 0) return;
  Session& s = registry::at(watched.number);
  if (s.key.load() != watched.key || s.lost.load()) return;
  switch (watched.what) {
    case Watched::What::kLink:
      if (s.driver->attached_processes().link(watched.attached_process) == polled.fd) {
        admission::hear(*s.driver, watched.attached_process);
      }
      return;
    case Watched::What::kControlSession:
      if (s.control_socket_fd == polled.fd) registry::lose_control_session(s);
      return;
    case Watched::What::kSocket:
      break;
  }
  if (reattach::is(s)) {
    if (s.reattach.socket == polled.fd && !reattach::hear(s)) lose(s);
  } else if (s.socket == polled.fd && !hear_agent(s, polled.revents) && !reattach::begin(s)) {
    lose(s);
  }
}

// Goes on with the sessions that have no agent; returns how long poll() may sleep at most.
int look_after_reattaching(int timeout_ms) VIADUCT_REQUIRES(registry::g_lock) {
  for (std::uint32_t i = 0; i < kMaxSessions; ++i) {
    Session& s = registry::at(i);
    if (s.state != Session::State::kOpen || s.lost.load() || !reattach::is(s)) continue;
    if (!reattach::go_on(s)) {
      lose(s, true);
    } else if (timeout_ms < 0 || timeout_ms > reattach::kTryEveryMs) {
      timeout_ms = reattach::kTryEveryMs;
    }
  }
  return timeout_ms;
}

void* run(void*) {
  sys::name_thread("vipl-watch");
  for (;;) {
    std::size_t count = 1;
    int timeout_ms = -1;
    {
      Lock lock(registry::g_lock);
      g_fds[0] = {g_agent_wake, POLLIN, 0};
      const bool reaps = registry::reap();
      timeout_ms = look_after_reattaching(reaps ? kReapEveryMs : -1);
      bool any = reaps;
      for (std::uint32_t i = 0; i < kMaxSessions; ++i) {
        Session& s = registry::at(i);
        any |= s.state != Session::State::kFree && s.state != Session::State::kForked;
        if (s.state == Session::State::kOpen && !s.lost.load()) watch(count, s);
      }
      if (!any) {
        g_running = false;
        return nullptr;
      }
    }
    if (sys::poll(g_fds, count, timeout_ms) <= 0) continue;
    if (g_fds[0].revents != 0) {
      std::uint64_t rings;
      sys::read(g_fds[0].fd, &rings, sizeof rings);
    }
    Lock lock(registry::g_lock);
    for (std::size_t i = 1; i < count; ++i) judge(g_fds[i], g_watched[i]);
  }
  return nullptr;
}

}  // namespace

bool start() {
  if (g_agent_wake < 0) g_agent_wake = sys::eventfd();
  if (g_agent_wake < 0) return false;
  constexpr std::size_t kLittle = 64 * 1024;
  if (!g_running) g_running = make_thread(run, nullptr, kLittle);
  look_again();
  return g_running;
}

void look_again() {
  const std::uint64_t one = 1;
  if (g_agent_wake >= 0) sys::write(g_agent_wake, &one, sizeof one);
}

int agent_wake() { return g_agent_wake; }

void await_end() { await_thread_end(nullptr); }

void forget() {
  g_running = false;
  if (g_agent_wake >= 0) sys::close(g_agent_wake);
  g_agent_wake = -1;
}

}  // namespace viaduct::vipl::agent_monitor
