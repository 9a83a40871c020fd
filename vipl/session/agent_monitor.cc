#include "vipl/session/agent_monitor.h"

#include "vipl/session/debug_log.h"
#include "vipl/granted/admission.h"
#include "vipl/session/callback_thread.h"
#include "vipl/process/lock.h"
#include "vipl/session/message.h"
#include "vipl/session/reattach.h"
#include "vipl/process/sys.h"
#include "vipl/process/thread.h"
#include "vipl/session/session_table.h"

namespace viaduct::vipl::watcher {
namespace {

constexpr int kReapEveryMs = 20;  // while closed sessions wait for threads to leave them

bool g_running;
int g_bell = -1;

void lose(Session& s) {
  explain(s.view_bytes == 0 ? "the agent of %s disappeared; the session is lost"
                            : "the process that opened %s ended; the session is lost", s.nic.name);
  registry::lose(s);
  if (s.driver != nullptr) s.driver->be_silent();
  caller::raise(s, nullptr, VIP_RESOURCE_NIC, VIP_ERROR_CATASTROPHIC, 0);
}

// A descriptor that is watched, and of what.
struct Watched {
  enum class What : std::uint8_t { kSocket, kDesk, kLink } what;
  std::uint8_t number;   // session
  std::uint16_t guest;   // kLink
  std::uint32_t key;
};

constexpr std::size_t kMostWatched = 1 + 2 * kMaxSessions + 8 * Company::kMost;
pollfd g_fds[kMostWatched];
Watched g_watched[kMostWatched];

void watch(std::size_t& count, int fd, const Watched& watched) {
  if (fd < 0 || count == kMostWatched) return;
  g_fds[count] = {fd, POLLIN | POLLRDHUP, 0};
  g_watched[count++] = watched;
}

void watch(std::size_t& count, Session& s) {
  const auto number = static_cast<std::uint8_t>(s.number);
  const std::uint32_t key = s.key.load();
  watch(count, adrift::is(s) ? s.adrift.socket : s.socket, {Watched::What::kSocket, number, 0, key});
  if (!s.desk_lost.load()) watch(count, s.desk_socket, {Watched::What::kDesk, number, 0, key});
  if (s.driver == nullptr) return;
  const Company& company = s.driver->company();
  for (std::uint32_t i = 0; i < company.end(); ++i) {
    watch(count, company.link(i), {Watched::What::kLink, number, static_cast<std::uint16_t>(i), key});
  }
}

// The agent of a granted session has something to say: who wants to attach. False: it has not, and so
// it has gone.
bool hear_agent(Session& s, short events) {
  if (s.driver == nullptr || (events & POLLIN) == 0) return false;
  control::MessageHead head;
  int link = -1;
  unsigned count = 1;
  const long bytes = receive_message(s.socket, &head, sizeof head, &link, count, MSG_DONTWAIT);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  const bool right = bytes == sizeof head && count == 1 && head.magic == control::kMagic &&
                     head.kind == static_cast<std::uint16_t>(control::Kind::kNewcomer);
  if (!right) {
    if (link >= 0) sys::close(link);
    return false;
  }
  s.driver->company().add(sys::out_of_the_way(link));
  return true;
}

// Looks at what poll() said of a descriptor. Anything on a socket but silence is the other side's end,
// but see hear_agent().
void judge(const pollfd& polled, const Watched& watched) {
  if (polled.revents == 0) return;
  Session& s = registry::at(watched.number);
  if (s.key.load() != watched.key || s.lost.load()) return;
  switch (watched.what) {
    case Watched::What::kLink:
      if (s.driver->company().link(watched.guest) == polled.fd) {
        admission::hear(*s.driver, watched.guest);
      }
      return;
    case Watched::What::kDesk:
      if (s.desk_socket == polled.fd) registry::lose_desk(s);
      return;
    case Watched::What::kSocket:
      break;
  }
  if (adrift::is(s)) {
    if (s.adrift.socket == polled.fd && !adrift::hear(s)) lose(s);
  } else if (s.socket == polled.fd && !hear_agent(s, polled.revents) && !adrift::begin(s)) {
    lose(s);
  }
}

// What sessions without an agent have to do; how long to sleep at most.
int look_after_adrift(int timeout_ms) {
  for (std::uint32_t i = 0; i < kMaxSessions; ++i) {
    Session& s = registry::at(i);
    if (s.state != Session::State::kOpen || s.lost.load() || !adrift::is(s)) continue;
    if (!adrift::go_on(s)) {
      lose(s);
    } else if (timeout_ms < 0 || timeout_ms > adrift::kTryEveryMs) {
      timeout_ms = adrift::kTryEveryMs;
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
      Lock lock(registry::lock());
      g_fds[0] = {g_bell, POLLIN, 0};
      timeout_ms = look_after_adrift(registry::reap() ? kReapEveryMs : -1);
      for (std::uint32_t i = 0; i < kMaxSessions; ++i) {
        Session& s = registry::at(i);
        if (s.state == Session::State::kOpen && !s.lost.load()) watch(count, s);
      }
    }
    if (sys::poll(g_fds, count, timeout_ms) <= 0) continue;
    if (g_fds[0].revents != 0) {
      std::uint64_t rings;
      sys::read(g_bell, &rings, sizeof rings);
    }
    Lock lock(registry::lock());
    for (std::size_t i = 1; i < count; ++i) judge(g_fds[i], g_watched[i]);
  }
  return nullptr;
}

}  // namespace

bool start() {
  if (g_bell < 0) g_bell = sys::eventfd();
  if (g_bell < 0) return false;
  constexpr std::size_t kLittle = 64 * 1024;
  if (!g_running) g_running = make_thread(run, nullptr, kLittle);
  look_again();
  return g_running;
}

void look_again() {
  const std::uint64_t one = 1;
  if (g_bell >= 0) sys::write(g_bell, &one, sizeof one);
}

int bell() { return g_bell; }

void forget() {
  g_running = false;
  if (g_bell >= 0) sys::close(g_bell);
  g_bell = -1;
}

}  // namespace viaduct::vipl::watcher
