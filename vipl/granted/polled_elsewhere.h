// Whether a thread that sleeps on a granted port does so in vain, because other threads of the program poll.
//
// Each frame wakes the sleeper, even when a polling thread takes it. Where processors are few the sleeper then takes
// the processor from one of the threads that poll. Such a sleeper leaves the port to them for a while. It misses
// nothing: their turns wake it, and when they stop, the progress thread stands in.
//
// For one wait of one thread.
#ifndef VIADUCT_VIPL_GRANTED_POLLED_ELSEWHERE_H
#define VIADUCT_VIPL_GRANTED_POLLED_ELSEWHERE_H

#include <cstdint>

namespace viaduct::vipl {

class PolledElsewhere {
 public:
  static constexpr std::uint32_t kTurnsOfAPoller = 4;  // in one sleep
  static constexpr unsigned kSleepsInVain = 8;  // more than those that were not
  static constexpr std::uint64_t kLeaveNs = 100'000'000;

  // The thread slept on the port, and what it awaits has not come. `turns`: those of all threads meanwhile, counted
  // modulo 2^32.
  void slept(std::uint32_t turns) {
    if (turns >= kTurnsOfAPoller) {
      ++in_vain_;
    } else if (in_vain_ != 0) {
      --in_vain_;
    }
  }

  // True, once for each time that it is so: the thread should leave the port alone for kLeaveNs.
  bool leaves() {
    if (in_vain_ < kSleepsInVain) return false;
    in_vain_ = 0;
    return true;
  }

 private:
  unsigned in_vain_ = 0;
};

}  // namespace viaduct::vipl

#endif
