// How a thread passes the time until something happens; for the agent and for programs.
//
// Spinning is good as long as the awaited event comes soon. Where processors are few, the thread that spins may keep
// the very thread that it waits for off the processor, so it gives way at almost every look. Where there are many,
// giving way costs more than it brings, so the thread only pauses.
//
// This holds for threads that have the processors for themselves. When other work wants them too, a thread that gives
// way stands behind one with a full slice (milliseconds), while a thread that sleeps goes before it when it is woken.
// So a thread that has lost much of its time by giving way sleeps instead, for a while (Crowd).
//
// libvipl includes this too: nothing here throws, allocates or needs more than the C library.
#ifndef VIADUCT_KAGENT_CONTRACT_IDLE_H
#define VIADUCT_KAGENT_CONTRACT_IDLE_H

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

namespace viaduct::idle {

inline constexpr unsigned kFewProcessors = 4;        // fewer than this are few
inline constexpr std::uint32_t kYieldEvery = 4096;   // many: looks between yields
// Few processors: looks before the first yield. The agent yields at once, as the threads that it gives way to wait
// for it.
inline constexpr std::uint32_t kLooksOfAgent = 0;
inline constexpr std::uint32_t kLooksOfProgram = 2;

// Whether it is time to give way after so many looks that found nothing.
constexpr bool gives_way(bool few_processors, std::uint32_t looks, std::uint32_t at_first) {
  return few_processors ? looks > at_first : looks % kYieldEvery == 0;
}

// Whether the calling thread may use few processors only.
inline bool are_processors_few() {
  unsigned long mask[128] = {};
  if (::syscall(SYS_sched_getaffinity, 0, sizeof mask, mask) < 0) return false;
  unsigned count = 0;
  for (const unsigned long word : mask) count += static_cast<unsigned>(__builtin_popcountl(word));
  return count < kFewProcessors;
}

// One pause instruction.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

// Whether others want the processors on which we spin, as seen from how long it takes to get a processor back. A
// single long wait is no sign of that: the kernel has work of its own, and so has the host of a virtual machine. Any
// thread may call anything. All zeros: no others have been seen.
class Crowd {
 public:
  bool is_here(std::uint64_t now) const { return now < until_.load(std::memory_order_relaxed); }

  // Between `before` and `after` the thread did nothing but give way, or look for work. Our own programs and agents
  // take less than kLongNs before they give way themselves; other work takes no less.
  void note(std::uint64_t before, std::uint64_t after) {
    if (after - before >= kLongNs) [[unlikely]] note_long_wait(before, after);
  }

 private:
  static constexpr std::uint64_t kLongNs = 300'000;
  // Others are here when so much has been lost in long waits. An eighth of all time may be lost unnoticed.
  static constexpr std::uint64_t kMuchNs = 5'000'000;
  static constexpr std::uint64_t kForgottenShare = 8;
  // A sleep costs less than a lost slice, but more than undisturbed spinning. So threads sleep instead of spinning
  // for kTimesAsLong slices at first, and twice as long each time that others still want the processors afterwards.
  static constexpr std::uint64_t kTimesAsLong = 4;
  static constexpr std::uint64_t kMostNs = 1'000'000'000;

  void note_long_wait(std::uint64_t before, std::uint64_t after) {
    const std::uint64_t took = after - before;
    const std::uint64_t until = until_.load(std::memory_order_relaxed);
    const bool still_here = until != 0 && before < until + took;
    if (!still_here && lose(before, after) < kMuchNs) return;
    const std::uint64_t held = hold_.load(std::memory_order_relaxed);
    std::uint64_t hold = took * kTimesAsLong;
    if (still_here && hold < 2 * held) hold = 2 * held;
    if (hold > kMostNs) hold = kMostNs;
    hold_.store(hold, std::memory_order_relaxed);
    until_.store(after + hold, std::memory_order_relaxed);
  }

  // Adds a long wait; returns the time lost in long waits that is not forgotten yet.
  std::uint64_t lose(std::uint64_t before, std::uint64_t after) {
    const std::uint64_t lost = lost_.load(std::memory_order_relaxed);
    const std::uint64_t last = last_.load(std::memory_order_relaxed);
    const std::uint64_t forgotten = before > last ? (before - last) / kForgottenShare : 0;
    const std::uint64_t now_lost = (lost > forgotten ? lost - forgotten : 0) + (after - before);
    lost_.store(now_lost, std::memory_order_relaxed);
    last_.store(after, std::memory_order_relaxed);
    return now_lost;
  }

  std::atomic<std::uint64_t> until_{0};
  std::atomic<std::uint64_t> hold_{0};
  std::atomic<std::uint64_t> lost_{0};  // in long waits, as of last_
  std::atomic<std::uint64_t> last_{0};  // when the last long wait ended
};

}  // namespace viaduct::idle

#endif
