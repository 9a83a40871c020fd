#include "vipl/process/exit_drain.h"

#include <atomic>

#include "vipl/session/outgoing.h"
#include "vipl/session/session.h"
#include "vipl/process/sys.h"
#include "vipl/session/session_guard.h"
#include "vipl/session/session_table.h"

namespace viaduct::vipl::exit_drain {
namespace {

std::atomic<int> g_process;  // the process that opened a session
std::atomic<bool> g_begun;

// This is a destructor and not called by atexit(), so that it runs after all such functions of the program, which may
// still post or close. Without a session it makes no system call: a program may have forbidden itself all but a few.
__attribute__((destructor)) void say() {
  g_begun.store(true);
  bool any = false;
  for (std::uint32_t number = 0; number < kMaxSessions; ++number) any |= registry::at(number).key.load() != 0;
  if (!any || g_process.load() != sys::process()) return;
  outgoing::Patience patience;
  for (std::uint32_t number = 0; number < kMaxSessions; ++number) {
    const std::uint32_t key = registry::at(number).key.load();
    if (key == 0) continue;
    const SessionGuard inside(Handle(Kind::kNic, key & ~Session::kOpen, 0).pointer(), Kind::kNic);
    if (inside && !inside.session().finisher.is_ready()) outgoing::wait_for_all(inside.session(), patience);
  }
}

}  // namespace

void prepare() { g_process.store(sys::process()); }

bool begun() { return g_begun.load(std::memory_order_relaxed); }

}  // namespace viaduct::vipl::exit_drain
