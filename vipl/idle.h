// How a thread passes the time until something happens: the one place for the figures.
//
// On a machine with few processors the thread that spins may keep off the processor the very one
// that it waits for, so it gives way at almost every look. On a machine with many, giving way costs
// more than it brings, so it only pauses. A granted program drives its own NIC and so waits for no
// other process of its host: it seldom gives way, and does not pause between looks that cost as much.
#ifndef VIADUCT_VIPL_IDLE_H
#define VIADUCT_VIPL_IDLE_H

#include <cstdint>

namespace viaduct::vipl {

inline constexpr std::uint64_t kNever = ~0ull;

// CLOCK_MONOTONIC in ns.
std::uint64_t now_ns();

// The moment `timeout_ms` from `now`; kNever when the timeout is one.
std::uint64_t deadline_after(std::uint64_t now, std::uint64_t timeout_ms);

// How long it is until then; 0 if it is past, kNever if it never comes.
inline std::uint64_t time_until(std::uint64_t then) {
  if (then == kNever) return kNever;
  const std::uint64_t now = now_ns();
  return then > now ? then - now : 0;
}

// One pause instruction.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

// Sleeps for a millisecond.
void nap();

// Counts the processors that this process may use. Call once, before the others below.
void look_at_processors();

// How long to spin before sleeping, in ns: $VIADUCT_SPIN_US, else what the agent recommends.
std::uint64_t spin_time(std::uint32_t recommended_us);

// Call when a poll of the program's own (Done) has found nothing. `misses` is the calling thread's
// number of such polls in a row. `others`: what is awaited comes from another process of this host.
// True: it may have had the processor meanwhile, and another look is worth while.
bool missed(std::uint32_t& misses, bool others = true);

// A bounded time of looking again and again.
class Spinner {
 public:
  explicit Spinner(std::uint64_t until_ns, bool others = true)
      : until_(until_ns), others_(others) {}

  // Waits a moment. False when the time is up.
  bool again();

 private:
  std::uint64_t until_;
  bool others_;
  std::uint32_t looks_ = 0;
};

}  // namespace viaduct::vipl

#endif
