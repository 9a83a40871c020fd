// Decides when the kernel is asked while lanes have events.
#ifndef VIADUCT_SOVIA_POLL_KERNEL_SHARE_H
#define VIADUCT_SOVIA_POLL_KERNEL_SHARE_H

#include <cstdint>

#include "sovia/process/clock.h"

namespace viaduct::sovia {

// The kernel is asked at least every kCallsWithout calls and every kNsWithout ns, and always in the call after one in
// which it had events.
struct KernelShare {
  static constexpr unsigned kCallsWithout = 4;
  static constexpr std::uint64_t kNsWithout = 20'000;

  bool can_wait() {
    return !gave && !has_part && ++calls_without < kCallsWithout && now_ns() - asked_at < kNsWithout;
  }
  void was_asked(bool gave_something) {
    gave = gave_something;
    calls_without = 0;
    asked_at = now_ns();
  }

  bool comes_first = false;
  bool gave = true;
  bool has_part = false;  // the kernel serves some of the collected sockets
  unsigned calls_without = 0;
  std::uint64_t asked_at = 0;
};

}  // namespace viaduct::sovia

#endif
