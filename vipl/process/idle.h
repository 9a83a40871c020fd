// How a thread of a program passes the time until something happens (kagent/contract/idle.h). A granted
// program drives its own NIC and so waits for no other process of its host: it seldom gives way, and
// does not pause between looks that cost as much.
#ifndef VIADUCT_VIPL_PROCESS_IDLE_H
#define VIADUCT_VIPL_PROCESS_IDLE_H

#include <cstdint>

#include "kagent/contract/idle.h"
#include "kagent/contract/spin_time.h"

namespace viaduct::vipl {

using idle::Crowd;
using idle::relax;
using idle::SpinTime;

inline constexpr std::uint64_t kNever = ~0ull;

// CLOCK_MONOTONIC in ns.
std::uint64_t now_ns();

// The moment `timeout_ms` from `now`; kNever when the timeout is one.
std::uint64_t deadline_after(std::uint64_t now, std::uint64_t timeout_ms);

// The time from now until `then`; 0 if that is past, kNever if it never comes.
inline std::uint64_t time_until(std::uint64_t then) {
  if (then == kNever) return kNever;
  const std::uint64_t now = now_ns();
  return then > now ? then - now : 0;
}

// Sleeps for a millisecond.
void nap();

// How long a poll of a program's own (Done) may sleep instead of giving way, in ns, after so many such polls in vain.
// A thread that wakes up all the time keeps its agent off a processor that both want; but a thread that polls other
// things as well must not miss them for long.
inline constexpr std::uint32_t kLooksBeforeDoze = 64;
constexpr std::uint64_t doze_time(std::uint32_t before) {
  constexpr std::uint64_t kShortestNs = 100'000, kLongestNs = 2'000'000;
  const std::uint64_t ns = kShortestNs * (1 + before / 4);
  return ns < kLongestNs ? ns : kLongestNs;
}

// Counts the processors that this process may use. Call once, before the others below.
void look_at_processors();

// How long to spin before sleeping, in ns: $VIADUCT_SPIN_US, else what the agent recommends.
std::uint64_t spin_time(std::uint32_t recommended_us);

// Passes a moment of a wait that looks again and again; `looks`: how often it has found nothing.
// `others`: what is awaited comes from another process of this host. True: another thread may have
// had the processor, and another look is worth while.
bool pause(Crowd& crowd, std::uint32_t looks, bool others);

// As pause(); returns false if it is better to sleep.
bool spin(Crowd& crowd, std::uint32_t looks, bool others);

// A bounded time of looking again and again.
class Spinner {
 public:
  Spinner(Crowd& crowd, std::uint64_t start, std::uint64_t until, bool others);

  // Waits a moment. False when the time is up, or when it is better to sleep.
  bool again();

 private:
  Crowd& crowd_;
  std::uint64_t until_;
  std::uint64_t last_;  // when the clock was last looked at
  bool others_;
  bool crowded_;
  std::uint32_t looks_ = 0;
};

}  // namespace viaduct::vipl

#endif
