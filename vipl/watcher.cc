#include "vipl/watcher.h"

#include "vipl/adrift.h"
#include "vipl/caller.h"
#include "vipl/lock.h"
#include "vipl/session.h"
#include "vipl/sys.h"
#include "vipl/thread.h"

namespace viaduct::vipl::watcher {
namespace {

constexpr int kReapEveryMs = 20;  // while closed sessions wait for threads to leave them

bool g_running;
int g_bell = -1;

void lose(Session& s) {
  explain("the agent of %s has gone away", s.nic.name);
  registry::lose(s);
  if (s.driver != nullptr) s.driver->be_silent();
  caller::raise(s, nullptr, VIP_RESOURCE_NIC, VIP_ERROR_CATASTROPHIC, 0);
}

// Looks at what poll() said of one session. Anything on the socket but silence is the agent's end.
void judge(const pollfd& polled, std::uint32_t number, std::uint32_t key) {
  if (polled.revents == 0) return;
  Session& s = registry::at(number);
  if (s.key.load() != key || s.lost.load()) return;
  if (adrift::is(s)) {
    if (s.adrift.socket == polled.fd && !adrift::hear(s)) lose(s);
  } else if (s.socket == polled.fd && !adrift::begin(s)) {
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
  static pollfd fds[1 + kMaxSessions];
  static std::uint32_t numbers[1 + kMaxSessions];
  static std::uint32_t keys[1 + kMaxSessions];
  for (;;) {
    nfds_t count = 1;
    int timeout_ms = -1;
    {
      Lock lock(registry::lock());
      fds[0] = {g_bell, POLLIN, 0};
      timeout_ms = look_after_adrift(registry::reap() ? kReapEveryMs : -1);
      for (std::uint32_t i = 0; i < kMaxSessions; ++i) {
        const Session& s = registry::at(i);
        if (s.state != Session::State::kOpen || s.lost.load()) continue;
        fds[count] = {adrift::is(s) ? s.adrift.socket : s.socket, POLLIN | POLLRDHUP, 0};
        numbers[count] = i;
        keys[count] = s.key.load();
        ++count;
      }
    }
    if (sys::poll(fds, count, timeout_ms) <= 0) continue;
    if (fds[0].revents != 0) {
      std::uint64_t rings;
      sys::read(g_bell, &rings, sizeof rings);
    }
    Lock lock(registry::lock());
    for (nfds_t i = 1; i < count; ++i) judge(fds[i], numbers[i], keys[i]);
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
