// The time for which a thread spins before it sleeps, as its waits teach. To look for longer than the awaited thing takes
// spares a wake-up, of 20 to 30 us; where that takes longer than the user allows, spinning is in vain.
// As kagent/contract/spin_time.h, for one thread: SOVIA uses nothing of VIPL's but its public headers.
#ifndef VIADUCT_SOVIA_LANE_SPIN_TIME_H
#define VIADUCT_SOVIA_LANE_SPIN_TIME_H

#include <algorithm>
#include <cstdint>

namespace viaduct::sovia {

// A thread's own. All times are in ns; `most`: SOVIA_SPIN_US.
class SpinTime {
 public:
  static constexpr std::uint64_t kFirst = 50'000, kLeast = 10'000;

  std::uint64_t ns(std::uint64_t most) const { return std::min(ns_, most); }
  // The thread has slept, and what it waited for has taken so long, from the begin of its spinning.
  void slept(std::uint64_t waited, std::uint64_t most) { waited <= most ? lengthen(most) : shorten(); }
  // Longer spinning would have spared the sleep.
  void lengthen(std::uint64_t most) { ns_ = std::clamp(2 * ns_, kLeast, std::max(most, kLeast)); }
  // Spinning was in vain.
  void shorten() { ns_ = std::max(ns_ / 4, kLeast); }
  // The wait has ended by what nobody looks at while spinning: after a few of those in a row the thread sleeps at once.
  void looked_elsewhere() { ns_ = ns_ > kLeast ? std::max(ns_ / 4, kLeast) : 0; }

 private:
  std::uint64_t ns_ = kFirst;
};

}  // namespace viaduct::sovia

#endif
