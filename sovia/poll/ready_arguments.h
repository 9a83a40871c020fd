// Arguments by address of calls that wait for readiness. The memory need not exist.
#ifndef VIADUCT_SOVIA_POLL_READY_ARGUMENTS_H
#define VIADUCT_SOVIA_POLL_READY_ARGUMENTS_H

#include <signal.h>
#include <time.h>

#include <cstdint>

#include "sovia/lane/waiting.h"
#include "sovia/process/guarded_copy.h"

namespace viaduct::sovia {

struct Limit {
  bool look_only = false;
  std::uint64_t deadline = kNever;

  // Takes the time limit. False if the kernel has to refuse it.
  bool take(const timespec* timeout) {
    if (timeout == nullptr) return true;
    timespec time;
    if (!copy_guarded(&time, timeout, sizeof time) || time.tv_sec < 0 || time.tv_nsec < 0 ||
        time.tv_nsec >= 1'000'000'000) {
      return false;
    }
    look_only = time.tv_sec == 0 && time.tv_nsec == 0;
    deadline = look_only ? 0 : deadline_in(&time);
    return true;
  }
};

inline bool is_mask(const sigset_t* mask) {
  constexpr std::size_t kMaskBytes = 8;  // the kernel's
  return mask == nullptr || can_read(mask, kMaskBytes);
}

}  // namespace viaduct::sovia

#endif
