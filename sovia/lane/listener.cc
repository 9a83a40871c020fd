#include "sovia/lane/listener.h"

#include <errno.h>
#include <vipl/vipl_ext.h>

#include <algorithm>
#include <atomic>

#include "sovia/lane/engine.h"
#include "sovia/process/clock.h"
#include "sovia/process/libc.h"
#include "sovia/process/options.h"
#include "sovia/process/wake_event.h"

namespace viaduct::sovia::listener {
namespace {

std::atomic<Listener> g_role{Listener::kNobody};
std::atomic<int> g_background{-1};     // its wake event
std::atomic<bool> g_hurries{false};    // the next lease is kHurryLeaseNs
std::uint32_t g_turns_before = 0;      // engine::turns() at the background thread's sleep before

bool pass(Listener from, Listener to) { return g_role.compare_exchange_strong(from, to); }

std::uint64_t lease_ns(bool hurries) {
  if (g_role.load() == Listener::kProgram) return kProgramLeaseNs;
  return hurries ? kHurryLeaseNs : kAwayLeaseNs;
}

// With the role.
void hear(pollfd* fds, nfds_t count, std::uint64_t due) {
  bool came_by = false;  // a thread of the program, which has made progress
  while (g_role.load() == Listener::kBackground && !came_by) {
    const bool any = progress();
    if (now_ns() >= due) break;
    if (any) continue;
    ProcessNic* const nic = engine::nic();
    if (nic == nullptr) break;
    const std::uint32_t before = engine::turns();
    const timespec left = until(due);
    const int ready = VipxPoll(nic->cq(), fds, count, &left, nullptr);
    if (ready < 0 && errno == ENODEV) engine::lost(*nic);
    // A program that polls never listens in its sleep. This thread then stops listening too, or it would be woken for
    // each arrival.
    came_by = engine::turns() != before;
    if (ready < 0 || std::any_of(fds, fds + count, [](const pollfd& fd) { return fd.revents != 0; })) break;
  }
  pass(Listener::kBackground, Listener::kNobody);
  g_turns_before = engine::turns() - (came_by ? 1 : 0);
}

bool needed() {
  return engine::nic() != nullptr && engine::has_lanes() && options().handling == Handling::kSingle;
}

int sleep_in_kernel(pollfd* fds, nfds_t count, std::uint64_t deadline) {
  const timespec left = until(deadline);
  return libc::ppoll(fds, count, &left, nullptr);
}

}  // namespace

bool take(bool has) {
  if (!needed()) {
    if (has) g_role.store(Listener::kNobody);
    return false;
  }
  if (has) return true;
  const Listener before = g_role.exchange(Listener::kProgram);
  if (before == Listener::kBackground) wake_event::ring(g_background.load());
  return before != Listener::kProgram;
}

bool leave(bool has) {
  if (has) g_role.store(Listener::kNobody);
  return g_role.load() == Listener::kNobody && needed();
}

void sleep(pollfd* fds, nfds_t count, std::uint64_t due, bool must_hear) {
  if (!needed()) {
    sleep_in_kernel(fds, count, due);
    return;
  }
  g_background.store(fds[0].fd);
  const std::uint32_t turns = engine::turns();
  const bool program_is_away = turns == g_turns_before;
  g_turns_before = turns;
  if ((program_is_away || must_hear) && pass(Listener::kNobody, Listener::kBackground)) {
    hear(fds, count, due);
    return;
  }
  const bool hurries = g_hurries.load();
  const std::uint64_t end = std::min(due, now_ns() + lease_ns(hurries));
  // Only the end of the lease ends the hurry, or each send without credits would wake the thread.
  if (sleep_in_kernel(fds, count, end) == 0 && hurries) g_hurries.store(false);
}

bool hurry() { return !g_hurries.load(std::memory_order_relaxed) && !g_hurries.exchange(true); }

void after_fork_in_child() {
  g_role.store(Listener::kNobody);
  g_background.store(-1);
  g_hurries.store(false);
}

}  // namespace viaduct::sovia::listener
