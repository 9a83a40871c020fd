// The time for which a thread spins before it sleeps, as its waits teach. To look for longer than the awaited thing takes
// spares a wake-up, of 20 to 30 us; where that takes longer than the user allows, spinning is in vain.
//
// The answer to a message passes several threads. If all of them sleep it takes as many wake-ups longer, and none of them
// would learn that it comes soon when they spin. So a wait is long only beyond what they all take to wake up.
//
// libvipl includes this too: nothing here throws, allocates or needs more than the C library.
#ifndef VIADUCT_KAGENT_CONTRACT_SPIN_TIME_H
#define VIADUCT_KAGENT_CONTRACT_SPIN_TIME_H

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace viaduct::idle {

// Of one kind of wait. Any thread may call anything; of two calls at once one may be forgotten. All zeros: nothing is
// known. All times are in ns; `most`: what the user allows.
class SpinTime {
 public:
  // Of an exchange between two programs with ports of their own; of one that passes the agents of both hosts.
  static constexpr unsigned kPrograms = 2, kProgramsAndAgents = 4;
  static constexpr std::uint32_t kFirst = 50'000, kWakeUp = 25'000;

  // 0: it sleeps at once.
  std::uint64_t ns(std::uint64_t most) const {
    const std::uint64_t ns = now();
    return ns == kNone ? 0 : std::min(ns, most);
  }
  void clear() { ns_.store(0, std::memory_order_relaxed); }
  // A thread has slept, and what it waited for has taken so long from the begin of its spinning. `sleepers`: how many
  // threads may have had to wake up for that, it included.
  void slept(std::uint64_t waited, std::uint64_t most, unsigned sleepers) {
    std::uint64_t ns = now();
    if (waited > most + std::uint64_t{kWakeUp} * sleepers) {
      ns = ns >= kShortest ? ns / 4 : kNone;
    } else {
      ns = std::clamp<std::uint64_t>(2 * ns, kShortest, std::max<std::uint64_t>(most, kShortest));
    }
    ns_.store(static_cast<std::uint32_t>(ns), std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint32_t kShortest = 10'000, kNone = 1;

  std::uint32_t now() const {
    const std::uint32_t ns = ns_.load(std::memory_order_relaxed);
    return ns != 0 ? ns : kFirst;
  }

  std::atomic<std::uint32_t> ns_{0};
};

// Of the waits on words in memory, each kind by its word.
class SpinTimes {
 public:
  // Nothing is known any more.
  void clear() {
    for (SpinTime& each : times_) each.clear();
  }

  SpinTime& of(const void* word) {
    constexpr std::size_t kLine = 64;
    return times_[reinterpret_cast<std::uintptr_t>(word) / kLine % kTimes];
  }

 private:
  static constexpr std::size_t kTimes = 64;
  SpinTime times_[kTimes];
};

}  // namespace viaduct::idle

#endif
