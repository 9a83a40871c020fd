// Waiting in a session: spin first, sleep later, as SLEEPING in session_layout.h says.
#ifndef VIADUCT_VIPL_SESSION_WAIT_H
#define VIADUCT_VIPL_SESSION_WAIT_H

#include <algorithm>

#include "vipl/granted/polled_elsewhere.h"
#include "vipl/process/cancellable.h"
#include "vipl/process/idle.h"
#include "vipl/session/session.h"
#include "vipl/process/sys.h"

namespace viaduct::vipl {

template <class Attempt>
bool Session::wait(std::atomic<std::uint32_t>& sleepers, std::uint64_t timeout_ms,
                   Attempt&& attempt, bool cancellable, Awaited awaited) {
  if (attempt()) return true;
  const Uncancellable guard;
  if (turn() && attempt()) return true;
  if (timeout_ms == 0) return false;
  const std::uint64_t start = now_ns();
  const std::uint64_t deadline = deadline_after(start, timeout_ms);
  const bool hosted = driver == nullptr || awaited == Awaited::kAgent;
  SpinTime& spin_time = spin_times.of(&sleepers);
  const std::uint64_t spin_until = start + spin_time.ns(spin_ns);
  Spinner spinner(crowd, start, spin_until < deadline ? spin_until : deadline,
                  hosted || awaited == Awaited::kStackAndAgent);
  while (spin_until != start && spinner.again()) {
    turn();
    if (attempt()) return true;
  }
  PolledElsewhere elsewhere;
  for (;;) {
    const std::uint32_t asleep = sleepers.fetch_or(layout::kSleeper) | layout::kSleeper;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    turn();
    if (attempt()) {
      spin_time.slept(now_ns() - start, spin_ns, hosted ? SpinTime::kProgramsAndAgents : SpinTime::kPrograms);
      return true;
    }
    if (deadline != kNever && now_ns() >= deadline) return false;
    std::uint64_t until = deadline;
    if (!hosted) {
      if (elsewhere.leaves()) {
        until = std::min(deadline, now_ns() + PolledElsewhere::kLeaveNs);
      } else if (const std::uint32_t turns = driver->turns(); driver->watch(sleepers, asleep, deadline, cancellable)) {
        elsewhere.slept(driver->turns() - turns);
        continue;
      }
    }
    const Cancellable here(cancellable);
    sys::futex_wait(sleepers, asleep, until);
  }
}

template <class Attempt>
bool Session::missed(std::atomic<std::uint32_t>& sleepers, std::uint32_t& misses,
                     Attempt&& attempt) {
  ++misses;
  const bool hosted = driver == nullptr;
  if (!hosted || misses <= idle::kLooksOfProgram) return pause(crowd, misses, hosted) && attempt();
  const std::uint64_t now = now_ns();
  if (!crowd.is_here(now)) return pause(crowd, misses, hosted) && attempt();
  if (misses < kLooksBeforeDoze) {
    relax();
    return false;
  }
  const std::uint32_t asleep = sleepers.fetch_or(layout::kSleeper) | layout::kSleeper;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (attempt()) return true;
  sys::futex_wait(sleepers, asleep, now + doze_time(misses - kLooksBeforeDoze));
  return attempt();
}

}  // namespace viaduct::vipl

#endif
